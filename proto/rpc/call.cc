#include "proto/rpc/call.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace autocfg {

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const bool unavailable = status.GetPayload(kAnswersUnavailable).has_value();
  return {unavailable ? grpc::StatusCode::UNAVAILABLE : static_cast<grpc::StatusCode>(status.code()),
          base::OneLine({status.message().data(), status.message().size()})};
}

std::chrono::system_clock::time_point DeadlineIn(double seconds) {
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                std::chrono::duration<double>(seconds));
}

void CallGroup::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
  for (grpc::ClientContext* context : calls_) context->TryCancel();
}

bool CallGroup::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

bool CallGroup::WaitUntilCancelled(double seconds) {
  // A longer wait would overflow the clock's range.
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24);
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::min(std::chrono::duration<double>(seconds), kLongest),
                           [this] { return cancelled_; });
}

// Cancelling a context before its call begins ends the call as soon as it begins.
CallGroup::Member::Member(CallGroup& group, grpc::ClientContext& context) : group_(group), context_(context) {
  const std::lock_guard lock(group_.mutex_);
  group_.calls_.insert(&context_);
  if (group_.cancelled_) context_.TryCancel();
}

CallGroup::Member::~Member() {
  const std::lock_guard lock(group_.mutex_);
  group_.calls_.erase(&context_);
}

}  // namespace autocfg
