// One unary call: its deadline, cancellation and status conversion. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <set>

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace autocfg {

// Payload of a status that a service answers as UNAVAILABLE, whatever its code: the caller may repeat the
// call, and has reached no limit of its own.
inline constexpr const char* kAnswersUnavailable = "autocfg/answers_unavailable";

// Keep code and message. Both libraries use the same code numbers and meanings. ToGrpc answers callers, in
// one line: a message may quote what one of them sent.
absl::Status ToAbsl(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// Returns the time `seconds` from now. Requires: finite.
std::chrono::system_clock::time_point DeadlineIn(double seconds);

// A group of calls that can be cancelled together.
class CallGroup {
 public:
  // Cancels all in-flight calls, and immediately each later one: CANCELLED.
  void Cancel();
  bool cancelled() const;
  // Waits until cancelled, at most `seconds`. Returns true if cancelled.
  bool WaitUntilCancelled(double seconds);

  // Registers a call with the group for its lifetime. `context` must outlive it.
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
  // Of std, because its timed waits go by the steady clock. Guards the members below.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::set<grpc::ClientContext*> calls_;
};

struct CallOptions {
  double deadline_s;
  bool wait_for_ready = false;  // waits, up to the deadline, for a server that is not reachable yet
};

// Performs `response = (stub.*method)(request)`.
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
