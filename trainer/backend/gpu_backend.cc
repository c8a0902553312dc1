#include "trainer/backend/gpu_backend.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/os/host.h"
#include "kernels/awaited/awaited_ops.h"
#include "kernels/nvml/gpus.h"
#include "trainer/backend/core_sharing.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

// Counts the GPUs. A machine without a GPU cannot run this job, so that is NotSupported rather than a device
// error.
int CountGpus(const GpuEngine& engine) {
  try {
    return engine.device_count();
  } catch (const DeviceError& error) {
    throw NotSupported(error.what());
  }
}

// Returns the name of the only GPU that the process sees, if its launcher named it by UUID; this does not
// open the GPU. Otherwise returns "". A number does not identify a GPU: two containers of one host name may
// each have a GPU 0.
std::string NameOfGpu() {
  const std::string visible = base::Environment("CUDA_VISIBLE_DEVICES");
  return visible.find("GPU-") != 0 || visible.find(',') != std::string::npos
             ? ""
             : fmt::format("{} {}", base::HostName(), visible);
}

}  // namespace

GpuTransport ChooseTransport(const std::vector<std::string>& identities, const std::string& wanted,
                             bool may_share) {
  if (!wanted.empty() && wanted != "nccl" && wanted != "host") {
    throw BadInput(
        fmt::format("AUTOCFG_GPU_TRANSPORT is \"{}\"; it must be nccl or host, or not set", wanted));
  }
  std::vector<std::string> sorted = identities;
  std::sort(sorted.begin(), sorted.end());
  const bool shared = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (wanted == "host" || (wanted.empty() && shared)) return GpuTransport::kHost;
  if (shared && !may_share) {
    throw BadInput(
        "AUTOCFG_GPU_TRANSPORT is nccl, but ranks share a GPU, which NCCL does not support; use host, or "
        "one GPU for each rank");
  }
  return GpuTransport::kNccl;
}

bool MayTalkByNccl(const std::vector<std::string>& names, const std::string& wanted) {
  if (!wanted.empty()) return wanted == "nccl";
  std::set<std::string> seen;
  return std::all_of(names.begin(), names.end(),
                     [&seen](const std::string& name) { return name.empty() || seen.insert(name).second; });
}

bool AwaitsEachOp(const std::string& wanted) {
  if (!wanted.empty() && wanted != "ops")
    throw BadInput(fmt::format("AUTOCFG_CUDA_SYNC is \"{}\"; it must be ops, or not set", wanted));
  return wanted == "ops";
}

Backend CreateGpuBackend(Rendezvous& rendezvous, std::unique_ptr<CommWorld> alone) {
  return CreateGpuBackend(LoadGpuEngine(), rendezvous, std::move(alone));
}

Backend CreateGpuBackend(const GpuEngine& engine, Rendezvous& rendezvous, std::unique_ptr<CommWorld> alone) {
  const std::string wanted = base::Environment("AUTOCFG_GPU_TRANSPORT");
  if (alone == nullptr && MayTalkByNccl(rendezvous.AllGather("gpu name", NameOfGpu()), wanted)) {
    // These settings are required by NCCL's world before the GPU is opened (trainer/comm/nccl/nccl_world.h).
    // The user's settings take precedence. Other runs leave them unset: loading every kernel of cuBLAS and
    // cuDNN at the start costs each process time and memory.
    setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  }
  const int count = CountGpus(engine);
  const int ordinal = rendezvous.rank() % count;
  Backend backend;
  backend.clock = CreateSteadyClock();
  backend.device = engine.create_device(ordinal);
  backend.ops = engine.create_ops();
  backend.shares_cores = [&rendezvous] { return SharesCores(rendezvous); };
  backend.choices = [choices = engine.choices, ops = backend.ops.get()] { return choices(*ops); };
  if (AwaitsEachOp(base::Environment("AUTOCFG_CUDA_SYNC")))
    backend.ops = CreateAwaitedOps(std::move(backend.ops));
  const std::string uuid = engine.device_identity(ordinal);
  backend.kept_back_bytes = KeptBackBytes(uuid, engine.device_memory_bytes(ordinal));
  const std::string identity = fmt::format("{} {}", base::HostName(), uuid);
  const std::vector<std::string> identities = rendezvous.AllGather("gpu", identity);
  backend.ranks_on_device = static_cast<int>(std::count(identities.begin(), identities.end(), identity));
  // Between the two gatherings all ranks have opened their GPUs, and none has reserved memory for a run.
  backend.shared_overhead_bytes = backend.device->OverheadBytes(0) / backend.ranks_on_device;
  rendezvous.AllGather("gpu overhead", "");
  if (alone != nullptr) {
    backend.comm = std::move(alone);
    return backend;
  }
  const GpuTransport transport =
      ChooseTransport(identities, wanted, base::Environment("AUTOCFG_NCCL_SHARE_GPU") == "1");
  if (transport == GpuTransport::kNccl) {
    backend.comm = engine.create_nccl_world(rendezvous);
  } else {
    backend.comm = CreateStagedWorld(CreateUcxWorld(rendezvous), *backend.device);
  }
  if (rendezvous.rank() == 0) {
    spdlog::info("{} ranks communicate through {}", rendezvous.size(),
                 transport == GpuTransport::kNccl
                     ? "NCCL"
                     : "UCX between hosts: ranks share a GPU, or it was requested");
  }
  return backend;
}

}  // namespace autocfg::trainer
