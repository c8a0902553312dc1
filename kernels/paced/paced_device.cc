#include "kernels/paced/paced_device.h"

#include "kernels/dry/dry_device.h"

namespace autocfg {
namespace {

class PacedStream final : public Stream {
 public:
  explicit PacedStream(PacedClock& clock) : clock_(clock) {}
  void Synchronize() override { clock_.Synchronize(); }

 private:
  PacedClock& clock_;
};

class PacedTimer final : public StreamTimer {
 public:
  explicit PacedTimer(PacedClock& clock) : clock_(clock) {}
  void Start(Stream&) override { start_s_ = clock_.StreamSeconds(); }
  void Stop(Stream&) override { stop_s_ = clock_.StreamSeconds(); }
  double Seconds() override { return stop_s_ - start_s_; }

 private:
  PacedClock& clock_;
  double start_s_ = 0, stop_s_ = 0;
};

class PacedDevice final : public Device {
 public:
  explicit PacedDevice(PacedClock& clock) : clock_(clock) {}

  std::string Name() const override { return "paced"; }
  bool Computes() const override { return dry_->Computes(); }
  bool ComputesOnHost() const override { return dry_->ComputesOnHost(); }
  bool ComputesIn(DType type) const override { return dry_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return dry_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { dry_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<PacedStream>(clock_); }
  std::unique_ptr<StreamTimer> CreateTimer() override { return std::make_unique<PacedTimer>(clock_); }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) override {
    dry_->CopyFromHost(device, host, bytes, stream);
  }
  void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) override {
    dry_->CopyToHost(host, device, bytes, stream);
  }
  void CopyWithin(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    dry_->CopyWithin(to, from, bytes, stream);
  }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return dry_->OverheadBytes(arena_bytes);
  }

 private:
  PacedClock& clock_;
  const std::unique_ptr<Device> dry_ = CreateDryDevice();
};

}  // namespace

std::unique_ptr<Device> CreatePacedDevice(PacedClock& clock) { return std::make_unique<PacedDevice>(clock); }

}  // namespace autocfg
