// The paced device and its virtual clock. The device computes nothing, like the dry device. Nothing sleeps:
// each op advances the clock by its predicted seconds. A run therefore takes only as long as its control
// messages, while its times are those of the emulated devices. One rank, one thread.
//
// The clock tracks the host's time, the time until which the compute stream is busy (the engine uses one
// stream per rank), and for each communication lane its transfers and the time until which it is busy.
// Issuing takes no host time; the host's time advances only when it waits. If the host's time per op is
// known, a forward or backward keeps the stream busy at least that long for each of its ops, as in
// search/cost/cost_model.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/op_log.h"
#include "search/ops/hosted_time.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// Returns the seconds of an op. The creator decides what it throws for an op of unknown time.
using OpSeconds = std::function<double(const OpDesc& op)>;

// Transfers of one lane run in sequence.
enum class PacedLane : std::uint8_t { kSend, kReceive, kReduce, kTensor };
inline constexpr int kPacedLaneCount = 4;

struct PacedTransfer {
  double start_s = 0;
  double end_s = 0;
};

class PacedClock final : public OpSink {
 public:
  // Also records ops in `log` if it is given; `log` must outlive the clock. `host_op_s`: seconds that the
  // host takes to issue one op.
  explicit PacedClock(OpSeconds seconds, OpSink* log = nullptr, double host_op_s = 0)
      : seconds_(std::move(seconds)), log_(log), host_op_s_(host_op_s) {}

  double Seconds(const OpDesc& op) const { return seconds_(op); }

  // Resets the time to 0. Requires that nothing is in flight.
  void Restart() {
    host_s_ = stream_s_ = reduction_s_ = 0;
    for (std::vector<PacedTransfer>& lane : transfers_) lane.clear();
  }

  // Issues a compute op on the stream. Sums of squares are the exception: they belong to the scalar reduction
  // that follows them (docs/engine.md), which starts on all ranks together (search/schedule/program.h). Their
  // time waits for that reduction, or for a host synchronization if one rank reduces alone.
  void Record(const OpDesc& op) override {
    if (log_ != nullptr) log_->Record(op);
    const double seconds = seconds_(op);
    ++issued_;
    if (op.kind == OpKind::kSumOfSquares) {
      reduction_s_ += seconds;
    } else {
      stream_s_ = StreamSeconds() + seconds;
    }
  }

  // Call these before and after the ops of a forward or backward. Only the stream is affected.
  void BeginIssues() {
    issued_ = 0;
    first_issue_s_ = StreamSeconds();
  }
  void EndIssues() {
    stream_s_ = first_issue_s_ +
                HostedSeconds(StreamSeconds() - first_issue_s_, static_cast<double>(issued_) * host_op_s_);
  }

  double HostSeconds() const { return host_s_; }

  // Returns the time at which newly issued work can start on the stream. Work elsewhere that depends on the
  // stream can start at the same time.
  double StreamSeconds() const { return std::max(host_s_, stream_s_); }

  void HostWaitsUntil(double seconds) { host_s_ = std::max(host_s_, seconds); }
  void StreamWaitsUntil(double seconds) { stream_s_ = std::max(stream_s_, seconds); }

  // Makes the host wait for the stream.
  void Synchronize() {
    stream_s_ = StreamSeconds() + TakeReductionSeconds();
    host_s_ = stream_s_;
  }

  // Returns the seconds of the ops that belong to the reduction being issued now, and resets them.
  double TakeReductionSeconds() { return std::exchange(reduction_s_, 0.0); }

  double LaneFreeSeconds(PacedLane lane) const {
    const std::vector<PacedTransfer>& done = transfers(lane);
    return done.empty() ? 0 : done.back().end_s;
  }
  void Occupy(PacedLane lane, const PacedTransfer& transfer) {
    transfers_[static_cast<std::size_t>(lane)].push_back(transfer);
  }
  // Transfers completed since the restart, in order of issue.
  const std::vector<PacedTransfer>& transfers(PacedLane lane) const {
    return transfers_[static_cast<std::size_t>(lane)];
  }

 private:
  const OpSeconds seconds_;
  OpSink* const log_;
  const double host_op_s_;
  std::int64_t issued_ = 0;
  double first_issue_s_ = 0;
  double host_s_ = 0;
  double stream_s_ = 0;
  double reduction_s_ = 0;
  std::array<std::vector<PacedTransfer>, kPacedLaneCount> transfers_;
};

// Creates the device. Its ops are CreateDryOps (kernels/dry/dry_device.h) with the clock as their sink.
// Memory behaves as on the dry device. Synchronizing a stream advances the host time to the end of all issued
// work. All streams of the device are the clock's one stream. `clock` must outlive the result.
std::unique_ptr<Device> CreatePacedDevice(PacedClock& clock);

}  // namespace autocfg
