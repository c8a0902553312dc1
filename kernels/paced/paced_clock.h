// The virtual clock of one paced rank. Nothing sleeps: an op moves the clock by the seconds that it would
// take, so a run takes as long as its control messages, and its times are those of the devices that it stands
// for. One rank, one thread.
//
// What it keeps: the host's time; the time up to which the compute stream is busy (the engine uses one stream
// a rank); the time up to which each communication lane is busy, and what ran on it. The host itself takes no
// time: it moves when it waits. Where the host issues ops in a time that is known, a forward or backward keeps
// the stream busy at least that long for each of its ops, as search/cost/cost_model.h says.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/op_log.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// Seconds of an op. Throws what its maker chose for an op whose time it does not know.
using OpSeconds = std::function<double(const OpDesc& op)>;

// Transfers of one lane run one after the other.
enum class PacedLane : std::uint8_t { kSend, kReceive, kReduce };
inline constexpr int kPacedLaneCount = 3;

struct PacedTransfer {
  double start_s = 0;
  double end_s = 0;
};

class PacedClock final : public OpSink {
 public:
  // Ops are noted in `log` too where that is given; it must outlive the clock. `host_op_s`: seconds in which
  // the host issues one op.
  explicit PacedClock(OpSeconds seconds, OpSink* log = nullptr, double host_op_s = 0)
      : seconds_(std::move(seconds)), log_(log), host_op_s_(host_op_s) {}

  double Seconds(const OpDesc& op) const { return seconds_(op); }

  // Time 0. Requires that nothing is under way.
  void Restart() {
    host_s_ = stream_s_ = reduction_s_ = 0;
    for (std::vector<PacedTransfer>& lane : transfers_) lane.clear();
  }

  // A compute op is issued on the stream. Sums of squares belong to the reduction of scalars that follows
  // them (docs/engine.md), and that starts on all ranks together (search/schedule/program.h): they wait for
  // it, or for the host to synchronise where one rank reduces alone.
  void Record(const OpDesc& op) override {
    if (log_ != nullptr) log_->Record(op);
    const double seconds = seconds_(op);
    CountIssue();
    if (op.kind == OpKind::kSumOfSquares) {
      reduction_s_ += seconds;
    } else {
      stream_s_ = StreamSeconds() + seconds;
    }
  }

  // Around the ops of a forward or backward, on the stream alone.
  void BeginIssues() {
    issued_ = 0;
    first_issue_s_ = StreamSeconds();
  }
  void EndIssues() {
    stream_s_ = std::max(StreamSeconds(), first_issue_s_ + static_cast<double>(issued_) * host_op_s_);
  }
  // An op that Record is not told of: a message on the stream.
  void CountIssue() { ++issued_; }

  double HostSeconds() const { return host_s_; }

  // When work that is issued now can start on the stream, and what depends on the stream's work so far can
  // start elsewhere.
  double StreamSeconds() const { return std::max(host_s_, stream_s_); }

  void HostWaitsUntil(double seconds) { host_s_ = std::max(host_s_, seconds); }
  void StreamWaitsUntil(double seconds) { stream_s_ = std::max(stream_s_, seconds); }

  // The host waits for the stream.
  void Synchronize() {
    stream_s_ = StreamSeconds() + TakeReductionSeconds();
    host_s_ = stream_s_;
  }

  // The seconds of the ops that belong to the reduction which is issued now.
  double TakeReductionSeconds() { return std::exchange(reduction_s_, 0.0); }

  double LaneFreeSeconds(PacedLane lane) const {
    const std::vector<PacedTransfer>& done = transfers(lane);
    return done.empty() ? 0 : done.back().end_s;
  }
  void Occupy(PacedLane lane, const PacedTransfer& transfer) {
    transfers_[static_cast<std::size_t>(lane)].push_back(transfer);
  }
  // Those complete since the restart, in order of issue.
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

}  // namespace autocfg
