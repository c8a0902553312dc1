// Tests how ranks on GPUs choose their communication. The backend itself runs in
// tests/multirank/emulated_gpu.
#include "trainer/backend/gpu_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cpu/cpu_device.h"
#include "kernels/nvml/gpus.h"
#include "tests/support/fake_nvml/fake_gpus.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using ::testing::HasSubstr;

TEST(ChooseTransport, UsesNcclIfEveryRankHasItsOwnGpu) {
  EXPECT_EQ(ChooseTransport({"a 1", "a 2", "b 1"}, "", false), GpuTransport::kNccl);
  EXPECT_EQ(ChooseTransport({"a 1", "b 1", "a 1"}, "", false), GpuTransport::kHost);
  EXPECT_EQ(ChooseTransport({"a 1", "b 1", "a 1"}, "", true), GpuTransport::kHost)
      << "sharing is allowed but not requested";
  EXPECT_EQ(ChooseTransport({"a 1", "a 2"}, "host", false), GpuTransport::kHost);
  EXPECT_EQ(ChooseTransport({"a 1", "a 2"}, "nccl", false), GpuTransport::kNccl);
  EXPECT_EQ(ChooseTransport({"a 1", "a 1"}, "nccl", true), GpuTransport::kNccl);
}

TEST(ChooseTransport, RejectsInvalidChoices) {
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

// A device that reports 3000 bytes in use to every rank.
class SharedDevice final : public Device {
 public:
  std::string Name() const override { return cpu_->Name(); }
  bool ComputesOnHost() const override { return true; }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyFromHost(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyToHost(to, from, bytes, stream);
  }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override { return 3000 - arena_bytes; }

 private:
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
};

// Returns an engine whose process sees `count` such GPUs.
GpuEngine EngineOf(int count) {
  static int gpus;
  gpus = count;
  return GpuEngine{
      .build_id = "",
      .device_count = [] { return gpus; },
      .device_identity = [](int ordinal) { return fmt::format("GPU-{}", ordinal); },
      .device_memory_bytes = [](int) { return std::int64_t{10000}; },
      .create_device = [](int) -> std::unique_ptr<Device> { return std::make_unique<SharedDevice>(); },
      .create_ops = CreateCpuOps,
      .choices = [](const Ops&) { return std::vector<OpChoice>{}; },
      .create_nccl_world = nullptr};
}

// Memory in use on a GPU is divided among its ranks: no rank counts the others' memory as its own.
TEST(GpuBackend, OverheadIsDividedAmongRanksOfAGpu) {
  unsetenv("CUDA_MODULE_LOADING");
  for (const int gpus : {1, 3}) {
    const GpuEngine engine = EngineOf(gpus);
    auto rendezvous = CreateLocalRendezvous(3);
    test::RunThreads(3, [&](int rank) {
      const Backend backend =
          CreateGpuBackend(engine, *rendezvous[static_cast<std::size_t>(rank)], CreateNullWorld(0, 1));
      EXPECT_EQ(backend.ranks_on_device, gpus == 1 ? 3 : 1);
      EXPECT_EQ(OverheadBytes(backend, 100), gpus == 1 ? 1000 : 2900);
    });
    EXPECT_EQ(std::getenv("CUDA_MODULE_LOADING"), nullptr) << "set only for NCCL";
  }
}

// Capacities are the driver's figures, so memory that the driver withholds from all processes must not be
// planned with.
TEST(GpuBackend, MemoryWithheldByTheDriverIsOverhead) {
  const FakeGpus fake("name=a,uuid=GPU-1,total=20000;name=b,uuid=GPU-0,total=10600");
  Backend backend = CreateGpuBackend(EngineOf(1), *CreateLocalRendezvous(1).front(), CreateNullWorld(0, 1));
  EXPECT_EQ(backend.kept_back_bytes, 600);
  EXPECT_EQ(OverheadBytes(backend, 100), 2900 + 600);
  backend.ranks_on_device = 2;
  backend.shared_overhead_bytes = 1500;
  EXPECT_EQ(OverheadBytes(backend, 100), 1500 + 300);
  EXPECT_EQ(KeptBackBytes("GPU-1", 20001), 0) << "never negative";
  EXPECT_EQ(KeptBackBytes("GPU-2", 1), 0) << "unknown to the driver";
}

// The CUDA settings that NCCL needs would only cost ranks that cannot use it.
TEST(AwaitsEachOp, OnlyIfAsked) {
  EXPECT_FALSE(AwaitsEachOp(""));
  EXPECT_TRUE(AwaitsEachOp("ops"));
  EXPECT_THAT(
      [] { AwaitsEachOp("kernels"); },
      testing::ThrowsMessage<BadInput>(HasSubstr("AUTOCFG_CUDA_SYNC is \"kernels\"; it must be ops")));
}

TEST(MayTalkByNccl, IsFalseIfTwoRanksHaveTheSameGpu) {
  EXPECT_TRUE(MayTalkByNccl({"a 1", "a 2", "b 1"}, ""));
  EXPECT_FALSE(MayTalkByNccl({"a 1", "a 2", "a 1"}, ""));
  EXPECT_TRUE(MayTalkByNccl({"", ""}, "")) << "not known yet";
  EXPECT_FALSE(MayTalkByNccl({"a 1", "", "a 1"}, ""));
  EXPECT_TRUE(MayTalkByNccl({"a 1", "a 1"}, "nccl")) << "as separate hosts";
  EXPECT_FALSE(MayTalkByNccl({"a 1", "a 2"}, "host"));
}

}  // namespace
}  // namespace autocfg::trainer
