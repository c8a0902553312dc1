// The slots of a worker, each of which runs one rank: which are taken, which a job occupies, and the core or
// GPU that each stands for. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::worker {

// Tracks which slots are taken.
class SlotPool {
 public:
  explicit SlotPool(int slots) : taken_(static_cast<std::size_t>(slots)) {}

  // Waits until `count` slots are free; returns the lowest free ones, ascending. Waiting is needed because a
  // cancelled job may still be ending its processes when the coordinator assigns its slots again. Returns an
  // empty list once `stop` is true, or if the worker has fewer slots.
  std::vector<int> Take(int count, const std::atomic<bool>& stop);
  void Give(const std::vector<int>& slots);

 private:
  std::mutex mutex_;  // of std, because its timed waits go by the steady clock
  std::condition_variable given_;
  std::vector<bool> taken_;  // guarded by mutex_
};

// Returns the lease's share, or a share of the whole job.
v1::Share ShareOf(const v1::LeaseWorkResponse& lease);

// Returns the number of slots that the job occupies on a worker: the ranks of its share, else job.ranks. If
// fewer_ranks is set, limited by the worker's slots.
int SlotsToTake(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory);

// Selects, from the slots given to a job, those that run a rank, in their order. Normally all. If fewer_ranks
// is set, the first on each core (device cuda: each GPU), so that copies of one rank do not contend. Slot i
// is core i mod cores, and GPU i mod GPUs.
std::vector<int> SlotsToUse(const v1::Job& job, const v1::Inventory& inventory,
                            const std::vector<int>& slots);

// Returns the core of each rank: rank mod cores, so each rank has its own core if there are enough. Empty if
// `cores` is empty.
std::vector<std::vector<int>> PinRanks(int ranks, const std::vector<int>& cores);

// Returns the GPU visible to each rank: rank mod GPUs, so surplus ranks share GPUs. Empty if `gpus` is empty.
std::vector<std::string> PinToGpus(int ranks, const std::vector<std::string>& gpus);

// Returns the UUIDs of the GPUs that ranks run on, in rank order.
std::vector<std::string> UsableGpus(const v1::Inventory& inventory);

}  // namespace autocfg::worker
