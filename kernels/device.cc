#include "kernels/device.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

class HostTimer final : public StreamTimer {
 public:
  void Start(Stream& stream) override { start_ = Now(stream); }
  void Stop(Stream& stream) override { stop_ = Now(stream); }
  double Seconds() override { return std::chrono::duration<double>(stop_ - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::time_point Now(Stream& stream) {
    stream.Synchronize();
    return Clock::now();
  }
  Clock::time_point start_, stop_;
};

constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kArenaAlignment)};

}  // namespace

std::unique_ptr<StreamTimer> Device::CreateTimer() { return std::make_unique<HostTimer>(); }

void Device::CopyWithin(void* to, const void* from, std::int64_t bytes, Stream& stream) {
  std::vector<char> host(static_cast<std::size_t>(bytes));
  CopyToHost(host.data(), from, bytes, stream);
  stream.Synchronize();
  CopyFromHost(to, host.data(), bytes, stream);
}

void* Device::AllocateHost(std::int64_t bytes) {
  return ::operator new(static_cast<std::size_t>(bytes), kAlignment);
}

void Device::FreeHost(void* data, std::int64_t /*bytes*/) noexcept { ::operator delete(data, kAlignment); }

}  // namespace autocfg
