// How ranks on GPUs find their way to talk. The backend itself runs in tests/multirank/emulated_gpu_test.cc.
#include "trainer/run/gpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/errors.h"

namespace autocfg {
namespace {

using ::testing::HasSubstr;

TEST(ChooseTransport, IsNcclWhereEveryRankHasAGpuOfItsOwn) {
  EXPECT_EQ(ChooseTransport({"a 1", "a 2", "b 1"}, "", false), GpuTransport::kNccl);
  EXPECT_EQ(ChooseTransport({"a 1", "b 1", "a 1"}, "", false), GpuTransport::kHost);
  EXPECT_EQ(ChooseTransport({"a 1", "b 1", "a 1"}, "", true), GpuTransport::kHost) << "sharing is allowed, not asked for";
  EXPECT_EQ(ChooseTransport({"a 1", "a 2"}, "host", false), GpuTransport::kHost);
  EXPECT_EQ(ChooseTransport({"a 1", "a 2"}, "nccl", false), GpuTransport::kNccl);
  EXPECT_EQ(ChooseTransport({"a 1", "a 1"}, "nccl", true), GpuTransport::kNccl);
}

TEST(ChooseTransport, RefusesWhatCannotBe) {
  const auto refusal = [](const std::vector<std::string>& identities, const char* wanted) -> std::string {
    try {
      ChooseTransport(identities, wanted, false);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({"a 1", "a 1"}, "nccl"), HasSubstr("ranks share a GPU"));
  EXPECT_THAT(refusal({"a 1"}, "mpi"), HasSubstr("AUTOCFG_GPU_TRANSPORT is \"mpi\""));
}

}  // namespace
}  // namespace autocfg
