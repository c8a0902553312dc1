// The module that trainer/run/gpu_engine.h loads: the GPU's device, ops and communication behind one symbol.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <span>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/cuda_ops.h"
#include "trainer/comm/nccl/nccl_world.h"
#include "trainer/run/build_id.h"
#include "trainer/run/gpu_engine.h"

namespace autocfg {
namespace {

std::string DeviceIdentity(int ordinal) {
  cudaDeviceProp properties{};
  cuda::Check(cudaGetDeviceProperties(&properties, ordinal), fmt::format("asking for the properties of GPU {}", ordinal));
  std::string identity = "GPU-";
  for (const char byte : std::span(properties.uuid.bytes)) identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return identity;
}

}  // namespace
}  // namespace autocfg

extern "C" __attribute__((visibility("default"))) const autocfg::GpuEngine* autocfg_gpu_engine() {
  static const autocfg::GpuEngine engine{.build_id = autocfg::TrainerBuildId(),
                                         .device_count = autocfg::cuda::DeviceCount,
                                         .device_identity = autocfg::DeviceIdentity,
                                         .create_device = autocfg::cuda::CreateCudaDevice,
                                         .create_ops = autocfg::cuda::CreateCudaOps,
                                         .choices = autocfg::cuda::ChoicesOf,
                                         .create_nccl_world = autocfg::CreateNcclWorld};
  return &engine;
}
