// How ranks on GPUs find their way to talk. The backend itself runs in tests/multirank/emulated_gpu_test.cc.
#include "trainer/run/gpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cpu/cpu_device.h"
#include "tests/trainer/thread_ranks.h"
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

// A device on which 3000 bytes are in use, whoever asks.
class SharedDevice final : public Device {
 public:
  std::string Name() const override { return cpu_->Name(); }
  bool ComputesOnHost() const override { return true; }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override { cpu_->CopyFromHost(to, from, bytes, stream); }
  void CopyToHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override { cpu_->CopyToHost(to, from, bytes, stream); }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override { return 3000 - arena_bytes; }

 private:
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
};

// What is in use on a GPU is shared by the ranks that have it: none takes the others' for its own.
TEST(GpuBackend, OverheadIsSharedByTheRanksOfAGpu) {
  static int gpus;
  unsetenv("CUDA_MODULE_LOADING");
  const GpuEngine engine{.build_id = "",
                         .device_count = [] { return gpus; },
                         .device_identity = [](int ordinal) { return std::to_string(ordinal); },
                         .create_device = [](int) -> std::unique_ptr<Device> { return std::make_unique<SharedDevice>(); },
                         .create_ops = CreateCpuOps,
                         .choices = [](const Ops&) { return std::vector<OpChoice>{}; },
                         .create_nccl_world = nullptr};
  for (gpus = 1; gpus <= 3; gpus += 2) {
    auto rendezvous = CreateLocalRendezvous(3);
    testing::RunThreads(3, [&](int rank) {
      const Backend backend = CreateGpuBackend(engine, *rendezvous[static_cast<std::size_t>(rank)], CreateNullWorld(0, 1));
      EXPECT_EQ(backend.ranks_on_device, gpus == 1 ? 3 : 1);
      EXPECT_EQ(OverheadBytes(backend, 100), gpus == 1 ? 1000 : 2900);
    });
    EXPECT_EQ(std::getenv("CUDA_MODULE_LOADING"), nullptr) << "that is for NCCL";
  }
}

}  // namespace
}  // namespace autocfg
