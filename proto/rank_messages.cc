#include "proto/rank_messages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/step_timeline.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

// Payload of a part. The rest of kMaxRankMessageBytes is for tags and lengths.
constexpr std::size_t kPartBytes = kMaxRankMessageBytes - (4u << 10);
constexpr std::size_t kDoubleBytes = 8;
constexpr std::size_t kElementHeaderBytes = 8;  // tag and length of a message in a list

// In a result: memory, slice, a path, a breakdown, tags and lengths of parts.
constexpr std::int64_t kFixedBytes = kMaxRankMessageBytes;
constexpr std::int64_t kStepBytes =
    std::int64_t{3} * 9;  // three doubles, with their share of the parts' tags
constexpr std::int64_t kTraceRowBytes = 64;
constexpr std::int64_t kTimelineRowBytes = 96;
constexpr std::int64_t kMostTracedRows = std::int64_t{1} << 24;  // of several steps
constexpr std::int64_t kOpTimeBytes = 32;                        // beside its op
constexpr std::int64_t kMostSteps = 1'000'000'000;               // as trainer/config/train_config.cc

// Of a microbatch on a stage: a forward and a backward, and for each a receive and a send.
constexpr std::int64_t kActionsPerMicrobatch = 6;
// Of a whole rank: zeroes, reductions, the optimizer.
constexpr std::int64_t kActionsPerRank = 64;

// Collects a result and sends it whenever a part is full.
class PartSender {
 public:
  explicit PartSender(const std::function<void(const v1::RankMessage&)>& send) : send_(send) {}

  // Returns the part that the next element goes into.
  v1::RankMessage& Room(std::size_t bytes) {
    if (used_ > 0 && used_ + bytes > kPartBytes) {
      part_.set_more(true);
      send_(part_);
      part_.Clear();
      used_ = 0;
    }
    used_ += bytes;
    return part_;
  }

  void SendLast() { send_(part_); }

 private:
  const std::function<void(const v1::RankMessage&)>& send_;
  v1::RankMessage part_;
  std::size_t used_ = 0;
};

void SendTrainResult(const v1::TrainResult& result, PartSender& parts) {
  v1::TrainResult& first = *parts.Room(0).mutable_train_result();
  if (result.has_planned_memory_bytes())
    *first.mutable_planned_memory_bytes() = result.planned_memory_bytes();
  first.set_peak_memory_bytes(result.peak_memory_bytes());
  first.set_device_overhead_bytes(result.device_overhead_bytes());
  if (result.has_slice()) *first.mutable_slice() = result.slice();
  first.set_first_step(result.first_step());
  first.set_checkpoint_path(result.checkpoint_path());
  if (result.has_breakdown_s()) *first.mutable_breakdown_s() = result.breakdown_s();
  if (result.has_timeline()) first.mutable_timeline()->set_left_out(result.timeline().left_out());
  parts.Room(first.ByteSizeLong());
  for (const double loss : result.losses()) parts.Room(kDoubleBytes).mutable_train_result()->add_losses(loss);
  for (const double norm : result.grad_norms())
    parts.Room(kDoubleBytes).mutable_train_result()->add_grad_norms(norm);
  for (const double seconds : result.step_time_s())
    parts.Room(kDoubleBytes).mutable_train_result()->add_step_time_s(seconds);
  for (const v1::TraceRow& row : result.trace())
    *parts.Room(row.ByteSizeLong() + kElementHeaderBytes).mutable_train_result()->add_trace() = row;
  for (const v1::TimelineRow& row : result.timeline().rows()) {
    v1::RankMessage& part = parts.Room(row.ByteSizeLong() + 2 * kElementHeaderBytes);
    *part.mutable_train_result()->mutable_timeline()->add_rows() = row;
  }
  parts.SendLast();
}

void SendCalibrateResult(const v1::CalibrateResult& result, PartSender& parts) {
  parts.Room(kElementHeaderBytes)
      .mutable_calibrate_result()
      ->set_device_overhead_bytes(result.device_overhead_bytes());
  for (const v1::OpTime& time : result.ops())
    *parts.Room(time.ByteSizeLong() + kElementHeaderBytes).mutable_calibrate_result()->add_ops() = time;
  parts.SendLast();
}

// Rows of the trace of one rank in a step, at most.
std::int64_t MostTraceRows(const v1::TrainSpec& spec) {
  const std::int64_t replicas = std::max<std::int64_t>(1, spec.plan().dp());
  const std::int64_t micro_batch = std::max<std::int64_t>(1, spec.plan().micro_batch());
  const std::int64_t microbatches = std::clamp<std::int64_t>(
      spec.workload().global_batch() / replicas / micro_batch, 0, kMaxProgramMicrobatches);
  const std::int64_t stages =
      std::clamp<std::int64_t>(spec.plan().virtual_stages(), 1, kMaxProgramMicrobatches);
  // CheckProgramSize bounds the product.
  return kActionsPerMicrobatch * std::min(microbatches * stages, kMaxProgramMicrobatches) + kActionsPerRank;
}

absl::Status CheckCount(std::string_view what, std::int64_t count, std::int64_t most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("its result has more {} than the job asked for: {} of at most {}", what, count, most));
}

}  // namespace

void ForEachPart(const v1::RankMessage& message, const std::function<void(const v1::RankMessage&)>& send) {
  PartSender parts(send);
  if (message.has_train_result()) {
    SendTrainResult(message.train_result(), parts);
  } else if (message.has_calibrate_result()) {
    SendCalibrateResult(message.calibrate_result(), parts);
  } else {
    send(message);
  }
}

ResultLimits LimitsOf(const v1::RunSpec& spec) {
  ResultLimits limits;
  limits.bytes = kFixedBytes;
  if (spec.has_train()) {
    limits.steps = std::clamp<std::int64_t>(spec.train().steps(), 0, kMostSteps);
    if (spec.train().trace()) {
      const std::int64_t steps =
          std::clamp<std::int64_t>(spec.train().trace_steps(), 1, std::max<std::int64_t>(limits.steps, 1));
      const std::int64_t rows = MostTraceRows(spec.train());
      limits.trace_rows = rows * std::min(steps, std::max<std::int64_t>(kMostTracedRows / rows, 1));
    }
    if (spec.train().record_breakdown())
      limits.timeline_rows = std::min<std::int64_t>(MostTraceRows(spec.train()), kMostTimelineRows);
    limits.bytes += kStepBytes * limits.steps + kTraceRowBytes * limits.trace_rows +
                    kTimelineRowBytes * limits.timeline_rows;
  }
  limits.ops = spec.calibrate().ops_size();
  for (const v1::OpDesc& op : spec.calibrate().ops())
    limits.bytes += kOpTimeBytes + static_cast<std::int64_t>(op.ByteSizeLong());
  return limits;
}

absl::Status ResultJoiner::Check(const v1::RankMessage& part) const {
  if (complete_) return absl::InvalidArgumentError("it sent a second result");
  if (part.has_train_result() != wants_training_)
    return absl::InvalidArgumentError("its result is not of the kind of its job");
  const v1::TrainResult& run = part.train_result();
  const v1::TrainResult& before = whole_.train_result();
  absl::Status status = CheckCount("bytes", bytes_, limits_.bytes);
  status.Update(CheckCount("losses", before.losses_size() + std::int64_t{run.losses_size()}, limits_.steps));
  status.Update(CheckCount("gradient norms", before.grad_norms_size() + std::int64_t{run.grad_norms_size()},
                           limits_.steps));
  status.Update(CheckCount("step times", before.step_time_s_size() + std::int64_t{run.step_time_s_size()},
                           limits_.steps));
  status.Update(
      CheckCount("trace rows", before.trace_size() + std::int64_t{run.trace_size()}, limits_.trace_rows));
  status.Update(CheckCount("timeline rows",
                           before.timeline().rows_size() + std::int64_t{run.timeline().rows_size()},
                           limits_.timeline_rows));
  status.Update(CheckCount(
      "op times", whole_.calibrate_result().ops_size() + std::int64_t{part.calibrate_result().ops_size()},
      limits_.ops));
  return status;
}

absl::Status ResultJoiner::Add(v1::RankMessage part) {
  bytes_ += static_cast<std::int64_t>(part.ByteSizeLong());
  AUTOCFG_RETURN_IF_ERROR(Check(part));
  complete_ = !part.more();
  if (whole_.message_case() == v1::RankMessage::MESSAGE_NOT_SET) {
    whole_ = std::move(part);
  } else {
    whole_.MergeFrom(part);
  }
  whole_.set_more(false);
  return absl::OkStatus();
}

}  // namespace autocfg
