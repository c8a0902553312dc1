#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "kernels/paced/paced_device.h"
#include "tests/conformance/device_suite.h"
#include "tests/support/remote_device.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> CreatePaced() {
  // outlives every device of the suite, which runs no ops
  static PacedClock clock([](const OpDesc&) { return 1.0; });
  return CreatePacedDevice(clock);
}

// A device whose memory other processes use too, as on a shared GPU. They take more memory during the first
// queries.
class SharedDevice final : public Device {
 public:
  std::string Name() const override { return "shared"; }
  bool ComputesOnHost() const override { return cpu_->ComputesOnHost(); }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyFromHost(device, host, bytes, stream);
  }
  void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyToHost(host, device, bytes, stream);
  }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    constexpr int kWhileTheyGrow = 10;
    constexpr std::int64_t kStep = std::int64_t{1} << 30;
    asked_ = std::min(asked_ + 1, kWhileTheyGrow);
    return asked_ * kStep + cpu_->OverheadBytes(arena_bytes);
  }

 private:
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
  mutable int asked_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite,
                         testing::Values(DeviceUnderTest{"cpu", CreateCpuDevice, true},
                                         DeviceUnderTest{"dry", CreateDryDevice, false},
                                         DeviceUnderTest{"paced", CreatePaced, false},
                                         DeviceUnderTest{"remote", std::make_unique<RemoteDevice>, true},
                                         DeviceUnderTest{"shared", std::make_unique<SharedDevice>, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
