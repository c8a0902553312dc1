#include "trainer/backend/step_clock.h"

#include <chrono>
#include <utility>
#include <vector>

namespace autocfg::trainer {
namespace {

class SteadyClock final : public StepClock {
 public:
  void Restart() override { origin_ = Clock::now(); }
  double Seconds() const override { return std::chrono::duration<double>(Clock::now() - origin_).count(); }
  double OriginSeconds() const override {
    return std::chrono::duration<double>(origin_.time_since_epoch()).count();
  }
  bool IsVirtual() const override { return false; }
  std::optional<TimeSpan> Transfer(Lane, std::size_t) const override { return std::nullopt; }
  std::vector<TimeSpan> Collectives() const override { return {}; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point origin_ = Clock::now();
};

class PacedStepClock final : public StepClock {
 public:
  explicit PacedStepClock(std::unique_ptr<PacedClock> clock) : clock_(std::move(clock)) {}

  void Restart() override { clock_->Restart(); }
  double Seconds() const override { return clock_->StreamSeconds(); }
  double OriginSeconds() const override { return 0; }
  bool IsVirtual() const override { return true; }
  void BeginCompute() override { clock_->BeginIssues(); }
  void EndCompute() override { clock_->EndIssues(); }

  std::optional<TimeSpan> Transfer(Lane lane, std::size_t n) const override {
    const std::vector<PacedTransfer>* transfers = nullptr;
    switch (lane) {
      case Lane::kCompute: return std::nullopt;
      case Lane::kPipelineSend: transfers = &clock_->transfers(PacedLane::kSend); break;
      case Lane::kPipelineRecv: transfers = &clock_->transfers(PacedLane::kReceive); break;
      case Lane::kReduce: transfers = &clock_->transfers(PacedLane::kReduce); break;
    }
    if (transfers == nullptr || n >= transfers->size()) return std::nullopt;  // a reduction of a single rank
    return TimeSpan{(*transfers)[n].start_s, (*transfers)[n].end_s};
  }

  std::vector<TimeSpan> Collectives() const override {
    std::vector<TimeSpan> spans;
    for (const PacedLane lane : {PacedLane::kReduce, PacedLane::kTensor}) {
      for (const PacedTransfer& transfer : clock_->transfers(lane))
        spans.push_back({transfer.start_s, transfer.end_s});
    }
    return spans;
  }

 private:
  const std::unique_ptr<PacedClock> clock_;
};

}  // namespace

std::unique_ptr<StepClock> CreateSteadyClock() { return std::make_unique<SteadyClock>(); }

std::unique_ptr<StepClock> CreatePacedStepClock(std::unique_ptr<PacedClock> clock) {
  return std::make_unique<PacedStepClock>(std::move(clock));
}

}  // namespace autocfg::trainer
