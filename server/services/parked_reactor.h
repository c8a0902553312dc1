// A unary call of gRPC's callback interface that is parked and answered later, on any thread. Park() must be
// called once, on any thread; the object deletes itself when Park() has ended and gRPC is done with it. Call
// Answer() once; afterwards only gRPC and Park() may use the object.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "proto/rpc/call.h"
#include "server/sched/parked_calls.h"

namespace autocfg::server {

class ParkedReactor final : public grpc::ServerUnaryReactor {
 public:
  // `gone(id, broke)`: the caller left before the answer; `broke`: its deadline had not passed.
  ParkedReactor(grpc::CallbackServerContext* context, std::function<void(CallId, bool)> gone)
      : context_(context), gone_(std::move(gone)) {}

  // Parks the call: `park` may answer it, and returns the ID by which `gone` finds it.
  void Park(const std::function<CallId()>& park) {
    id_ = park();
    if (gone_already_) SayGone();  // perhaps while it was being parked
    if (--users_ == 0) delete this;
  }
  // Called when gRPC is done with the call and the caller did not receive the answer.
  void set_undelivered(std::function<void()> undelivered) { undelivered_ = std::move(undelivered); }

  bool caller_gone() const { return gone_already_ || context_->IsCancelled(); }
  void Answer(const absl::Status& status) { Finish(ToGrpc(status)); }

  void OnCancel() override {
    broke_ = std::chrono::system_clock::now() < context_->deadline();
    gone_already_ = true;
    SayGone();
  }
  void OnDone() override {
    if (gone_already_ && undelivered_) undelivered_();
    if (--users_ == 0) delete this;
  }

 private:
  // OnCancel and Park may both call it: the later one knows the ID, and a second time has no effect.
  void SayGone() {
    if (const CallId id = id_; id != 0) gone_(id, broke_);
  }

  grpc::CallbackServerContext* const context_;
  const std::function<void(CallId, bool)> gone_;
  std::function<void()> undelivered_;
  std::atomic<CallId> id_ = 0;
  std::atomic<bool> broke_ = false;
  std::atomic<bool> gone_already_ = false;
  std::atomic<int> users_ = 2;  // gRPC and Park()
};

}  // namespace autocfg::server
