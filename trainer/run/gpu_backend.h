// The backend of a rank on a GPU, from the module of gpu_engine.h. One rank, one thread.
#pragma once

#include <memory>
#include <string>

#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/run/backend.h"
#include "trainer/run/gpu_engine.h"

namespace autocfg {

// How ranks on GPUs talk.
enum class GpuTransport { kNccl, kHost };

// NCCL where every rank has a GPU of its own, else the host's communication, which several ranks of one GPU
// can share. `identities` are those of the ranks' GPUs, machine included; `wanted` is "", "nccl" or "host".
// Throws BadInput for any other, and for nccl among ranks that share a GPU, unless `may_share` is set. Pure.
GpuTransport ChooseTransport(const std::vector<std::string>& identities, const std::string& wanted,
                             bool may_share);

// Whether ranks may come to talk by NCCL, before any has opened its GPU: not where one is named to two of
// them. `names` are those of the ranks' GPUs, machine included; empty where a rank's is not known yet. Pure.
bool MayTalkByNccl(const std::vector<std::string>& names, const std::string& wanted);

// Rank r has the GPU r modulo the number that its process sees. `alone` is the world of a rank without peers;
// null: the ranks of the rendezvous talk, as ChooseTransport says with AUTOCFG_GPU_TRANSPORT of the
// environment (and AUTOCFG_NCCL_SHARE_GPU=1, see trainer/comm/nccl). Says on the log what was chosen. Throws
// NotSupported where the build has no GPU engine, where the machine has no GPU, and where NCCL is chosen and
// not there: other communication is never taken in its place unasked.
Backend CreateGpuBackend(Rendezvous& rendezvous, std::unique_ptr<CommWorld> alone);

// As above, with an engine that is given. For tests.
Backend CreateGpuBackend(const GpuEngine& engine, Rendezvous& rendezvous, std::unique_ptr<CommWorld> alone);

}  // namespace autocfg
