// A StreamDriver on CUDA streams and events and NCCL communicators. The communicators are non-blocking: NCCL
// runs long operations in its own thread, and the state of the link tells when they are done. Not confirmed
// on a GPU (nccl_world.h). One rank, one thread.
#pragma once

#include <chrono>
#include <memory>

#include "trainer/comm/nccl/nccl_api.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg::trainer {

// Time limit for the ranks of a link to join it. Ranks arrive at different times, since some may still create
// or load their weights. The limit is below the 180 s that a job on GPUs has to start, so that this error is
// reported first.
inline constexpr std::chrono::seconds kJoinTimeout{120};

// Creates a driver on the thread's current GPU; it takes streams of a CudaDevice. A failing CUDA call,
// including one within NCCL, throws DeviceError or DeviceOutOfMemory. All other NCCL errors throw CommError.
std::unique_ptr<StreamDriver> CreateNcclDriver(const NcclApi& nccl,
                                               std::chrono::seconds join_timeout = kJoinTimeout);

}  // namespace autocfg::trainer
