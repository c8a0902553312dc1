#include "server/access/audit_log.h"

#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"
#include "server/access/access_control.h"
#include "server/access/rights.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr std::size_t kFileBytes = std::size_t{16} << 20;
constexpr std::size_t kOldFiles = 8;

// Returns the resource that a request or a response names.
std::string SubjectOf(const google::protobuf::Message& message) {
  for (const char* field : {"name", "study", "worker"}) {
    const auto* found = message.GetDescriptor()->FindFieldByName(field);
    if (found == nullptr || found->is_repeated() ||
        found->type() != google::protobuf::FieldDescriptor::TYPE_STRING)
      continue;
    return message.GetReflection()->GetString(message, found);
  }
  if (const auto* token = message.GetDescriptor()->FindFieldByName("token");
      token != nullptr && token->message_type() != nullptr)
    return SubjectOf(message.GetReflection()->GetMessage(message, token));
  return "";
}

// gRPC keeps the messages of these services, all of them protobuf's, as void pointers.
const google::protobuf::Message* MessageAt(const void* pointer) {
  return static_cast<const google::protobuf::Message*>(pointer);
}

class AuditedCall final : public Interceptor {
 public:
  AuditedCall(ServerRpcInfo* info, const AccessControl& access, AuditLog& log)
      : info_(info), access_(access), log_(log) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      if (const auto* request = MessageAt(methods->GetRecvMessage())) subject_ = SubjectOf(*request);
    }
    if (subject_.empty() && methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      if (const auto* response = MessageAt(methods->GetSendMessage())) subject_ = SubjectOf(*response);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      const Caller caller = access_.CallerOf(*info_->server_context());
      log_.Write({.principal = caller.principal,
                  .token = caller.token,
                  .role = std::string(RoleName(caller.role)),
                  .peer = caller.peer,
                  .method = info_->method(),
                  .subject = subject_,
                  .status = {static_cast<absl::StatusCode>(status.error_code()), status.error_message()}});
    }
    methods->Proceed();
  }

 private:
  ServerRpcInfo* const info_;
  const AccessControl& access_;
  AuditLog& log_;
  std::string subject_;
};

class AuditedCalls final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  AuditedCalls(const AccessControl& access, AuditLog& log) : access_(access), log_(log) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return IsAudited(info->method()) ? new AuditedCall(info, access_, log_) : nullptr;
  }

 private:
  const AccessControl& access_;
  AuditLog& log_;
};

}  // namespace

AuditLog::AuditLog(std::shared_ptr<spdlog::logger> lines) : lines_(std::move(lines)) {}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  try {
    auto lines = std::make_shared<spdlog::logger>(
        "audit", std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kFileBytes, kOldFiles));
    lines->set_pattern("%v");
    lines->set_level(spdlog::level::info);
    lines->flush_on(spdlog::level::info);
    lines->set_error_handler([path](const std::string& error) {
      spdlog::error("{}: an entry of the audit log was not written: {}", path, error);
    });
    return std::unique_ptr<AuditLog>(new AuditLog(std::move(lines)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(fmt::format("{}: the audit log cannot be written: {}", path, error.what()));
  }
}

void AuditLog::Write(const AuditEntry& entry) {
  const auto now = std::chrono::system_clock::now();
  const auto whole = std::chrono::floor<std::chrono::seconds>(now);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(now - whole);
  const std::tm utc = fmt::gmtime(std::chrono::system_clock::to_time_t(whole));
  nlohmann::ordered_json line = {{"time", fmt::format("{:%FT%T}.{:03}Z", utc, rest.count())},
                                 {"principal", entry.principal},
                                 {"token", entry.token},
                                 {"role", entry.role},
                                 {"peer", entry.peer},
                                 {"method", entry.method},
                                 {"subject", entry.subject},
                                 {"status", absl::StatusCodeToString(entry.status.code())}};
  if (!entry.status.ok()) line["message"] = std::string(entry.status.message());
  lines_->info("{}", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AuditCalls(const AccessControl& access,
                                                                                  AuditLog& log) {
  return std::make_unique<AuditedCalls>(access, log);
}

}  // namespace autocfg::server
