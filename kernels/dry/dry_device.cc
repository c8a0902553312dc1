#include "kernels/dry/dry_device.h"

#include <algorithm>
#include <cstring>

namespace autocfg {
namespace {

class DryStream final : public Stream {
 public:
  void Synchronize() override {}
};

class DryDevice final : public Device {
 public:
  std::string Name() const override { return "dry"; }
  bool Computes() const override { return false; }
  bool ComputesOnHost() const override { return false; }
  bool ComputesIn(DType) const override { return true; }

  void* Allocate(std::int64_t bytes) override {
    allocated_bytes_ += bytes;
    return nullptr;
  }
  void Free(void* /*data*/, std::int64_t bytes) noexcept override { allocated_bytes_ -= bytes; }

  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<DryStream>(); }

  void CopyFromHost(void* /*device*/, const void* /*host*/, std::int64_t /*bytes*/,
                    Stream& /*stream*/) override {}
  void CopyToHost(void* host, const void* /*device*/, std::int64_t bytes, Stream& /*stream*/) override {
    std::memset(host, 0, static_cast<std::size_t>(bytes));
  }

  void CopyWithin(void* /*to*/, const void* /*from*/, std::int64_t /*bytes*/, Stream& /*stream*/) override {}

  // Returns the bytes allocated outside the arena; the device itself uses none.
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return std::max<std::int64_t>(0, allocated_bytes_ - arena_bytes);
  }

 private:
  std::int64_t allocated_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> CreateDryDevice() { return std::make_unique<DryDevice>(); }

}  // namespace autocfg
