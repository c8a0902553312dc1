#include "server/studies/planning_gate.h"

#include <malloc.h>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"

namespace autocfg::server {
namespace {

constexpr int kLargeBlock = 256 << 10;                     // bytes
constexpr absl::Duration kLook = absl::Milliseconds(100);  // at a watch while it waits

}  // namespace

void GiveBackLargeBlocksAtOnce() { mallopt(M_MMAP_THRESHOLD, kLargeBlock); }

void GiveBackFreedMemory() { malloc_trim(0); }

PlanningGate::Place::~Place() {
  if (gate_ == nullptr) return;
  GiveBackFreedMemory();
  absl::MutexLock lock(&gate_->mutex_);
  ++gate_->free_;
}

void PlanningGate::ChooseNext() {
  next_ = 0;
  std::int64_t least = 0;
  for (const auto& [call, owner] : waiting_) {
    const auto last = entered_.find(owner);
    const std::int64_t entered = last == entered_.end() ? 0 : last->second;
    if (next_ != 0 && entered >= least) continue;
    next_ = call;
    least = entered;
  }
}

std::optional<PlanningGate::Place> PlanningGate::Enter(const PlanningWatch& watch, const std::string& owner) {
  std::int64_t call = 0;
  {
    absl::MutexLock lock(&mutex_);
    call = ++calls_;
    waiting_.emplace(call, owner);
    ChooseNext();
  }
  const absl::Cleanup leave = [&] {
    absl::MutexLock lock(&mutex_);
    waiting_.erase(call);
    ChooseNext();
  };
  const auto may_enter = [this, call]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return free_ > 0 && next_ == call; };
  while (!watch || watch({})) {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&may_enter), kLook)) continue;
    --free_;
    entered_[owner] = ++entries_;
    return Place(*this);
  }
  return std::nullopt;
}

}  // namespace autocfg::server
