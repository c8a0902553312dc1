#include "proto/convert/device_convert.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(DeviceConvert, DeviceOfAJob) {
  v1::Job job;
  for (const EngineDevice device : kEngineDevices) {
    job.set_device(std::string(Name(device)));
    EXPECT_EQ(EngineDeviceOf(job), device);
    EXPECT_EQ(NeededKind(job), NeededKind(device));
    EXPECT_EQ(NeededKind(job.device()), NeededKind(device));
  }
}

TEST(DeviceConvert, JobOfAnUnknownDeviceNeedsNoHardware) {
  v1::Job job;
  for (const char* name : {"", "tpu", "auto"}) {
    job.set_device(name);
    EXPECT_EQ(EngineDeviceOf(job), std::nullopt) << name;
    EXPECT_EQ(NeededKind(job), std::nullopt) << name;
  }
}

TEST(DeviceConvert, WorkerWithoutAKindIsACpuWorker) {
  v1::Inventory inventory;
  EXPECT_EQ(WorkerKind(inventory), DeviceKind::kCpu);
  EXPECT_EQ(WorkerKind(""), DeviceKind::kCpu);
  for (const DeviceKind kind : kDeviceKinds) {
    inventory.set_device_kind(std::string(Name(kind)));
    EXPECT_EQ(WorkerKind(inventory), kind);
  }
  for (const char* name : {"tpu", "paced"}) {
    inventory.set_device_kind(name);
    EXPECT_EQ(WorkerKind(inventory), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace autocfg
