// The GPU of this machine as a parameter of the suites. Without a GPU every test is skipped, which `./dev
// gpu` counts as a failure.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "tests/conformance/ops/ops_fixture.h"

namespace autocfg {

// Returns an empty string if a GPU is usable, else why not.
inline std::string WhyNoGpu() {
  try {
    cuda::DeviceCount();
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

inline std::unique_ptr<Device> CreateFirstGpu() { return cuda::CreateCudaDevice(0); }

// Tolerances allow sums of hundreds of terms in float and the device's own exponentials; bf16 results are
// rounded beyond that.
inline OpsUnderTest GpuF32() { return {"cuda_fp32", DType::kF32, CreateFirstGpu, cuda::CreateCudaOps, 1e-5}; }
inline OpsUnderTest GpuBF16() {
  return {"cuda_bf16", DType::kBF16, CreateFirstGpu, cuda::CreateCudaOps, 1e-5};
}

inline OpsUnderTest GpuBF16WithBf16Gradients() {
  OpsUnderTest ops = GpuBF16();
  ops.name = "cuda_bf16_gradients";
  ops.gradients = DType::kBF16;
  return ops;
}

}  // namespace autocfg
