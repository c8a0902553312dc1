// The implementations of Ops that the suites test.
#pragma once

#include "kernels/awaited/awaited_ops.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/conformance/ops/ops_fixture.h"

namespace autocfg {

// Tolerances are about 25 and 500 units of rounding.
inline OpsUnderTest CpuF32() { return {"cpu_fp32", DType::kF32, CreateCpuDevice, CreateCpuOps, 3e-6}; }
// Keeps gradients of parameters in bf16.
inline OpsUnderTest CpuF32WithBf16Gradients() {
  OpsUnderTest ops = CpuF32();
  ops.name = "cpu_fp32_bf16_gradients";
  ops.gradients = DType::kBF16;
  return ops;
}
inline OpsUnderTest CpuF64() { return {"cpu_fp64", DType::kF64, CreateCpuDevice, CreateCpuOps, 1e-13}; }
inline OpsUnderTest AwaitedCpuF64() {
  return {"awaited_cpu_fp64", DType::kF64, CreateCpuDevice, [] { return CreateAwaitedOps(CreateCpuOps()); },
          1e-13};
}

inline std::string TestName(const testing::TestParamInfo<OpsUnderTest>& info) { return info.param.name; }

}  // namespace autocfg
