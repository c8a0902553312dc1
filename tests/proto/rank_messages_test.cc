#include "proto/rank_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "google/protobuf/util/message_differencer.h"
#include "proto/convert/spec_convert.h"
#include "proto/convert/step_timeline.h"
#include "proto/convert/trainer_convert.h"
#include "search/plan/plan_text.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::HasSubstr;

v1::RunSpec TrainingOf(std::int64_t steps) {
  v1::RunSpec spec;
  spec.mutable_train()->set_steps(steps);
  return spec;
}

// A result of the largest size: no value is 0, which would take no bytes.
v1::RankMessage ResultOf(std::int64_t steps, std::int64_t rows = 0, std::int64_t recorded_rows = 0) {
  v1::RankMessage message;
  v1::TrainResult& result = *message.mutable_train_result();
  for (std::int64_t step = 0; step < steps; ++step) {
    result.add_losses(1 + std::sqrt(step));
    result.add_grad_norms(2 + std::sqrt(step));
    result.add_step_time_s(3 + std::sqrt(step));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    *result.add_trace() = ToProto(TraceRow{99'999, Lane::kPipelineSend, 2'000'000, 1.5, 2.5 + row});
  }
  for (std::int64_t row = 0; row < recorded_rows; ++row) {
    *result.mutable_timeline()->add_rows() =
        ToProto(TimelineRow{.pipeline = 99'999,
                            .action = {.kind = ActionKind::kSumTiedEmbedding,
                                       .lane = Lane::kPipelineSend,
                                       .stage = 99'999,
                                       .microbatch = 2'000'000},
                            .start_s = 1.5,
                            .end_s = 2.5 + static_cast<double>(row)});
  }
  result.mutable_planned_memory_bytes()->set_total(-1);
  result.set_peak_memory_bytes(-1);
  result.set_device_overhead_bytes(-1);
  result.mutable_slice()->set_tensor(1);
  result.set_first_step(-1);
  v1::Breakdown& breakdown = *result.mutable_breakdown_s();
  const auto* fields = v1::Breakdown::descriptor();
  for (int i = 0; i < fields->field_count(); ++i)
    breakdown.GetReflection()->SetDouble(&breakdown, fields->field(i), 0.5 + i);
  result.set_checkpoint_path(std::string(4096, 'p'));  // the longest path that the system takes
  return message;
}

// So that a new field cannot be left out of the parts.
TEST(ResultParts, AreTestedWithEveryField) {
  const v1::RankMessage whole = ResultOf(1, 1, 1);
  const v1::TrainResult& result = whole.train_result();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  result.GetReflection()->ListFields(result, &set);
  EXPECT_EQ(static_cast<int>(set.size()), v1::TrainResult::descriptor()->field_count());
}

std::vector<v1::RankMessage> PartsOf(const v1::RankMessage& message) {
  std::vector<v1::RankMessage> parts;
  ForEachPart(message, [&](const v1::RankMessage& part) { parts.push_back(part); });
  return parts;
}

// Splits the message, checks the parts and joins them.
v1::RankMessage SplitAndJoined(const v1::RunSpec& spec, const v1::RankMessage& message) {
  ResultJoiner joiner(spec);
  const std::vector<v1::RankMessage> parts = PartsOf(message);
  for (const v1::RankMessage& part : parts) {
    EXPECT_LE(part.ByteSizeLong(), kMaxRankMessageBytes);
    EXPECT_EQ(part.more(), &part != &parts.back());
    EXPECT_FALSE(joiner.complete());
    EXPECT_EQ(joiner.Add(part), absl::OkStatus());
  }
  EXPECT_TRUE(joiner.complete());
  return joiner.Take();
}

TEST(ResultParts, JoinToTheWhole) {
  for (const std::int64_t steps : {0, 1, 2500, 2560, 2561, 100'000}) {
    const v1::RankMessage whole = ResultOf(steps);
    EXPECT_TRUE(MessageDifferencer::Equals(SplitAndJoined(TrainingOf(steps), whole), whole)) << steps;
  }
  EXPECT_EQ(PartsOf(ResultOf(22)).size(), 1u) << "a trial's";
  EXPECT_GT(PartsOf(ResultOf(100'000)).size(), 30u);

  v1::RunSpec traced = TrainingOf(10);
  traced.mutable_train()->set_trace(true);
  traced.mutable_train()->mutable_workload()->set_global_batch(20'000);
  const v1::RankMessage trace = ResultOf(10, LimitsOf(traced).trace_rows);
  EXPECT_TRUE(MessageDifferencer::Equals(SplitAndJoined(traced, trace), trace));

  v1::RunSpec recorded = TrainingOf(10);
  recorded.mutable_train()->set_record_breakdown(true);
  recorded.mutable_train()->mutable_workload()->set_global_batch(20'000);
  ASSERT_EQ(LimitsOf(recorded).timeline_rows, kMostTimelineRows);
  v1::RankMessage timeline = ResultOf(10, 0, kMostTimelineRows);
  EXPECT_TRUE(MessageDifferencer::Equals(SplitAndJoined(recorded, timeline), timeline));
  timeline.mutable_train_result()->mutable_timeline()->clear_rows();
  timeline.mutable_train_result()->mutable_timeline()->set_left_out("too many");
  EXPECT_TRUE(MessageDifferencer::Equals(SplitAndJoined(recorded, timeline), timeline));

  v1::RunSpec calibration;
  v1::RankMessage times;
  for (int i = 0; i < 5000; ++i) {
    const OpDesc op{.kind = OpKind::kMatmul, .dims = {i + 1, 1 << 20, 1 << 20}};
    *calibration.mutable_calibrate()->add_ops() = ToProto(op);
    *times.mutable_calibrate_result()->add_ops() = ToProto(OpTime{op, 1e-6, 1e-6});
  }
  times.mutable_calibrate_result()->set_device_overhead_bytes(5);
  EXPECT_TRUE(MessageDifferencer::Equals(SplitAndJoined(calibration, times), times));
  EXPECT_GT(PartsOf(times).size(), 1u);
}

TEST(ResultParts, OtherMessagesStayWhole) {
  v1::RankMessage message;
  message.mutable_progress()->set_step(3);
  const auto parts = PartsOf(message);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(MessageDifferencer::Equals(parts[0], message));
}

TEST(ResultJoiner, RefusesMoreThanWasAskedFor) {
  const auto refusal = [](const v1::RunSpec& spec, const v1::RankMessage& message) {
    ResultJoiner joiner(spec);
    absl::Status status;
    for (const v1::RankMessage& part : PartsOf(message)) {
      if (status.ok()) status = joiner.Add(part);
    }
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(TrainingOf(9), ResultOf(10)),
            "its result has more losses than the job asked for: 10 of at most 9");
  EXPECT_THAT(refusal(TrainingOf(10), ResultOf(10, 1)), HasSubstr("more trace rows"));
  EXPECT_THAT(refusal(TrainingOf(10), ResultOf(10, 0, 1)), HasSubstr("more timeline rows"));
  v1::RankMessage calibration;
  calibration.mutable_calibrate_result()->add_ops();
  v1::RunSpec asks;
  asks.mutable_calibrate();
  EXPECT_THAT(refusal(asks, calibration), HasSubstr("more op times"));
  EXPECT_EQ(refusal(TrainingOf(1), calibration), "its result is not of the kind of its job");
  EXPECT_EQ(refusal(asks, ResultOf(0)), "its result is not of the kind of its job");

  // Few elements, many bytes.
  v1::RunSpec traced = TrainingOf(1);
  traced.mutable_train()->set_trace(true);
  v1::RankMessage part;
  part.set_more(true);
  part.mutable_train_result()->add_trace()->set_lane(std::string(60'000, 'x'));
  ResultJoiner joiner(traced);
  EXPECT_TRUE(joiner.Add(part).ok());
  EXPECT_THAT(std::string(joiner.Add(part).message()), HasSubstr("more bytes"));

  ResultJoiner twice(TrainingOf(1));
  EXPECT_TRUE(twice.Add(ResultOf(1)).ok());
  EXPECT_EQ(twice.Add(ResultOf(1)).message(), "it sent a second result");
}

TEST(ResultLimits, CoverTheTraceOfEveryProgram) {
  ModelSpec model;
  model.layers = 8;
  model.hidden = 16;
  model.heads = 4;
  model.vocab = 64;
  FillDefaults(model, 8);
  const Workload workload{48, 8, *ParsePrecision("fp32")};
  for (const char* text :
       {"tp=1", "pp=4", "tp=2,pp=2,dp=2", "pp=4,mbs=2,schedule=gpipe", "pp=2,vpp=4,schedule=interleaved"}) {
    const ParallelPlan plan = *ParsePlanText(text);
    v1::RunSpec spec;
    *spec.mutable_train()->mutable_workload() = ToProto(workload);
    *spec.mutable_train()->mutable_plan() = ToProto(plan);
    spec.mutable_train()->set_trace(true);
    const std::int64_t most = LimitsOf(spec).trace_rows;
    spec.mutable_train()->set_record_breakdown(true);
    EXPECT_EQ(LimitsOf(spec).timeline_rows, most);
    for (const RankProgram& rank : Lower({model, workload, plan}).ranks) {
      EXPECT_LE(static_cast<std::int64_t>(rank.size()), most);
      EXPECT_GT(4 * static_cast<std::int64_t>(rank.size()), most - 64) << "of the right size";
    }
  }
}

TEST(ResultLimits, AreFiniteWhateverTheSpec) {
  v1::RunSpec spec = TrainingOf(std::int64_t{1} << 62);
  spec.mutable_train()->set_trace(true);
  spec.mutable_train()->mutable_workload()->set_global_batch(std::int64_t{1} << 62);
  spec.mutable_train()->mutable_plan()->set_virtual_stages(std::int64_t{1} << 62);
  spec.mutable_train()->mutable_plan()->set_dp(-1);
  const ResultLimits limits = LimitsOf(spec);
  EXPECT_GT(limits.bytes, 0);
  EXPECT_LE(limits.trace_rows, 10 * kMaxProgramMicrobatches);
}

}  // namespace
}  // namespace autocfg
