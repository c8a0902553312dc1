// All methods of a coordinator, with any bytes as their request. The methods come from the descriptors of the
// services, so that a new one is fuzzed without a change here.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "autocfg/v1/access_service.pb.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/rpc/channel.h"
#include "server/coordinator/coordinator.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/support/temp_dir.h"

namespace autocfg::test {
namespace {

// A call that waits for work or events ends here.
constexpr std::chrono::milliseconds kCallLimit{250};
// Then the next coordinator begins with an empty database.
constexpr int kCallsOfCoordinator = 5000;
constexpr int kMostAnswers = 8;  // of a stream

std::vector<const google::protobuf::MethodDescriptor*> MethodsOfServices() {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Study::descriptor()->file(), v1::LeaseWorkRequest::descriptor()->file(),
        v1::Token::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m)
        methods.push_back(file->service(s)->method(m));
    }
  }
  return methods;
}

class FuzzedCoordinator {
 public:
  FuzzedCoordinator() {
    KeepGrpc();
    auto store = server::OpenSqliteStore(directory_.File("autocfg.db"));
    CheckThat(store.ok(), "the store cannot be opened");
    server::CoordinatorOptions options;
    options.address = "unix:" + directory_.File("s");
    auto coordinator = server::Coordinator::Start(*std::move(store), options);
    CheckThat(coordinator.ok(), "the coordinator cannot be started");
    coordinator_ = *std::move(coordinator);
    channel_ = grpc::CreateChannel(coordinator_->address(), grpc::InsecureChannelCredentials());
  }

  // Sends one request and reads the answers, of which a stream may have several.
  grpc::Status Call(const google::protobuf::MethodDescriptor& method, const std::string& request) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
    grpc::CompletionQueue queue;
    const auto done = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(
        &context, fmt::format("/{}/{}", method.service()->full_name(), method.name()), &queue);
    call->StartCall(nullptr);
    bool going = done();
    if (going) {
      const grpc::Slice slice(request);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      going = done();
    }
    if (going) {
      call->WritesDone(nullptr);
      done();
      grpc::ByteBuffer answer;
      int answers = 0;
      for (; answers < kMostAnswers; ++answers) {
        call->Read(&answer, nullptr);
        if (!done()) break;
      }
      if (answers == kMostAnswers) context.TryCancel();
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    done();
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
    return status;
  }

 private:
  const TempDir directory_;
  std::unique_ptr<server::Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The first line names the method; any other line stands for one of them. The rest is its request, in the
// text format or encoded.
void FuzzRpc(std::string_view input) {
  static const std::vector<const google::protobuf::MethodDescriptor*> methods = MethodsOfServices();
  static std::unique_ptr<FuzzedCoordinator> coordinator;
  static int calls = 0;
  if (coordinator == nullptr || ++calls % kCallsOfCoordinator == 0) {
    coordinator.reset();
    coordinator = std::make_unique<FuzzedCoordinator>();
  }

  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string name(input.substr(0, end));
  std::string request(input.substr(std::min(end + 1, input.size())));
  const google::protobuf::MethodDescriptor* method = methods[std::hash<std::string>()(name) % methods.size()];
  for (const google::protobuf::MethodDescriptor* known : methods) {
    if (known->name() == name) method = known;
  }

  const google::protobuf::LogSilencer silent;
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(method->input_type())->New());
  if (google::protobuf::TextFormat::ParseFromString(request, message.get()))
    request = message->SerializeAsString();
  const bool parses = message->ParseFromString(request);

  const grpc::Status status = coordinator->Call(*method, request);
  if (status.ok()) return;
  const std::string what =
      fmt::format("{}: {}: {}", method->name(), status.error_code(), status.error_message());
  CheckThat(status.error_code() != grpc::StatusCode::UNKNOWN, what);
  if (!parses) return;  // gRPC's own answer
  CheckThat(status.error_code() != grpc::StatusCode::INTERNAL, what);
  CheckThat(status.error_code() != grpc::StatusCode::DATA_LOSS, what);
  CheckMessage(status.error_message());
}

constexpr FuzzTarget kRpcTargets[] = {{"rpc", FuzzRpc, {}, 30}};

}  // namespace

std::span<const FuzzTarget> RpcTargets() { return kRpcTargets; }

}  // namespace autocfg::test
