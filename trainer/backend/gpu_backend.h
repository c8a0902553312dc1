// The backend of a rank on a GPU, created from the module of gpu_engine.h. One rank, one thread.
#pragma once

#include <memory>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/gpu_engine.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {

// How ranks on GPUs communicate.
enum class GpuTransport { kNccl, kHost };

// Returns NCCL if every rank has its own GPU, and otherwise host communication, which supports several ranks
// on one GPU. `identities` identify the ranks' GPUs and machines; `wanted` is "", "nccl" or "host". Throws
// BadInput for other values, and for "nccl" if ranks share a GPU and `may_share` is not set. Pure.
GpuTransport ChooseTransport(const std::vector<std::string>& identities, const std::string& wanted,
                             bool may_share);

// Returns true if the ranks may communicate through NCCL, before any rank has opened its GPU. Unless `wanted`
// decides, this requires that no two ranks have the same GPU. `names` identify the ranks' GPUs and machines;
// a name is empty if it is not known yet. Pure.
bool MayTalkByNccl(const std::vector<std::string>& names, const std::string& wanted);

// Returns whether the host waits after each op, so that errors name the op (kernels/awaited/awaited_ops.h).
// `wanted` is "" or "ops"; throws BadInput for other values. Pure.
bool AwaitsEachOp(const std::string& wanted);

// Creates the backend. Rank r uses the GPU r modulo the number of GPUs visible to its process. `alone` is the
// world of a rank without peers. If it is null, the ranks of the rendezvous communicate as ChooseTransport
// decides from AUTOCFG_GPU_TRANSPORT in the environment (and AUTOCFG_NCCL_SHARE_GPU=1, see
// trainer/comm/nccl). Logs the choice. Throws NotSupported if the build has no GPU engine, if the machine has
// no GPU, or if NCCL is chosen but missing: there is no silent fallback.
Backend CreateGpuBackend(Rendezvous& rendezvous, std::unique_ptr<CommWorld> alone);

// Creates the same with a given engine. For tests.
Backend CreateGpuBackend(const GpuEngine& engine, Rendezvous& rendezvous, std::unique_ptr<CommWorld> alone);

}  // namespace autocfg::trainer
