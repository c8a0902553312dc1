// The GPU engine that trainer/cuda_module creates, on the emulated CUDA. For whole training runs, of one or
// several ranks that share the "GPU", by the real programs (AUTOCFG_GPU_MODULE names this module). Without
// NCCL and cuDNN, which are not emulated.
#include <cuda_runtime.h>

#include <cstdint>

#include "base/os/process.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "trainer/backend/gpu_engine.h"
#include "trainer/comm/communicator.h"

namespace autocfg {
namespace {

std::string DeviceIdentity(int) { return "GPU-emulated"; }

std::int64_t DeviceMemoryBytes(int) {
  std::size_t free = 0, total = 0;
  cuda::Check(cudaMemGetInfo(&free, &total), "querying the memory");
  return static_cast<std::int64_t>(total);
}

std::unique_ptr<trainer::CommWorld> NoNccl(trainer::Rendezvous&) {
  throw trainer::CommError("NCCL is not emulated");
}

}  // namespace
}  // namespace autocfg

extern "C" __attribute__((visibility("default"))) const autocfg::trainer::GpuEngine* autocfg_gpu_engine() {
  static const autocfg::trainer::GpuEngine engine{.build_id = autocfg::base::BuildId(),
                                                  .device_count = autocfg::cuda::DeviceCount,
                                                  .device_identity = autocfg::DeviceIdentity,
                                                  .device_memory_bytes = autocfg::DeviceMemoryBytes,
                                                  .create_device = autocfg::cuda::CreateCudaDevice,
                                                  .create_ops = autocfg::cuda::CreateCudaOps,
                                                  .choices = autocfg::cuda::ChoicesOf,
                                                  .create_nccl_world = autocfg::NoNccl};
  return &engine;
}
