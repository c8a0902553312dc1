#include "proto/rpc/call.h"

#include "absl/time/time.h"

namespace autocfg {

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

std::chrono::system_clock::time_point DeadlineIn(double seconds) {
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                std::chrono::duration<double>(seconds));
}

void CallGroup::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : calls_) context->TryCancel();
}

bool CallGroup::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

bool CallGroup::WaitUntilCancelled(double seconds) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), absl::Seconds(seconds));
}

// Cancelling a context before its call begins ends the call as soon as it begins.
CallGroup::Member::Member(CallGroup& group, grpc::ClientContext& context) : group_(group), context_(context) {
  absl::MutexLock lock(&group_.mutex_);
  group_.calls_.insert(&context_);
  if (group_.cancelled_) context_.TryCancel();
}

CallGroup::Member::~Member() {
  absl::MutexLock lock(&group_.mutex_);
  group_.calls_.erase(&context_);
}

}  // namespace autocfg
