// A unary call of gRPC's callback interface that is answered later, on any thread. Owned by gRPC: it deletes
// itself when gRPC is done with it. Call Answer() once; afterwards only gRPC may use the object.
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

  // Call before the service method returns; gRPC reports no cancellation earlier.
  void set_id(CallId id) { id_ = id; }
  // Called when gRPC is done with the call and the caller did not receive the answer.
  void set_undelivered(std::function<void()> undelivered) { undelivered_ = std::move(undelivered); }

  bool caller_gone() const { return gone_already_ || context_->IsCancelled(); }
  void Answer(const absl::Status& status) { Finish(ToGrpc(status)); }

  void OnCancel() override {
    const CallId id = id_;  // also synchronizes with everything before set_id
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

}  // namespace autocfg::server
