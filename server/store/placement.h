// Which workers a queued job goes to. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace autocfg {

// A worker that is at work, in its current session.
struct PlacementWorker {
  std::string host;
  std::string device_kind;  // cpu, cuda; empty: cpu
  std::int64_t slots = 0;
  std::int64_t free = 0;  // slots that its running shares leave
  bool draining = false;
  bool waiting = false;   // for a job, and given none yet
  bool reserved = false;  // for an older job
};

struct PlacementJob {
  std::int64_t ranks = 0;
  std::string device;  // cpu and cuda need workers of that kind, others (paced) run on any
  bool fewer_ranks = false;
  std::set<std::string> avoid;  // hosts on which an attempt at it has failed
};

struct PlacedShare {
  std::size_t worker = 0;  // index
  std::int64_t ranks = 0;
};

struct Placement {
  // In the order of ranks; empty: not now.
  std::vector<PlacedShare> shares;
  // Not now, but idle these could take it: they are kept from later jobs.
  std::vector<std::size_t> reserves;
  // Not even idle could the workers take it: why, in a sentence for users.
  std::string nobody;
};

// The rules are LeaseJobs' (server/store/store.h). Equals go to the worker that stands first.
Placement Place(const PlacementJob& job, std::span<const PlacementWorker> workers);

}  // namespace autocfg
