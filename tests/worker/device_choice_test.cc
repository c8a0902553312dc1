#include "worker/machine/device_choice.h"

#include <gtest/gtest.h>

#include "base/os/cpus.h"
#include "fmt/format.h"
#include "tests/cli/program.h"
#include "tests/support/fake_nvml/fake_gpus.h"
#include "worker/machine/inventory.h"

namespace autocfg::worker {
namespace {

TEST(ParseIndexes, ListsAndRanges) {
  EXPECT_EQ(*ParseIndexes("6"), (std::vector<int>{6}));
  EXPECT_EQ(*ParseIndexes("0-3,6"), (std::vector<int>{0, 1, 2, 3, 6}));
  EXPECT_EQ(*ParseIndexes("5,1-1"), (std::vector<int>{5, 1})) << "in their order";
  for (const char* wrong : {"", ",", "1,", ",1", "a", "1-", "-1", "3-1", "1-2-3", "1 ", "0x1", "99999999999",
                            "0-99999999", "1,1", "0-3,2"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseIndexes(wrong).status())) << wrong;
}

// A trainer with or without a GPU engine beside it.
class ChooseDevicesTest : public testing::Test {
 protected:
  std::string Trainer(bool engine) const {
    if (engine) home_.Write("libautocfg_cuda.so", "");
    return home_.Write("autocfg-trainer", "");
  }
  // Expects a one-line error that begins with the option.
  static void ExpectRefused(const absl::StatusOr<DeviceChoice>& choice, absl::StatusCode code,
                            const std::string& says) {
    ASSERT_FALSE(choice.ok());
    EXPECT_EQ(choice.status().code(), code);
    const std::string message(choice.status().message());
    EXPECT_TRUE(message.starts_with("--devices: ")) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }

  const ScratchDirectory home_;
};

TEST_F(ChooseDevicesTest, Cores) {
  const NoGpus none;
  const auto all = ChooseDevices("cpu", Trainer(false));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->cores, PhysicalCores());
  EXPECT_EQ(InventoryOf(*all, 0).slots(), static_cast<std::int64_t>(PhysicalCores().size()));
  EXPECT_EQ(InventoryOf(*all, 7).slots(), 7);
  const int last = base::AllowedCpus().back();
  const auto one = ChooseDevices(fmt::format("cpu:{}", last), Trainer(false));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->cores, (std::vector<int>{last}));
  const v1::Inventory inventory = InventoryOf(*one, 0);
  EXPECT_EQ(inventory.slots(), 1);
  EXPECT_EQ(inventory.physical_cores(), 1);
  EXPECT_EQ(inventory.device_kind(), "cpu");
  ExpectRefused(ChooseDevices("cpu:999999", Trainer(false)), absl::StatusCode::kFailedPrecondition,
                "core 999999 does not exist");
  ExpectRefused(ChooseDevices("cpu:a", Trainer(false)), absl::StatusCode::kInvalidArgument, "0-3,6");
  for (const char* wrong : {"", "gpu", "cpu0", "cuda0", "Auto", "cpu,cuda"})
    ExpectRefused(ChooseDevices(wrong, Trainer(false)), absl::StatusCode::kInvalidArgument,
                  "expected auto, cpu");
}

TEST_F(ChooseDevicesTest, AutoChoosesUsableGpus) {
  {
    const FakeGpus fake(EqualGpus(2));
    const auto gpus = ChooseDevices("auto", Trainer(true));
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    EXPECT_EQ(gpus->gpus.gpus.size(), 2u);
    EXPECT_EQ(InventoryOf(*gpus, 0).slots(), 2);
    EXPECT_EQ(InventoryOf(*gpus, 0).device_kind(), "cuda");
  }
  const NoGpus none;
  const auto cpu = ChooseDevices("auto", Trainer(true));
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_TRUE(cpu->gpus.gpus.empty());
  EXPECT_EQ(cpu->cores, PhysicalCores());
  EXPECT_TRUE(cpu->notes.empty());
}

TEST_F(ChooseDevicesTest, AutoExplainsUnusedGpus) {
  const FakeGpus fake(EqualGpus(1));
  const auto cpu = ChooseDevices("auto", Trainer(false));
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_TRUE(cpu->gpus.gpus.empty());
  ASSERT_EQ(cpu->notes.size(), 1u);
  EXPECT_NE(cpu->notes[0].find("no GPU engine"), std::string::npos) << cpu->notes[0];
  ExpectRefused(ChooseDevices("cuda", Trainer(false)), absl::StatusCode::kFailedPrecondition,
                "no GPU engine");
}

TEST_F(ChooseDevicesTest, SelectsGpusByIndex) {
  const FakeGpus fake(EqualGpus(3) + ";" + EqualGpus(1, ",mig=1"));
  const std::string trainer = Trainer(true);
  const auto all = ChooseDevices("cuda", trainer);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->gpus.gpus.size(), 3u);
  EXPECT_EQ(all->notes.size(), 1u) << "MIG";
  const auto two = ChooseDevices("cuda:2,0", trainer);
  ASSERT_TRUE(two.ok()) << two.status();
  ASSERT_EQ(two->gpus.gpus.size(), 2u);
  EXPECT_EQ(two->gpus.gpus[0].index, 2);
  EXPECT_EQ(two->gpus.gpus[1].index, 0);
  EXPECT_EQ(InventoryOf(*two, 0).slots(), 2);
  EXPECT_EQ(InventoryOf(*two, 0).gpus_size(), 2);
  ExpectRefused(ChooseDevices("cuda:0,4", trainer), absl::StatusCode::kFailedPrecondition,
                "GPU 4 does not exist");
  ExpectRefused(ChooseDevices("cuda:3", trainer), absl::StatusCode::kFailedPrecondition, "cannot be used");
  ExpectRefused(ChooseDevices("cuda:0,0", trainer), absl::StatusCode::kInvalidArgument, "named twice");
  const NoGpus none;
  ExpectRefused(ChooseDevices("cuda", trainer), absl::StatusCode::kFailedPrecondition, "no GPU: ");
  ExpectRefused(ChooseDevices("cuda:0", trainer), absl::StatusCode::kFailedPrecondition, "no GPU: ");
}

}  // namespace
}  // namespace autocfg::worker
