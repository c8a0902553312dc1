// All lanes of a rank. They advance together whenever the host waits for an operation of one, and end
// together if one fails. One rank, one thread.
#pragma once

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/comm/streamed/lane.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg::trainer {

class Lanes {
 public:
  explicit Lanes(std::unique_ptr<StreamDriver> driver) : driver_(std::move(driver)) { StepOften(false); }
  ~Lanes() { driver_->SetHostWaitHook({}, HookPace::kSeldom); }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  StreamDriver& driver() const { return *driver_; }
  void Add(Lane* lane) { all_.push_back(lane); }
  void Remove(Lane* lane) { std::erase(all_, lane); }

  // Sets how often the lanes advance while the host waits for the device. If often, what a lane records after
  // a transfer follows it at once; this costs the host.
  void StepOften(bool often) {
    driver_->SetHostWaitHook([this] { Step(); }, often ? HookPace::kOften : HookPace::kSeldom);
  }

  void Step() {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    try {
      for (Lane* lane : all_) lane->Step();
    } catch (...) {
      failure_ = std::current_exception();
      for (Lane* lane : all_) lane->Abort();  // a rank that fails in one group stops in all
      throw;
    }
  }

 private:
  const std::unique_ptr<StreamDriver> driver_;
  std::vector<Lane*> all_;
  std::exception_ptr failure_;  // null: no failure
};

}  // namespace autocfg::trainer
