#include "worker/jobs/slots.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>

#include "proto/convert/device_convert.h"

namespace autocfg::worker {
namespace {

// Poll interval for `stop`, which wakes no waiter.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

std::vector<int> SlotPool::Take(int count, const std::atomic<bool>& stop) {
  std::unique_lock lock(mutex_);
  if (count <= 0 || static_cast<std::size_t>(count) > taken_.size()) return {};
  const auto enough = [&] { return std::count(taken_.begin(), taken_.end(), false) >= count; };
  while (!stop) {
    if (!given_.wait_for(lock, kLook, enough)) continue;
    std::vector<int> slots;
    for (std::size_t slot = 0; slots.size() < static_cast<std::size_t>(count); ++slot) {
      if (taken_[slot]) continue;
      taken_[slot] = true;
      slots.push_back(static_cast<int>(slot));
    }
    return slots;
  }
  return {};
}

void SlotPool::Give(const std::vector<int>& slots) {
  const std::lock_guard lock(mutex_);
  given_.notify_all();
  for (const int slot : slots) taken_[static_cast<std::size_t>(slot)] = false;
}

v1::Share ShareOf(const v1::LeaseWorkResponse& lease) {
  if (lease.has_share()) return lease.share();
  v1::Share whole;
  whole.set_ranks(lease.job().ranks());
  whole.set_workers(1);
  return whole;
}

int SlotsToTake(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory) {
  const std::int64_t ranks = ShareOf(lease).ranks();
  return static_cast<int>(lease.job().fewer_ranks() && !lease.has_share() ? std::min(ranks, inventory.slots())
                                                                          : ranks);
}

std::vector<int> SlotsToUse(const v1::Job& job, const v1::Inventory& inventory,
                            const std::vector<int>& slots) {
  const auto places = NeededKind(job) == DeviceKind::kCuda
                          ? static_cast<std::int64_t>(UsableGpus(inventory).size())
                          : inventory.physical_cores();
  if (!job.fewer_ranks() || places <= 0) return slots;
  std::vector<int> used;
  std::set<std::int64_t> seen;
  for (const int slot : slots) {
    if (seen.insert(slot % places).second) used.push_back(slot);
  }
  return used;
}

std::vector<std::vector<int>> PinRanks(int ranks, const std::vector<int>& cores) {
  if (cores.empty()) return {};
  std::vector<std::vector<int>> pins;
  pins.reserve(static_cast<std::size_t>(std::max(0, ranks)));
  for (int rank = 0; rank < ranks; ++rank) {
    pins.push_back({cores[static_cast<std::size_t>(rank) % cores.size()]});
  }
  return pins;
}

std::vector<std::string> PinToGpus(int ranks, const std::vector<std::string>& gpus) {
  if (gpus.empty()) return {};
  std::vector<std::string> pins;
  pins.reserve(static_cast<std::size_t>(std::max(0, ranks)));
  for (int rank = 0; rank < ranks; ++rank) pins.push_back(gpus[static_cast<std::size_t>(rank) % gpus.size()]);
  return pins;
}

std::vector<std::string> UsableGpus(const v1::Inventory& inventory) {
  std::vector<std::string> uuids;
  for (const v1::Gpu& gpu : inventory.gpus()) {
    if (gpu.left_out().empty()) uuids.push_back(gpu.uuid());
  }
  return uuids;
}

}  // namespace autocfg::worker
