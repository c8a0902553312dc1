#include "server/store/op_times_key.h"

#include <algorithm>
#include <vector>

#include "base/fnv1a.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "server/store/placement.h"

namespace autocfg::server {
namespace {

constexpr double kDay = 24 * 3600;

std::string DeviceText(const v1::Inventory& inventory) {
  if (WorkerKind(inventory) == DeviceKind::kCpu)
    return fmt::format("{}, {} cores, host {}", inventory.device_fingerprint(), inventory.physical_cores(),
                       inventory.hostname());
  if (inventory.driver().empty()) return inventory.device_fingerprint();
  return fmt::format("{}, driver {}", inventory.device_fingerprint(), inventory.driver());
}

bool Alike(const v1::Inventory& a, const v1::Inventory& b) {
  return WorkerKind(a) == WorkerKind(b) && DeviceText(a) == DeviceText(b) && a.build_id() == b.build_id();
}

// On an otherwise idle worker, slot i is GPU i mod GPUs. A CPU is one device.
std::int64_t RanksPerDevice(const MachineShare& share) {
  if (WorkerKind(share.inventory) == DeviceKind::kCpu) return share.ranks;
  const std::int64_t gpus = std::count_if(share.inventory.gpus().begin(), share.inventory.gpus().end(),
                                          [](const v1::Gpu& gpu) { return gpu.left_out().empty(); });
  return gpus == 0 ? 1 : (share.ranks + gpus - 1) / gpus;
}

}  // namespace

bool NamesOneRevision(std::string_view build) {
  return !build.empty() && !build.ends_with("-dirty") && !build.ends_with("+unknown");
}

std::optional<OpTimesKey> OpTimesKeyOf(std::span<const MachineShare> shares, bool fewer_ranks) {
  const v1::Inventory& first = shares.front().inventory;
  if (first.device_fingerprint().empty() || !NamesOneRevision(first.build_id())) return std::nullopt;
  const bool cpu = WorkerKind(first) == DeviceKind::kCpu;
  if (cpu && first.hostname().empty()) return std::nullopt;
  OpTimesKey key;
  key.kept_s = cpu ? kDay : 365 * kDay;
  key.device = DeviceText(first);
  key.build_id = first.build_id();
  key.workers = static_cast<std::int64_t>(shares.size());
  for (const MachineShare& share : shares) {
    if (!Alike(share.inventory, first)) return std::nullopt;
    key.ranks += share.ranks;
    key.ranks_per_device = std::max(key.ranks_per_device, fewer_ranks && !cpu ? 1 : RanksPerDevice(share));
  }
  return key;
}

std::string WorkOf(const v1::Job& job) {
  v1::TrainSpec work = job.train();
  work.clear_steps();
  work.clear_warmup_steps_untimed();
  work.clear_record_breakdown();
  // Deterministic, because the message contains no maps.
  return fmt::format("{} {:016x}", job.device(), base::Fnv1a(work.SerializeAsString()));
}

std::optional<OpTimesKey> OpTimesKeyFor(const v1::Job& job, std::span<const WorkerRecord> workers) {
  std::vector<const WorkerRecord*> able;
  std::vector<PlacementWorker> idle;
  for (const WorkerRecord& worker : workers) {
    const v1::Inventory& inventory = worker.inventory;
    if (!worker.active || worker.draining || WorkerKind(inventory) != NeededKind(job)) continue;
    if (!able.empty() && !Alike(inventory, able.front()->inventory)) return std::nullopt;
    able.push_back(&worker);
    idle.push_back({.host = worker.session.worker,
                    .kind = NeededKind(job),
                    .slots = inventory.slots(),
                    .free = inventory.slots(),
                    .waiting = true});
  }
  const Placement placement = Place(
      {.ranks = job.ranks(), .needs = NeededKind(job), .fewer_ranks = job.fewer_ranks(), .avoid = {}}, idle);
  if (placement.shares.empty()) return std::nullopt;
  std::vector<MachineShare> shares;
  for (const PlacedShare& share : placement.shares)
    shares.push_back({able[share.worker]->inventory, share.ranks});
  return OpTimesKeyOf(shares, job.fewer_ranks());
}

}  // namespace autocfg::server
