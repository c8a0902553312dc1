#include "server/studies/planning_gate.h"

#include <malloc.h>

#include "absl/time/time.h"

namespace autocfg::server {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);  // at a watch while it waits

}  // namespace

void GiveBackFreedMemory() { malloc_trim(0); }

PlanningGate::Place::~Place() {
  if (gate_ == nullptr) return;
  GiveBackFreedMemory();
  absl::MutexLock lock(&gate_->mutex_);
  ++gate_->free_;
}

std::optional<PlanningGate::Place> PlanningGate::Enter(const PlanningWatch& watch) {
  const auto has_room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return free_ > 0; };
  while (!watch || watch({})) {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&has_room), kLook)) continue;
    --free_;
    return Place(*this);
  }
  return std::nullopt;
}

}  // namespace autocfg::server
