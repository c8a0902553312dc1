#include "trainer/backend/backend.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "kernels/paced/paced_device.h"
#include "trainer/backend/core_sharing.h"
#include "trainer/backend/gpu_backend.h"
#include "trainer/comm/worlds/paced_world.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

// Creates communication among the ranks of the rendezvous.
std::unique_ptr<CommWorld> CreatePeers(Rendezvous& rendezvous) {
  return rendezvous.size() > 1 ? CreateUcxWorld(rendezvous) : CreateNullWorld(0, 1);
}

// Creates the world of a rank without peers; returns null if it has peers.
std::unique_ptr<CommWorld> CreateAlone(const Rendezvous& rendezvous) {
  return rendezvous.size() > 1 ? nullptr : CreateNullWorld(0, 1);
}

Backend CreateCpuBackend(Rendezvous& rendezvous, std::unique_ptr<CommWorld> comm) {
  Backend backend;
  backend.clock = CreateSteadyClock();
  backend.device = CreateCpuDevice();
  backend.ops = CreateCpuOps();
  backend.comm = std::move(comm);
  backend.shares_cores = [&rendezvous] { return SharesCores(rendezvous); };
  return backend;
}

Backend CreateDryBackend(std::unique_ptr<CommWorld> comm) {
  Backend backend;
  backend.log = std::make_unique<OpLog>();
  backend.device = CreateDryDevice();
  backend.ops = CreateDryOps(*backend.log);
  backend.comm = CreateRecordingWorld(std::move(comm), *backend.log);
  return backend;
}

Backend CreatePacedBackend(std::unique_ptr<CommWorld> comm, const OpTimeTable& times, double host_op_s) {
  Backend backend;
  backend.log = std::make_unique<OpLog>();
  const auto seconds = [times](const OpDesc& op) {
    const auto it = times.find(op);
    if (it == times.end()) {
      throw BadInput(
          fmt::format("op_times: no time for {}; give one for every op of the plan", ToString(op)));
    }
    return it->second;
  };
  auto owned = std::make_unique<PacedClock>(seconds, backend.log.get(), host_op_s);
  PacedClock& clock = *owned;
  backend.clock = CreatePacedStepClock(std::move(owned));
  backend.device = CreatePacedDevice(clock);
  backend.ops = CreateDryOps(clock);
  backend.comm = CreateRecordingWorld(CreatePacedWorld(std::move(comm), clock), *backend.log);
  return backend;
}

// Creates the communication of a rank of a whole plan. Null for a GPU with peers: CreateGpuBackend creates
// it.
std::unique_ptr<CommWorld> CreateWorld(EngineDevice device, Rendezvous& rendezvous) {
  switch (device) {
    case EngineDevice::kCpu:
    case EngineDevice::kPaced: return CreatePeers(rendezvous);
    case EngineDevice::kCuda: return CreateAlone(rendezvous);
    case EngineDevice::kDry: return CreateNullWorld(rendezvous.rank(), rendezvous.size());
  }
  throw std::logic_error("no such device");
}

}  // namespace

std::int64_t OverheadBytes(const Backend& backend, std::int64_t arena_bytes) {
  const std::int64_t own = backend.ranks_on_device > 1 ? backend.shared_overhead_bytes
                                                       : backend.device->OverheadBytes(arena_bytes);
  return own + backend.kept_back_bytes / backend.ranks_on_device;
}

Backend CreateBackend(EngineDevice device, Rendezvous& rendezvous) {
  switch (device) {
    case EngineDevice::kCpu: return CreateCpuBackend(rendezvous, CreateWorld(device, rendezvous));
    case EngineDevice::kCuda: return CreateGpuBackend(rendezvous, CreateWorld(device, rendezvous));
    case EngineDevice::kDry: return CreateDryBackend(CreateWorld(device, rendezvous));
    case EngineDevice::kPaced:
      throw NotSupported(
          "the paced device takes its op times from the run and cannot be calibrated; use cpu or cuda");
  }
  throw std::logic_error("no such device");
}

Backend CreateTrainBackend(EngineDevice device, Rendezvous& rendezvous, const TrainConfig& config) {
  const bool emulated = IsEmulated(device);
  if (emulated && config.op_times.empty()) {
    throw BadInput("op_times are missing; the paced device needs a time for every op");
  }
  if (!emulated && !config.op_times.empty()) {
    throw BadInput(
        fmt::format("op_times were given for the {} device; only the paced device uses them", Name(device)));
  }
  if (!emulated && config.host_op_s != 0) {
    throw BadInput(
        fmt::format("host_op_s was given for the {} device; only the paced device uses it", Name(device)));
  }
  std::unique_ptr<CommWorld> comm =
      config.slice ? CreateNullWorld(static_cast<int>(RankOfSlice(config)),
                                     static_cast<int>(RankCount(config.plan)), &rendezvous)
                   : CreateWorld(device, rendezvous);
  switch (device) {
    case EngineDevice::kCpu: return CreateCpuBackend(rendezvous, std::move(comm));
    case EngineDevice::kCuda: return CreateGpuBackend(rendezvous, std::move(comm));
    case EngineDevice::kPaced: return CreatePacedBackend(std::move(comm), config.op_times, config.host_op_s);
    case EngineDevice::kDry: return CreateDryBackend(std::move(comm));
  }
  throw std::logic_error("no such device");
}

Backend CreateDryBackend(int rank, int world_size) {
  return CreateDryBackend(CreateNullWorld(rank, world_size));
}

}  // namespace autocfg::trainer
