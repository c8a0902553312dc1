// Selects the workers for a queued job, and says why it waits. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "search/plan/engine_device.h"

namespace autocfg::server {

// A worker that takes jobs, in its current session.
struct PlacementWorker {
  std::string host;
  std::optional<DeviceKind> kind = DeviceKind::kCpu;  // empty: one that this version does not know
  std::set<std::string> engines = {};                 // that it offers beside the built-in one
  std::int64_t slots = 0;
  std::int64_t free = 0;  // slots not used by its running shares
  bool draining = false;
  bool waiting = false;   // waits for a job and has not been given one yet
  bool reserved = false;  // for an older job
  // Time in which its jobs must end.
  double left_s = std::numeric_limits<double>::infinity();
};

struct PlacementJob {
  std::int64_t ranks = 0;
  std::optional<DeviceKind> needs = {};  // hardware of its workers; empty: any
  bool fewer_ranks = false;
  std::string engine = {};           // that its workers must offer; empty: the built-in one
  std::set<std::string> avoid = {};  // hosts; see LeaseJobs
  double needs_s = 0;                // time that its workers must have left
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
  // If the job cannot start now, workers that could run it once idle; they are kept from later jobs.
  std::vector<std::size_t> reserves;
  // Why the workers could not run the job even if idle, as a sentence for users. Empty if they could.
  std::string nobody;
};

// Implements the rules of LeaseJobs (server/store/store.h). Ties go to the first worker.
Placement Place(const PlacementJob& job, std::span<const PlacementWorker> workers);

// Why a job waits that workers could run once idle, as sentences for users.
// - `able`: those workers; `studies`: whose jobs run on them
std::string WhyBusy(const PlacementJob& job, std::span<const PlacementWorker> workers,
                    std::span<const std::size_t> able, std::span<const std::string> studies);
// - `study`: whose older job those workers are kept for
std::string WhyKept(const std::string& study);

}  // namespace autocfg::server
