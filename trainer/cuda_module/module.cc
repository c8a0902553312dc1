// The module that trainer/backend/gpu_engine.h loads: the GPU's device, ops and communication, exported
// through one symbol.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/os/process.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/nvml/gpus.h"
#include "trainer/backend/gpu_engine.h"
#include "trainer/comm/nccl/nccl_world.h"

namespace autocfg::trainer {
namespace {

cudaDeviceProp PropertiesOf(int ordinal) {
  cudaDeviceProp properties{};
  cuda::Check(cudaGetDeviceProperties(&properties, ordinal),
              fmt::format("asking for the properties of GPU {}", ordinal));
  return properties;
}

std::string DeviceIdentity(int ordinal) {
  const cudaDeviceProp properties = PropertiesOf(ordinal);
  std::array<unsigned char, sizeof(properties.uuid.bytes)> bytes{};
  std::memcpy(bytes.data(), properties.uuid.bytes, bytes.size());
  return GpuUuidText(bytes);
}

std::int64_t DeviceMemoryBytes(int ordinal) {
  return static_cast<std::int64_t>(PropertiesOf(ordinal).totalGlobalMem);
}

}  // namespace
}  // namespace autocfg::trainer

extern "C" __attribute__((visibility("default"))) const autocfg::trainer::GpuEngine* autocfg_gpu_engine() {
  static const autocfg::trainer::GpuEngine engine{.build_id = autocfg::base::BuildId(),
                                                  .device_count = autocfg::cuda::DeviceCount,
                                                  .device_identity = autocfg::trainer::DeviceIdentity,
                                                  .device_memory_bytes = autocfg::trainer::DeviceMemoryBytes,
                                                  .create_device = autocfg::cuda::CreateCudaDevice,
                                                  .create_ops = autocfg::cuda::CreateCudaOps,
                                                  .choices = autocfg::cuda::ChoicesOf,
                                                  .create_nccl_world = autocfg::trainer::CreateNcclWorld};
  return &engine;
}
