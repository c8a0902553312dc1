#include "server/sched/keeping_turns.h"

#include <algorithm>

namespace autocfg::server {

bool KeepingTurns::Keeps(double now_s) {
  if (turn_ && now_s >= turn_->end_s) {
    if (turn_->keeps) {
      turn_ = Turn{turn_->job, false, now_s, now_s + turn_->end_s - turn_->begin_s};
    } else {
      turn_.reset();
    }
  }
  return !turn_ || turn_->keeps;
}

void KeepingTurns::Assigned(const Assignment& assignment, double now_s) {
  const auto started = [&](const Lease& lease) { return lease.key == turn_->job; };
  if (turn_ && std::any_of(assignment.leases.begin(), assignment.leases.end(), started)) turn_.reset();
  if (!assignment.waits) return;
  // If the oldest job was cancelled, the next one inherits its turn. So a client that queues and cancels jobs
  // prolongs no turn.
  if (turn_) {
    turn_->job = assignment.waits->job;
  } else {
    turn_ = Turn{assignment.waits->job, true, now_s, assignment.waits->until_s};
  }
}

}  // namespace autocfg::server
