// Tests which kernels OpenBLAS is told to use on a CPU that it does not know.
#include "base/os/blas_core.h"

#include <gtest/gtest.h>

namespace autocfg::base {
namespace {

constexpr VectorUnits kNone, kAvx2{.avx2 = true}, kAvx512{.avx2 = true, .avx512 = true};

TEST(BlasCore, ReplacesTheKernelsOfUnknownModels) {
  EXPECT_EQ(BlasCoreInstead("Prescott", kAvx512), "SkylakeX");
  EXPECT_EQ(BlasCoreInstead("Prescott", kAvx2), "Haswell");
}

TEST(BlasCore, AChoiceByModelStands) {
  for (const char* chosen : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids", "Sandybridge", ""})
    EXPECT_EQ(BlasCoreInstead(chosen, kAvx512), "") << chosen;
}

TEST(BlasCore, ACpuWithoutVectorUnitsKeepsItsKernels) { EXPECT_EQ(BlasCoreInstead("Prescott", kNone), ""); }

}  // namespace
}  // namespace autocfg::base
