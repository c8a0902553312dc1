// The device, its ops and the communication of one rank. One rank, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/op_log.h"
#include "kernels/ops.h"
#include "search/plan/cluster/engine_device.h"
#include "trainer/backend/step_clock.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/config/train_config.h"

namespace autocfg::trainer {

// Members are ordered so that users of an object are destroyed before it.
struct Backend {
  std::unique_ptr<OpLog> log;        // the issued ops; null unless ops are recorded
  std::unique_ptr<StepClock> clock;  // null if the device takes no time
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<CommWorld> comm;
  int ranks_on_device = 1;           // number of the job's ranks on the same device
  std::int64_t kept_back_bytes = 0;  // device memory that the driver withholds from all its ranks
  // For ranks that share a device, which it cannot tell apart: the overhead of one rank, before any of them
  // reserved an arena.
  std::int64_t shared_overhead_bytes = 0;
  std::function<std::vector<OpChoice>()> choices;  // of the ops so far; null if the ops choose nothing
  // Returns true if more ranks may run on this rank's cores than there are cores (core_sharing.h).
  // Collective; null if the device computes nothing.
  std::function<bool()> shares_cores;
};

// Returns the device memory that this rank uses besides an arena of `arena_bytes`. If ranks share the device,
// the result is what the rank used initially. It includes the rank's share of the memory that the driver
// withholds, because the device's capacity includes that memory.
std::int64_t OverheadBytes(const Backend& backend, std::int64_t arena_bytes);

// Creates the backend for kCpu (host memory, and UCX among the ranks of the rendezvous; null communication
// for one rank), kCuda (a GPU, gpu_backend.h) or kDry (counts and records ops, has no peers). Throws
// NotSupported for kPaced. `rendezvous` must outlive the result.
Backend CreateBackend(EngineDevice device, Rendezvous& rendezvous);

// Creates the same for a training run, and kPaced: each op and transfer takes its time from config.op_times
// on a virtual clock, issuing an op takes config.host_op_s, and ranks exchange only times. A slice has the
// null communicator in place of its peers; its barriers synchronize the copies of the slice over the
// rendezvous. Throws BadInput if op_times are missing, or given to a device that does not use them.
Backend CreateTrainBackend(EngineDevice device, Rendezvous& rendezvous, const TrainConfig& config);

// Creates the dry backend of any rank of a world, which need not exist.
Backend CreateDryBackend(int rank, int world_size);

}  // namespace autocfg::trainer
