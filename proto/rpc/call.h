// One unary call: its deadline, its cancellation, its status as ours. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace autocfg {

// The same code and message; the codes of both have the same numbers and meanings.
absl::Status ToAbsl(const grpc::Status& status);

// So many seconds from now. Requires: finite.
std::chrono::system_clock::time_point DeadlineIn(double seconds);

// Calls that are ended together.
class CallGroup {
 public:
  // Ends the calls under way, and each that begins later at once: CANCELLED.
  void Cancel();
  bool cancelled() const;
  // Waits for so many seconds, or until it is cancelled. True: it is.
  bool WaitUntilCancelled(double seconds);

  // A call of the group, as long as it lives. `context` outlives it.
  class Member {
   public:
    Member(CallGroup& group, grpc::ClientContext& context);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    CallGroup& group_;
    grpc::ClientContext& context_;
  };

 private:
  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

struct CallOptions {
  double deadline_s;
  bool wait_for_ready = false;  // waits, up to the deadline, for a server that is not there
};

// `response = (stub.*method)(request)`.
template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response, CallGroup& group, const CallOptions& options) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(options.deadline_s));
  context.set_wait_for_ready(options.wait_for_ready);
  const CallGroup::Member member(group, context);
  return ToAbsl((stub.*method)(&context, request, &response));
}

}  // namespace autocfg
