// Round trips of predictions and counts; what the search learns of measurements and ends of trials.
#include "proto/convert/result_convert.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "tests/proto/convert/wire.h"

namespace autocfg {
namespace {

using test::Wire;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

TEST(ResultConvert, SampleIsWhatTheSearchNeedsOfAMeasurement) {
  v1::Measurement message;
  message.add_step_time_s(0.5);
  message.add_step_time_s(0.25);
  message.set_median_step_time_s(9);
  message.set_device_s(3);
  EXPECT_THAT(FromProto(message).step_time_s, ElementsAre(0.5, 0.25));
  EXPECT_EQ(FromProto(message).device_s, 3);
  EXPECT_FALSE(FromProto(message).slice);
  message.set_slice(true);
  EXPECT_TRUE(FromProto(message).slice);
}

TEST(ResultConvert, EveryTrialStateHasItsOutcomeOrNone) {
  const std::map<v1::TrialState, std::optional<TrialOutcome>> outcomes = {
      {v1::TRIAL_STATE_UNSPECIFIED, std::nullopt},
      {v1::TRIAL_STATE_QUEUED, std::nullopt},
      {v1::TRIAL_STATE_RUNNING, std::nullopt},
      {v1::TRIAL_STATE_MEASURED, TrialOutcome::kMeasured},
      {v1::TRIAL_STATE_INFEASIBLE, TrialOutcome::kOutOfMemory},
      {v1::TRIAL_STATE_FAILED, TrialOutcome::kFailed},
      {v1::TRIAL_STATE_TIMED_OUT, TrialOutcome::kTimedOut},
      {v1::TRIAL_STATE_CANCELLED, std::nullopt},
      {v1::TRIAL_STATE_LOST, TrialOutcome::kLost}};
  ASSERT_EQ(outcomes.size(), static_cast<std::size_t>(v1::TrialState_descriptor()->value_count()));
  for (const auto& [state, outcome] : outcomes) EXPECT_EQ(FromProto(state), outcome) << state;
  EXPECT_EQ(FromProto(static_cast<v1::TrialState>(77)), std::nullopt) << "of a newer build";
}

TEST(ResultConvert, PredictionRoundTrips) {
  Prediction prediction;
  prediction.feasible = true;
  prediction.reason = std::string("too big");
  prediction.step_time_s = 1;
  prediction.step_time_low_s = 0.5;
  prediction.step_time_high_s = 2;
  prediction.memory = {.parameters = 1,
                       .gradients = 2,
                       .optimizer = 3,
                       .activations = 4,
                       .workspace = 5,
                       .communication = 6,
                       .device_overhead = 7};
  prediction.capacity_bytes = 100;
  prediction.breakdown = {.compute = 1,
                          .recompute = 2,
                          .tp_comm = 3,
                          .pp_comm = 4,
                          .dp_comm = 5,
                          .bubble = 6,
                          .optimizer = 7,
                          .overhead = 8};
  EXPECT_FALSE(ToProto(prediction).breakdown_s().has_hidden_comm());
  EXPECT_FALSE(FromProto(ToProto(prediction)).hidden_comm_s.has_value());
  prediction.hidden_comm_s = 9;
  prediction.memory.allocator_reserve = 8;
  prediction.memory_low_bytes = 33;
  prediction.memory_high_bytes = 41;
  const v1::Prediction message = Wire(ToProto(prediction));
  EXPECT_EQ(message.step_time_s(), 1);
  EXPECT_EQ(message.step_time_low_s(), 0.5);
  EXPECT_EQ(message.step_time_high_s(), 2);
  const v1::MemoryBytes& memory = message.memory_bytes();
  EXPECT_THAT((std::vector<std::int64_t>{memory.parameters(), memory.gradients(), memory.optimizer(),
                                         memory.activations(), memory.workspace(), memory.communication(),
                                         memory.allocator_reserve(), memory.device_overhead(),
                                         memory.allocated(), memory.reserved(), memory.total(),
                                         memory.total_low(), memory.total_high(), memory.capacity()}),
              ElementsAre(1, 2, 3, 4, 5, 6, 8, 7, 21, 29, 36, 33, 41, 100));
  const v1::Breakdown& parts = message.breakdown_s();
  EXPECT_THAT((std::vector<double>{parts.compute(), parts.recompute(), parts.tp_comm(), parts.pp_comm(),
                                   parts.dp_comm(), parts.bubble(), parts.optimizer(), parts.overhead()}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(parts.hidden_comm(), 9);
  const Prediction back = FromProto(message);
  EXPECT_EQ(back.hidden_comm_s, 9);
  EXPECT_EQ(back.feasible, true);
  EXPECT_EQ(back.reason, "too big");
  EXPECT_EQ(back.step_time_s, 1);
  EXPECT_EQ(back.step_time_low_s, 0.5);
  EXPECT_EQ(back.step_time_high_s, 2);
  EXPECT_EQ(back.memory, prediction.memory);
  EXPECT_EQ(back.memory_low_bytes, prediction.memory_low_bytes);
  EXPECT_EQ(back.memory_high_bytes, prediction.memory_high_bytes);
  EXPECT_EQ(back.capacity_bytes, 100);
  const Breakdown& b = back.breakdown;
  EXPECT_THAT((std::vector<double>{b.compute, b.recompute, b.tp_comm, b.pp_comm, b.dp_comm, b.bubble,
                                   b.optimizer, b.overhead}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// The names of a message's fields, in their order.
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

TEST(PredictionConvert, MessagesHaveTheFieldsOfTheTables) {
  std::vector<std::string> parts, regions;
  for (const BreakdownPart& part : kBreakdownParts) parts.emplace_back(part.name);
  for (const MemoryRegion& region : kMemoryRegions) regions.emplace_back(region.name);
  parts.emplace_back("hidden_comm");  // none of the parts that add up
  EXPECT_EQ(FieldNames(*v1::Breakdown::descriptor()), parts);
  regions.insert(regions.end(), {"total", "capacity", "allocated", "reserved", "total_low", "total_high"});
  EXPECT_THAT(FieldNames(*v1::MemoryBytes::descriptor()), UnorderedElementsAreArray(regions));
}

TEST(CountsConvert, AllFields) {
  SearchCounts counts;
  counts.enumerated = 6;
  counts.illegal = 1;
  counts.out_of_memory = 2;
  counts.predicted = 3;
  counts.evaluated = 4;
  counts.measured = 5;
  counts.rejected = {{"out_of_memory", 2}, {"failed", 1}};
  const v1::Counts message = ToProto(counts);
  EXPECT_THAT((std::vector<std::int64_t>{message.enumerated(), message.illegal(), message.out_of_memory(),
                                         message.predicted(), message.evaluated(), message.measured()}),
              ElementsAre(6, 1, 2, 3, 4, 5));
  EXPECT_EQ(message.rejected_size(), 2);
  EXPECT_EQ(message.rejected().at("out_of_memory"), 2);
}

}  // namespace
}  // namespace autocfg
