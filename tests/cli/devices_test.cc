#include "cli/input/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cli/input/inputs.h"
#include "search/text/cluster_json.h"
#include "tests/cli/gpu_machine.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ChooseDevice, AutoPrefersUsableGpus) {
  const GpuMachine machine(EqualGpus(2) + ";" + EqualGpus(1, ",mig=1"));
  const auto device = ChooseDevice(std::nullopt, "");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->engine, EngineDevice::kCuda);
  EXPECT_EQ(device->machine.gpus.size(), 2u);
  EXPECT_THAT(device->notes, ElementsAre("GPU 2 (NVIDIA H200) is left out: MIG is on, and is left as it is"));
  EXPECT_EQ(ChooseDevice(EngineDevice::kCuda, "")->machine, device->machine);
  for (const EngineDevice other : {EngineDevice::kCpu, EngineDevice::kPaced, EngineDevice::kDry}) {
    EXPECT_EQ(ChooseDevice(other, "")->engine, other);
    EXPECT_THAT(ChooseDevice(other, "")->machine.gpus, IsEmpty());
  }
}

TEST(ChooseDevice, AutoNotesWhyAGpuIsNotUsed) {
  {
    const GpuMachine machine(EqualGpus(1), /*engine=*/false);
    const auto device = ChooseDevice(std::nullopt, "");
    EXPECT_EQ(device->engine, EngineDevice::kCpu);
    ASSERT_EQ(device->notes.size(), 1u);
    EXPECT_THAT(device->notes[0],
                testing::AllOf(HasSubstr("on the CPU"), HasSubstr("libautocfg_cuda.so is not beside")));
    EXPECT_TRUE(absl::IsFailedPrecondition(ChooseDevice(EngineDevice::kCuda, "").status()));
    EXPECT_THAT(std::string(ChooseDevice(EngineDevice::kCuda, "").status().message()),
                HasSubstr("--device: cuda: this build has no GPU engine"));
  }
  {
    const GpuMachine machine(EqualGpus(1));
    EXPECT_EQ(ChooseDevice(std::nullopt, "fp64")->engine, EngineDevice::kCpu);
    EXPECT_THAT(ChooseDevice(std::nullopt, "fp64")->notes, ElementsAre(HasSubstr("fp64 is for CPUs only")));
    EXPECT_EQ(ChooseDevice(std::nullopt, "fp32")->engine, EngineDevice::kCuda);
  }
  {
    const GpuMachine machine(EqualGpus(1, ",mig=1"));
    EXPECT_EQ(ChooseDevice(std::nullopt, "")->engine, EngineDevice::kCpu);
    EXPECT_THAT(ChooseDevice(std::nullopt, "")->notes, ElementsAre(HasSubstr("MIG is on")));
  }
  const NoGpus none;
  EXPECT_EQ(ChooseDevice(std::nullopt, "")->engine, EngineDevice::kCpu);
  EXPECT_THAT(ChooseDevice(std::nullopt, "")->notes, IsEmpty()) << "nothing that could be used is there";
  EXPECT_THAT(std::string(ChooseDevice(EngineDevice::kCuda, "").status().message()),
              testing::StartsWith("--device: cuda: no GPU: there is no NVIDIA driver"));
}

TEST(ChooseDevice, UsesTheEngineNamedByTheVariable) {
  const GpuMachine machine(EqualGpus(1), /*engine=*/false);
  {
    const ScopedVariable module("AUTOCFG_GPU_MODULE", machine.home().Write("mine.so", ""));
    EXPECT_EQ(ChooseDevice(std::nullopt, "")->engine, EngineDevice::kCuda);
  }
  const ScopedVariable module("AUTOCFG_GPU_MODULE", machine.home() / "nowhere.so");
  EXPECT_EQ(ChooseDevice(std::nullopt, "")->engine, EngineDevice::kCpu);
  EXPECT_THAT(std::string(ChooseDevice(EngineDevice::kCuda, "").status().message()),
              HasSubstr("nowhere.so that AUTOCFG_GPU_MODULE names"));
}

// The model of a preset is a word of the name that the driver gives the GPU.
TEST(IsLike, MatchesEveryPresetToItsDriverName) {
  const std::map<std::string, std::string> driver_names = {{"v100-32gb-sxm", "Tesla V100-SXM2-32GB"},
                                                           {"a100-40gb-sxm", "NVIDIA A100-SXM4-40GB"},
                                                           {"a100-80gb-sxm", "NVIDIA A100-SXM4-80GB"},
                                                           {"h100-sxm", "NVIDIA H100 80GB HBM3"},
                                                           {"h200-sxm", "NVIDIA H200"},
                                                           {"b200-sxm", "NVIDIA B200"},
                                                           {"a100-80gb-pcie", "NVIDIA A100 80GB PCIe"},
                                                           {"h100-pcie", "NVIDIA H100 PCIe"},
                                                           {"h20", "NVIDIA H20"},
                                                           {"l40s", "NVIDIA L40S"},
                                                           {"b300-sxm", "NVIDIA B300 SXM6 AC"},
                                                           {"gb200", "NVIDIA GB200"},
                                                           {"gb300", "NVIDIA GB300"},
                                                           {"mi300x", "AMD Instinct MI300X"}};
  for (const std::string& preset : DevicePresetNames()) {
    const auto name = driver_names.find(preset);
    ASSERT_NE(name, driver_names.end()) << preset << ": add its driver's name";
    EXPECT_TRUE(IsLike(preset, {.name = name->second}))
        << preset << " must begin with a word of " << name->second;
  }
}

TEST(IsLike, MatchesPresetModelOrName) {
  const GpuInfo h200{.name = "NVIDIA H200"};
  EXPECT_TRUE(IsLike("h200-sxm", h200));
  EXPECT_TRUE(IsLike("NVIDIA H200", h200));
  EXPECT_FALSE(IsLike("h20", h200)) << "a part of a word";
  EXPECT_FALSE(IsLike("h100-sxm", h200));
  EXPECT_FALSE(IsLike("", h200));
  EXPECT_TRUE(IsLike("a100-80gb-sxm", {.name = "NVIDIA A100-SXM4-80GB"}));
}

TEST(SharedGpusNote, CountsRanksAndGpus) {
  const GpuMachine machine(EqualGpus(2));
  EXPECT_EQ(SharedGpusNote(2, ListGpus()), "");
  EXPECT_THAT(SharedGpusNote(5, ListGpus()), HasSubstr("5 ranks share 2 GPUs"));
  EXPECT_EQ(SharedGpusNote(5, {}), "");
}

TEST(LoadCluster, LocalUsesTheGpus) {
  const GpuMachine machine(EqualGpus(2));
  EXPECT_EQ(*LoadCluster("local", ListGpus()), *worker::LocalCluster(0, ListGpus()));
  EXPECT_EQ(*LoadCluster("local:1x4", ListGpus()), *worker::LocalCluster(4, ListGpus()));
  EXPECT_EQ(LoadCluster("local")->groups[0].device.kind, DeviceKind::kCpu) << "no GPUs were given";
}

TEST(MeasuredHere, RequiresMatchingGpus) {
  const GpuMachine machine(EqualGpus(2));
  const RunDevice device = *ChooseDevice(EngineDevice::kCuda, "");
  const auto whole = MeasuredHere("h200-sxm:1x2", *LoadCluster("h200-sxm:1x2"), device);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->local);
  for (const char* larger : {"h200-sxm:1x8", "h200-sxm:2x2"}) {
    const auto slices = MeasuredHere(larger, *LoadCluster(larger), device);
    ASSERT_TRUE(slices.ok()) << slices.status();
    EXPECT_FALSE(slices->local) << larger;
    EXPECT_LE(MemoryCapacity(*slices), kFakeGpuBytes) << "each rank has a GPU of its own";
    EXPECT_GT(MemoryCapacity(*slices), kFakeGpuBytes / 2);
  }
  const auto other = MeasuredHere("a100-80gb-sxm:2x8", *LoadCluster("a100-80gb-sxm:2x8"), device).status();
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  EXPECT_THAT(
      std::string(other.message()),
      testing::AllOf(HasSubstr("a100-80gb-sxm"), HasSubstr("NVIDIA H200"), HasSubstr("--predict-only")));
  const auto cpus = machine.home().Write(
      "c.json", R"({"device": {"name": "cpu", "memory_bytes": 1000000}, "nodes": 1, "gpus_per_node": 2})");
  EXPECT_THAT(std::string(MeasuredHere(cpus, *LoadCluster(cpus), device).status().message()),
              HasSubstr("are CPUs"));
}

TEST(LoadGpuPrecision, AcceptsBf16AndFp32) {
  EXPECT_EQ(*LoadGpuPrecision(""), *ParsePrecision("bf16"));
  EXPECT_EQ(*LoadGpuPrecision("fp32"), *ParsePrecision("fp32"));
  EXPECT_THAT(std::string(LoadGpuPrecision("fp64").status().message()), HasSubstr("fp64"));
  EXPECT_THAT(std::string(LoadGpuPrecision("fp16").status().message()),
              HasSubstr("fp16 on a GPU is not supported yet"));
  EXPECT_THAT(std::string(LoadGpuPrecision("fp4").status().message()), HasSubstr("unknown precision 'fp4'"));
}

}  // namespace
}  // namespace autocfg::cli
