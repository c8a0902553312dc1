// The GPU that this machine has, as the suites take it. Without one every test is skipped, which `./dev gpu`
// counts as failing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/conformance/ops_fixture.h"

namespace autocfg {

// Empty where a GPU can be used; else why not.
inline std::string WhyNoGpu() {
  try {
    cuda::DeviceCount();
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

inline std::unique_ptr<Device> CreateFirstGpu() { return cuda::CreateCudaDevice(0); }

// Sums of hundreds of terms in float, with the device's own exponentials; bf16 results are rounded beyond
// that.
inline OpsUnderTest GpuF32() { return {"cuda_fp32", DType::kF32, CreateFirstGpu, cuda::CreateCudaOps, 1e-5}; }
inline OpsUnderTest GpuBF16() {
  return {"cuda_bf16", DType::kBF16, CreateFirstGpu, cuda::CreateCudaOps, 1e-5};
}

}  // namespace autocfg
