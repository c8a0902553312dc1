// CUDA's streams and events and NCCL's communicators as a StreamDriver. Communicators do not block: what NCCL
// cannot do at once it does in a thread of its own, and the state of the link says when it is done. Not
// confirmed on a GPU (nccl_world.h). One rank, one thread.
#pragma once

#include <memory>

#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg {

// On the thread's current GPU, which takes the streams of a CudaDevice. Errors are thrown: DeviceError of
// CUDA's, CommError of NCCL's.
std::unique_ptr<StreamDriver> CreateNcclDriver();

}  // namespace autocfg
