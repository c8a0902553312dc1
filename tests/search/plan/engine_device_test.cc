#include "search/plan/cluster/engine_device.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(DeviceKind, NamesThereAndBack) {
  for (const DeviceKind kind : kDeviceKinds) EXPECT_EQ(ParseDeviceKind(Name(kind)), kind) << Name(kind);
  EXPECT_EQ(Name(DeviceKind::kCpu), "cpu");
  EXPECT_EQ(Name(DeviceKind::kCuda), "cuda");
  for (const std::string_view other : {"", "CPU", "cpu ", "paced", "dry", "auto", "tpu"})
    EXPECT_EQ(ParseDeviceKind(other), std::nullopt) << other;
}

TEST(EngineDevice, NamesThereAndBack) {
  std::set<std::string_view> names;
  for (const EngineDevice device : kEngineDevices) {
    EXPECT_EQ(ParseEngineDevice(Name(device)), device) << Name(device);
    names.insert(Name(device));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"cpu", "cuda", "paced", "dry"}));
  for (const std::string_view other : {"", "CPU", "cpu ", "cpu:0", "auto", "gpu", "tpu"})
    EXPECT_EQ(ParseEngineDevice(other), std::nullopt) << other;
}

TEST(EngineDevice, NamesForMessages) {
  EXPECT_EQ(EngineDeviceNames(/*dry=*/true), "cpu, cuda, paced or dry");
  EXPECT_EQ(EngineDeviceNames(/*dry=*/false), "cpu, cuda or paced");
}

TEST(EngineDevice, Predicates) {
  const auto which = [](auto predicate) {
    std::set<EngineDevice> devices;
    std::copy_if(kEngineDevices.begin(), kEngineDevices.end(), std::inserter(devices, devices.end()),
                 predicate);
    return devices;
  };
  using Set = std::set<EngineDevice>;
  EXPECT_EQ(which(UsesGpus), Set{EngineDevice::kCuda});
  EXPECT_EQ(which(Computes), (Set{EngineDevice::kCpu, EngineDevice::kCuda}));
  EXPECT_EQ(which(IsEmulated), Set{EngineDevice::kPaced});
  EXPECT_EQ(which(IsDry), Set{EngineDevice::kDry});
}

TEST(EngineDevice, NeedsItsHardware) {
  EXPECT_EQ(NeededKind(EngineDevice::kCpu), DeviceKind::kCpu);
  EXPECT_EQ(NeededKind(EngineDevice::kCuda), DeviceKind::kCuda);
  EXPECT_EQ(NeededKind(EngineDevice::kPaced), std::nullopt) << "it runs on any machine";
  EXPECT_EQ(NeededKind(EngineDevice::kDry), std::nullopt);
}

}  // namespace
}  // namespace autocfg
