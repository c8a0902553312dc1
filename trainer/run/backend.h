// The device, its ops and the communication of one rank. One rank, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/device.h"
#include "kernels/op_choice.h"
#include "kernels/op_log.h"
#include "kernels/ops.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/run/step_clock.h"
#include "trainer/run/train_config.h"

namespace autocfg {

// Declared so that what uses a thing is destroyed before it.
struct Backend {
  std::unique_ptr<OpLog> log;        // what was issued; null where nothing records
  std::unique_ptr<StepClock> clock;  // null where the device takes no time
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<CommWorld> comm;
  int ranks_on_device = 1;           // ranks of the job that have the same device
  std::int64_t kept_back_bytes = 0;  // of the device's memory, from all ranks that have it, by its driver
  // where they are several, which the device cannot tell apart: of one, before any of them has an arena
  std::int64_t shared_overhead_bytes = 0;
  std::function<std::vector<OpChoice>()> choices;  // of the ops, so far; null where nothing is chosen
  // Whether the ranks that may run on this rank's cores are more than those (core_sharing.h). Collective;
  // null where nothing computes.
  std::function<bool()> shares_cores;
};

// What this rank takes of its device beside an arena of `arena_bytes` that it has there; where ranks share
// the device, what it took at first. Its share of what the driver keeps back counts, since it does in the
// device's capacity.
std::int64_t OverheadBytes(const Backend& backend, std::int64_t arena_bytes);

// "cpu": host memory and UCX among the ranks of the rendezvous (null communication for one rank). "cuda": a
// GPU (gpu_backend.h). "dry": counts and records, with no peers. Throws NotSupported for any other name.
// `rendezvous` must outlive the result.
Backend CreateBackend(std::string_view device, Rendezvous& rendezvous);

// The same for a training run, and "paced": takes the time of every op and transfer from config.op_times, on
// a virtual clock, with config.host_op_s for issuing each, and exchanges nothing but times. A slice has the
// null communicator in place of its peers; its barriers bring the copies of the slice together, over the
// rendezvous. Throws BadInput where op_times are missing or in the way.
Backend CreateTrainBackend(std::string_view device, Rendezvous& rendezvous, const TrainConfig& config);

// The dry backend of any rank of a world that need not exist.
Backend CreateDryBackend(int rank, int world_size);

}  // namespace autocfg
