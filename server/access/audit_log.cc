#include "server/access/audit_log.h"

#include <ctime>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"
#include "server/access/access_control.h"
#include "server/access/rights.h"

namespace autocfg::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

using Json = nlohmann::ordered_json;

// Returns the time in UTC, with milliseconds.
std::string TimeText(absl::Time time) {
  const std::int64_t ms = absl::ToUnixMillis(time);
  const std::tm utc = fmt::gmtime(static_cast<std::time_t>(ms / 1000));
  return fmt::format("{:%FT%T}.{:03}Z", utc, ms % 1000);
}

std::string LineOf(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string LineOf(const AuditEntry& entry, absl::Time time) {
  Json line = {{"time", TimeText(time)},   {"principal", entry.principal},
               {"token", entry.token},     {"role", entry.role},
               {"peer", entry.peer},       {"method", entry.method},
               {"subject", entry.subject}, {"status", absl::StatusCodeToString(entry.status.code())}};
  if (!entry.status.ok()) line["message"] = std::string(entry.status.message());
  return LineOf(line);
}

// Returns the resource that a request or a response names.
std::string SubjectOf(const google::protobuf::Message& message) {
  for (const char* field : {"name", "study", "worker"}) {
    const auto* found = message.GetDescriptor()->FindFieldByName(field);
    if (found == nullptr || found->is_repeated() ||
        found->type() != google::protobuf::FieldDescriptor::TYPE_STRING)
      continue;
    return message.GetReflection()->GetString(message, found);
  }
  for (const char* field : {"token", "study"}) {
    const auto* found = message.GetDescriptor()->FindFieldByName(field);
    if (found != nullptr && !found->is_repeated() && found->message_type() != nullptr)
      return SubjectOf(message.GetReflection()->GetMessage(message, found));
  }
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

AuditLog::AuditLog(std::unique_ptr<RotatedLines> changes, std::unique_ptr<RotatedLines> refused)
    : changes_(std::move(changes)), refused_(std::move(refused)) {}

AuditLog::~AuditLog() {
  absl::MutexLock lock(&mutex_);
  WriteCount(absl::Now());
}

std::string AuditLog::RefusedPath(const std::string& path) {
  std::filesystem::path refused(path);
  const std::string extension = refused.extension().string();
  refused.replace_extension(".refused" + extension);
  return refused.string();
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(auto changes, RotatedLines::Open(path));
  AUTOCFG_ASSIGN_OR_RETURN(auto refused, RotatedLines::Open(RefusedPath(path)));
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(changes), std::move(refused)));
}

void AuditLog::Write(const AuditEntry& entry) { changes_->Write(LineOf(entry, absl::Now())); }

void AuditLog::WriteRefused(const AuditEntry& entry, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  // A clock that was set back begins a second too.
  if (now >= second_ + absl::Seconds(1) || now < second_) {
    WriteCount(now);
    second_ = now;
    lines_in_second_ = 0;
  }
  if (lines_in_second_ == kMostRefusedLines) {
    ++not_written_;
    return;
  }
  ++lines_in_second_;
  refused_->Write(LineOf(entry, now));
}

void AuditLog::WriteCount(absl::Time now) {
  if (not_written_ == 0) return;
  refused_->Write(LineOf(Json{{"time", TimeText(now)},
                              {"not_written", not_written_},
                              {"message", fmt::format("{} more calls were refused in the second from {}",
                                                      not_written_, TimeText(second_))}}));
  not_written_ = 0;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AuditCalls(const AccessControl& access,
                                                                                  AuditLog& log) {
  return std::make_unique<AuditedCalls>(access, log);
}

}  // namespace autocfg::server
