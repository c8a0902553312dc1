// Bounds the studies that are planned at once, and with them the memory and the cores that planning takes.
// Owners take turns, so that nobody waits for all the studies of another one. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "search/planner/planning.h"

namespace autocfg::server {

// From now on, malloc maps each block of 256 KiB or more on its own, and gives it back once it is freed. By
// default it soon keeps such blocks in its arenas, where plannings at the same time leave large holes: with
// three of the largest, 50 MB. Call once at the start of a process.
void GiveBackLargeBlocksAtOnce();

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

  // Waits for a place: the next one is for the owner who got none for longest, in the order of the calls.
  // Returns nullopt once `watch`, which is asked often meanwhile, says no.
  std::optional<Place> Enter(const PlanningWatch& watch, const std::string& owner = "");

 private:
  void ChooseNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  int free_ ABSL_GUARDED_BY(mutex_);
  std::int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::int64_t, std::string> waiting_
      ABSL_GUARDED_BY(mutex_);                     // owners, by the numbers of their calls
  std::int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // of those; 0: none waits
  std::map<std::string, std::int64_t> entered_
      ABSL_GUARDED_BY(mutex_);  // the last call of an owner that got in
  std::int64_t entries_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What a study's planning needs besides its problem.
struct PlanningTerms {
  PlanningGate* gate = nullptr;  // null: no bound
  std::string owner = {};        // of the study
  PlanningWatch watch = {};
};

}  // namespace autocfg::server
