#include "server/services/malformed_calls.h"

#include <string>
#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

class MalformedCall final : public Interceptor {
 public:
  explicit MalformedCall(std::string method) : method_(std::move(method)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      const bool by_grpc = status.error_code() == grpc::StatusCode::INTERNAL ||
                           status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
      if (by_grpc && status.error_message().empty()) {
        methods->ModifySendStatus(
            {grpc::StatusCode::INVALID_ARGUMENT,
             fmt::format(
                 "{}: the bytes of the request are no message of its type; see the server's reflection",
                 method_)});
      }
    }
    methods->Proceed();
  }

 private:
  const std::string method_;
};

class Factory final : public ServerInterceptorFactoryInterface {
 public:
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new MalformedCall(info->method());
  }
};

}  // namespace

std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> MalformedCallsSaySo() {
  std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>());
  return factories;
}

}  // namespace autocfg
