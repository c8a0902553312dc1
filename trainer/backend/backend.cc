#include "trainer/backend/backend.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "kernels/paced/paced_device.h"
#include "trainer/backend/core_sharing.h"
#include "trainer/backend/gpu_backend.h"
#include "trainer/comm/paced_world.h"
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

[[noreturn]] void RefuseDevice(std::string_view device) {
  throw NotSupported(fmt::format("device \"{}\" is not supported yet; use cpu, cuda, dry or paced", device));
}

}  // namespace

std::int64_t OverheadBytes(const Backend& backend, std::int64_t arena_bytes) {
  const std::int64_t own = backend.ranks_on_device > 1 ? backend.shared_overhead_bytes
                                                       : backend.device->OverheadBytes(arena_bytes);
  return own + backend.kept_back_bytes / backend.ranks_on_device;
}

Backend CreateBackend(std::string_view device, Rendezvous& rendezvous) {
  if (device == "cpu") return CreateCpuBackend(rendezvous, CreatePeers(rendezvous));
  if (device == "cuda") return CreateGpuBackend(rendezvous, CreateAlone(rendezvous));
  if (device == "dry") return CreateDryBackend(rendezvous.rank(), rendezvous.size());
  if (device == "paced") {
    throw NotSupported(
        "the paced device takes its op times from the run and cannot be calibrated; use cpu or cuda");
  }
  RefuseDevice(device);
}

Backend CreateTrainBackend(std::string_view device, Rendezvous& rendezvous, const TrainConfig& config) {
  const bool paced = device == "paced";
  if (!paced && device != "cpu" && device != "cuda" && device != "dry") RefuseDevice(device);
  if (paced && config.op_times.empty()) {
    throw BadInput("op_times are missing; the paced device needs a time for every op");
  }
  if (!paced && !config.op_times.empty()) {
    throw BadInput(
        fmt::format("op_times were given for the {} device; only the paced device uses them", device));
  }
  if (!paced && config.host_op_s != 0) {
    throw BadInput(
        fmt::format("host_op_s was given for the {} device; only the paced device uses it", device));
  }
  std::unique_ptr<CommWorld> comm;
  if (config.slice) {
    comm = CreateNullWorld(static_cast<int>(RankOfSlice(config)), static_cast<int>(RankCount(config.plan)),
                           &rendezvous);
  } else if (device == "dry") {
    comm = CreateNullWorld(rendezvous.rank(), rendezvous.size());
  } else if (device == "cuda") {
    comm = CreateAlone(rendezvous);
  } else {
    comm = CreatePeers(rendezvous);
  }
  if (device == "cuda") return CreateGpuBackend(rendezvous, std::move(comm));
  if (paced) return CreatePacedBackend(std::move(comm), config.op_times, config.host_op_s);
  return device == "dry" ? CreateDryBackend(std::move(comm)) : CreateCpuBackend(rendezvous, std::move(comm));
}

Backend CreateDryBackend(int rank, int world_size) {
  return CreateDryBackend(CreateNullWorld(rank, world_size));
}

}  // namespace autocfg::trainer
