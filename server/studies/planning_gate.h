// Bounds the studies that are planned at once, and with them the memory and the cores that planning takes.
// Thread-safe.
#pragma once

#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "search/planner/planning.h"

namespace autocfg::server {

// Returns to the system what was freed. malloc keeps freed memory in an arena for each of many threads, so
// that without this, studies planned in turn take as much as if they were planned at once. Call when a
// planning, or the use of its plans, is over. Takes milliseconds. Thread-safe.
void GiveBackFreedMemory();

class PlanningGate {
 public:
  explicit PlanningGate(int most) : free_(most) {}

  // A place in the gate, free again once it is destroyed. Then freed memory is given back first.
  class Place {
   public:
    explicit Place(PlanningGate& gate) : gate_(&gate) {}
    Place(Place&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    PlanningGate* gate_;
  };

  // Waits for a place. Returns nullopt once `watch`, which is asked often meanwhile, says no.
  std::optional<Place> Enter(const PlanningWatch& watch);

 private:
  absl::Mutex mutex_;
  int free_ ABSL_GUARDED_BY(mutex_);
};

// What a study's planning needs besides its problem.
struct PlanningTerms {
  PlanningGate* gate = nullptr;  // null: no bound
  PlanningWatch watch = {};
};

}  // namespace autocfg::server
