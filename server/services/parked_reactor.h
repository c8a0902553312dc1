// A unary call of gRPC's callback interface whose answer comes later, on whatever thread has it. gRPC's own
// object: it deletes itself once gRPC is done with it. Answer() is to be called once; from there on nobody
// but gRPC may touch it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/sched/parked_calls.h"
#include "server/services/status.h"

namespace autocfg {

class ParkedReactor final : public grpc::ServerUnaryReactor {
 public:
  // `gone(id, broke)`: the caller went before it had the answer; `broke`: though its time was not over.
  ParkedReactor(grpc::CallbackServerContext* context, std::function<void(CallId, bool)> gone)
      : context_(context), gone_(std::move(gone)) {}

  // Before the method returns that makes the call: gRPC tells of nothing earlier.
  void set_id(CallId id) { id_ = id; }
  // Called when gRPC is done with the call and the caller did not get what it was answered.
  void set_undelivered(std::function<void()> undelivered) { undelivered_ = std::move(undelivered); }

  bool caller_gone() const { return gone_already_ || context_->IsCancelled(); }
  void Answer(const absl::Status& status) { Finish(ToGrpc(status)); }

  void OnCancel() override {
    const CallId id = id_;  // and with it all that was before it was set
    gone_already_ = true;
    gone_(id, std::chrono::system_clock::now() < context_->deadline());
  }
  void OnDone() override {
    if (gone_already_ && undelivered_) undelivered_();
    delete this;
  }

 private:
  grpc::CallbackServerContext* const context_;
  const std::function<void(CallId, bool)> gone_;
  std::function<void()> undelivered_;
  std::atomic<CallId> id_ = 0;
  std::atomic<bool> gone_already_ = false;
};

}  // namespace autocfg
