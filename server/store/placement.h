// Selects the workers for a queued job, and says why it waits. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "search/plan/cluster/engine_device.h"

namespace autocfg::server {

// A worker that takes jobs, in its current session.
struct PlacementWorker {
  std::string host;
  std::optional<DeviceKind> kind = DeviceKind::kCpu;  // empty: one that this version does not know
  std::set<std::string> engines = {};                 // that it offers beside the built-in one
  std::int64_t slots = 0;
  std::int64_t free = 0;  // slots not used by its running shares
  bool draining = false;
  bool waiting = false;  // waits for a job and has not been given one yet
  // Of its running shares: by when they end at the latest, and their ranks.
  std::vector<std::pair<double, std::int64_t>> ends = {};
  // Slots that a waiting job of the pool gets, and from when on (KeepSlots). Infinity: no job waits for the
  // pool that the worker belongs to.
  std::int64_t kept = 0;
  double kept_from_s = std::numeric_limits<double>::infinity();
  bool closed = false;  // takes no further jobs at this look
  // Time in which its jobs must end.
  double left_s = std::numeric_limits<double>::infinity();
};

struct PlacementJob {
  std::int64_t ranks = 0;
  std::optional<DeviceKind> needs = {};  // hardware of its workers; empty: any
  bool fewer_ranks = false;
  std::string engine = {};           // that its workers must offer; empty: the built-in one
  std::set<std::string> avoid = {};  // hosts; see LeaseJobs
  double ends_s = std::numeric_limits<double>::infinity();  // at the latest, if it starts now
  double needs_s = 0;                                       // time that its workers must have left
  // NOLINTNEXTLINE(modernize-use-nullptr): false positive
  friend auto operator<=>(const PlacementJob&, const PlacementJob&) = default;
};

struct PlacedShare {
  std::size_t worker = 0;  // index
  std::int64_t ranks = 0;
};

struct Placement {
  // In rank order; empty: the job cannot start now.
  std::vector<PlacedShare> shares;
  // If the job cannot start now, workers that could run it once idle.
  std::vector<std::size_t> able;
  // Why the workers could not run the job even if idle, as a sentence for users. Empty if they could.
  std::string nobody;
};

// Implements the rules of LeaseJobs (server/store/store.h). Ties go to the first worker.
Placement Place(const PlacementJob& job, std::span<const PlacementWorker> workers);
// Takes the shares of a placement of the job.
void Take(const PlacementJob& job, const std::vector<PlacedShare>& shares,
          std::span<PlacementWorker> workers);

// Keeps slots for a job that must wait, of the workers that are free first by the limits of what runs there.
// A later job gets these slots only if it ends before; so it delays this one by nothing, and what else is
// free is not idle. `able`: of the job's placement, the pool. Returns false, without effect, if another job
// keeps slots of the pool: one at a time, as their times depend on each other.
bool KeepSlots(const PlacementJob& job, const std::vector<std::size_t>& able, double now_s,
               std::span<PlacementWorker> workers);

// Why a job waits that workers could run once idle, as sentences for users.
// - `able`: those workers; `studies`: whose jobs run on them
std::string WhyBusy(const PlacementJob& job, std::span<const PlacementWorker> workers,
                    std::span<const std::size_t> able, std::span<const std::string> studies);
// - `study`: whose job comes first there
std::string WhyKept(const std::string& study);

}  // namespace autocfg::server
