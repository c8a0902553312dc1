// CUDA's streams and events and NCCL's communicators as a StreamDriver. Communicators do not block: what NCCL
// cannot do at once it does in a thread of its own, and the state of the link says when it is done. Not
// confirmed on a GPU (nccl_world.h). One rank, one thread.
#pragma once

#include <chrono>
#include <memory>

#include "trainer/comm/nccl/nccl_api.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg {

// Ranks of one link come to it at different times: one may still make or load its weights. Where they have
// not found each other within this time, the link has failed. Less than the 180 s that a job on GPUs has to
// start, so that it says so before its time is up.
inline constexpr std::chrono::seconds kJoinTimeout{120};

// On the thread's current GPU, which takes the streams of a CudaDevice. Errors are thrown: what a CUDA call
// fails of, within NCCL too, as DeviceError or DeviceOutOfMemory; all else of NCCL's as CommError.
std::unique_ptr<StreamDriver> CreateNcclDriver(const NcclApi& nccl,
                                               std::chrono::seconds join_timeout = kJoinTimeout);

}  // namespace autocfg
