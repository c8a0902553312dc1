#include "kernels/nvml/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "kernels/nvml/nvml_session.h"
#include "tests/support/fake_nvml/fake_gpus.h"

namespace autocfg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(VisiblePlaces, AllIfTheVariableIsUnset) {
  EXPECT_THAT(VisiblePlaces(std::nullopt, {"GPU-a", "GPU-b"}), ElementsAre(0, 1));
}

TEST(VisiblePlaces, AcceptsIndicesAndUuidsInOrder) {
  const std::vector<std::string> uuids = {"GPU-1a", "GPU-1b", "GPU-2c"};
  EXPECT_THAT(VisiblePlaces("2,0", uuids), ElementsAre(2, 0));
  EXPECT_THAT(VisiblePlaces(" 1 , 2", uuids), ElementsAre(1, 2));
  EXPECT_THAT(VisiblePlaces("GPU-2c,GPU-1a", uuids), ElementsAre(2, 0));
  EXPECT_THAT(VisiblePlaces("GPU-2", uuids), ElementsAre(2)) << "the beginning of one alone";
}

TEST(VisiblePlaces, InvalidEntryEndsTheList) {
  const std::vector<std::string> uuids = {"GPU-1a", "GPU-1b", "GPU-2c"};
  EXPECT_THAT(VisiblePlaces("", uuids), IsEmpty());
  EXPECT_THAT(VisiblePlaces("-1", uuids), IsEmpty());
  EXPECT_THAT(VisiblePlaces("1,7,0", uuids), ElementsAre(1));
  EXPECT_THAT(VisiblePlaces("0,GPU-1,2", uuids), ElementsAre(0)) << "the beginning of two";
  EXPECT_THAT(VisiblePlaces("2,2,1", uuids), ElementsAre(2)) << "named twice";
  EXPECT_THAT(VisiblePlaces("0,MIG-1a,1", uuids), ElementsAre(0));
  EXPECT_THAT(VisiblePlaces("1x", uuids), IsEmpty());
}

TEST(ListGpus, ListsEightGpus) {
  const FakeGpus fake(EqualGpus(8, ",mig=0,used=1024"));
  const GpuList list = ListGpus();
  ASSERT_EQ(list.gpus.size(), 8u);
  EXPECT_THAT(list.left_out, IsEmpty());
  EXPECT_EQ(list.driver, "570.86.15");
  EXPECT_EQ(list.why_none, "");
  const GpuInfo& third = list.gpus[3];
  EXPECT_EQ(third, (GpuInfo{.index = 3,
                            .name = "NVIDIA H200",
                            .uuid = "GPU-0003-d",
                            .memory_bytes = kFakeGpuBytes,
                            .free_bytes = kFakeGpuBytes - 1024,
                            .nvlinks = 18,
                            .farthest = "sockets"}));
  EXPECT_EQ(TextOf(third), "GPU 3 (NVIDIA H200)");
  EXPECT_EQ(NamesOf(list, true), "8 x NVIDIA H200, driver 570.86.15");
  EXPECT_EQ(NamesOf(list, false), "NVIDIA H200, driver 570.86.15");
  EXPECT_EQ(UuidsOf(list)[7], "GPU-0007-h");
}

TEST(ListGpus, SingleGpuHasNoFarthestPeer) {
  const FakeGpus fake("name=Tesla,uuid=GPU-x,total=1000000");
  const GpuList list = ListGpus();
  ASSERT_EQ(list.gpus.size(), 1u);
  EXPECT_EQ(list.gpus[0].farthest, "");
  EXPECT_EQ(list.gpus[0].nvlinks, 0);
}

TEST(ListGpus, TwoGpusOnOneBoard) {
  const FakeGpus fake(EqualGpus(4));
  const ScopedVariable visible("CUDA_VISIBLE_DEVICES", "1,0");
  const GpuList list = ListGpus();
  ASSERT_EQ(list.gpus.size(), 2u);
  EXPECT_EQ(list.gpus[0].index, 1);
  EXPECT_EQ(list.gpus[0].farthest, "PCIe switch") << "those that are not visible do not count";
}

TEST(ListGpus, DoesNotChangeMig) {
  const FakeGpus fake(EqualGpus(1, ",mig=1") + ";" + EqualGpus(1));
  const GpuList list = ListGpus();
  ASSERT_EQ(list.gpus.size(), 1u);
  EXPECT_EQ(list.gpus[0].index, 1);
  ASSERT_EQ(list.left_out.size(), 1u);
  EXPECT_EQ(list.left_out[0].index, 0);
  EXPECT_THAT(list.left_out[0].left_out, HasSubstr("MIG is on"));
  const FakeGpus alone(EqualGpus(1, ",mig=1"));
  EXPECT_THAT(ListGpus().gpus, IsEmpty());
  EXPECT_EQ(ListGpus().why_none, "no GPU: GPU 0 (NVIDIA H200) is left out: MIG is on, and is left as it is");
}

TEST(ListGpus, LeavesOutUndescribedGpus) {
  const FakeGpus fake("name=GPU of a board,uuid=GPU-x;uuid=GPU-y,total=100");
  const GpuList list = ListGpus();
  EXPECT_THAT(list.gpus, IsEmpty());
  ASSERT_EQ(list.left_out.size(), 2u);
  EXPECT_THAT(list.left_out[0].left_out, HasSubstr("memory"));
  EXPECT_THAT(list.left_out[1].left_out, HasSubstr("describe"));
}

TEST(ListGpus, EmptyListHasAReason) {
  {
    const NoGpus none;
    EXPECT_THAT(ListGpus().why_none,
                testing::StartsWith("no GPU: there is no NVIDIA driver (libautocfg-no-nvml.so.1: "));
    EXPECT_EQ(ListGpus().driver, "");
  }
  {
    const FakeGpus fake("");
    EXPECT_EQ(ListGpus().why_none, "no GPU: the NVIDIA driver 570.86.15 sees none");
  }
  {
    const FakeGpus fake(EqualGpus(2));
    const ScopedVariable visible("CUDA_VISIBLE_DEVICES", "");
    EXPECT_EQ(ListGpus().why_none, "no GPU: CUDA_VISIBLE_DEVICES=\"\" shows none of 2");
  }
  {
    const FakeGpus fake(EqualGpus(2));
    const ScopedVariable init("AUTOCFG_FAKE_NVML_INIT", "9");
    EXPECT_EQ(ListGpus().why_none, "no GPU: the NVIDIA driver does not answer (Driver Not Loaded)");
  }
  {
    const ScopedVariable library("AUTOCFG_NVML_LIBRARY", "libm.so.6");  // exists, but is not NVML
    EXPECT_THAT(ListGpus().why_none, HasSubstr("libm.so.6 has no nvmlInit_v2"));
  }
}

TEST(NvmlSession, ReportsMemoryByProcess) {
  const FakeGpus fake(
      "name=a,uuid=GPU-a,total=1000,used=600,pid=4321;name=b,uuid=GPU-b,total=1000,used=1,busy=1");
  std::string why;
  const auto nvml = NvmlSession::Open(why);
  ASSERT_NE(nvml, nullptr) << why;
  const auto processes = nvml->Processes(0);
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].pid, 4321);
  EXPECT_EQ(processes[0].bytes, 600);
  EXPECT_THAT(nvml->Processes(1), IsEmpty());
  EXPECT_EQ(nvml->Memory(1)->free, 999);
  EXPECT_EQ(nvml->Memory(1)->free, 1000) << "asked anew";
  EXPECT_FALSE(nvml->Memory(2)) << "beyond the last";
  EXPECT_EQ(nvml->Uuid(2), "");
  EXPECT_FALSE(nvml->Distance(0, 2));
}

// Memory that the driver reserves belongs to no process, if the driver reports how much it is.
TEST(NvmlSession, ReportsReservedMemory) {
  const FakeGpus fake(
      "name=a,uuid=GPU-a,total=1000,used=100,reserved=30;name=b,uuid=GPU-b,total=1000,used=100,reserved=30,"
      "old=1");
  std::string why;
  const auto nvml = NvmlSession::Open(why);
  ASSERT_NE(nvml, nullptr) << why;
  for (const int index : {0, 1}) {
    EXPECT_EQ(nvml->Memory(index)->total, 1000);
    EXPECT_EQ(nvml->Memory(index)->free, 870);
  }
  EXPECT_EQ(nvml->Memory(0)->reserved, 30);
  EXPECT_EQ(nvml->Memory(0)->Used(), 100);
  EXPECT_EQ(nvml->Memory(1)->reserved, 0);
  EXPECT_EQ(nvml->Memory(1)->Used(), 130);
}

TEST(GpuUuidText, FormatsUuidsAsTheDriverDoes) {
  std::array<unsigned char, 16> bytes{};
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0xf8));
  EXPECT_EQ(GpuUuidText(bytes), "GPU-f8f9fafb-fcfd-feff-0001-020304050607");
}

}  // namespace
}  // namespace autocfg
