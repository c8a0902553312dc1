#include "proto/convert/step_timeline.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

using testing::HasSubstr;
using testing::Not;

TimelineRow RowAt(std::int32_t pipeline, double start_s) {
  return {.pipeline = pipeline,
          .action = {.kind = ActionKind::kForward, .stage = 2, .microbatch = 7},
          .start_s = start_s,
          .end_s = start_s + 0.5};
}

v1::StepTimeline TimelineOf(const std::vector<TimelineRow>& rows) {
  v1::StepTimeline timeline;
  for (const TimelineRow& row : rows) *timeline.add_rows() = ToProto(row);
  return timeline;
}

TEST(StepTimeline, RowsOfEveryKindAndLaneRoundTrip) {
  for (std::size_t kind = 0; kind < kActionKinds; ++kind) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      TimelineRow row = RowAt(3, 0.25);
      row.action.kind = static_cast<ActionKind>(kind);
      row.action.lane = static_cast<Lane>(lane);
      const auto back = FromProto(ToProto(row));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->action, row.action);
      EXPECT_EQ(back->pipeline, 3);
      EXPECT_EQ(back->start_s, 0.25);
      EXPECT_EQ(back->end_s, 0.75);
    }
  }
  TimelineRow whole = RowAt(0, 0);
  whole.action = {.kind = ActionKind::kOptimizer};
  EXPECT_EQ(FromProto(ToProto(whole))->action, whole.action) << "of no stage and no microbatch";
}

TEST(StepTimeline, MalformedOnesAreNamedInOneLine) {
  const v1::StepTimeline good = TimelineOf({RowAt(0, 0), RowAt(1, 1)});
  EXPECT_TRUE(CheckTimeline(good).ok()) << CheckTimeline(good);
  const auto refused = [&](const std::function<void(v1::StepTimeline&)>& edit, const char* what) {
    v1::StepTimeline bad = good;
    edit(bad);
    const absl::Status status = CheckTimeline(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  };
  refused([](auto& t) { t.mutable_rows(1)->set_lane("fast\nlane"); }, "timeline.rows: unknown lane 'fast");
  refused([](auto& t) { t.mutable_rows(1)->set_kind(std::string(9999, 'x')); }, "unknown kind 'xxx");
  refused([](auto& t) { t.mutable_rows(0)->set_pipeline(-1); }, "pipeline is -1");
  refused([](auto& t) { t.mutable_rows(0)->set_stage(-2); }, "stage -2");
  refused([](auto& t) { t.mutable_rows(0)->set_microbatch(-2); }, "microbatch -2");
  for (const double seconds : {-1.0, std::nan(""), 1e7, std::numeric_limits<double>::infinity()})
    refused([&](auto& t) { t.mutable_rows(1)->set_start_s(seconds); }, "invalid time span");
  for (const double seconds : {0.5, std::nan(""), 1e7})
    refused([&](auto& t) { t.mutable_rows(1)->set_end_s(seconds); }, "invalid time span");
  refused([](auto& t) { t.set_left_out("why"); }, "either rows or left_out");
  refused([](auto& t) { t.clear_rows(); }, "either rows or left_out");
  refused([](auto& t) { t.clear_rows(), t.set_left_out(std::string(201, 'x')); }, "left_out is longer");
  refused(
      [](auto& t) {
        while (t.rows_size() <= kMostTimelineRows) *t.add_rows() = t.rows(0);
      },
      "timeline.rows has 20001 entries");
}

TEST(StepTimeline, PartsAreJoinedInOrderOfTime) {
  const v1::StepTimeline merged = MergeTimelines(std::vector<v1::StepTimeline>{
      TimelineOf({RowAt(0, 0), RowAt(0, 3)}), {}, TimelineOf({RowAt(1, 1), RowAt(1, 4)})});
  ASSERT_EQ(merged.rows_size(), 4);
  const std::vector<double> starts = {0, 1, 3, 4};
  for (int row = 0; row < 4; ++row)
    EXPECT_EQ(merged.rows(row).start_s(), starts[static_cast<std::size_t>(row)]);
  EXPECT_EQ(merged.rows(3).pipeline(), 1);
  EXPECT_TRUE(CheckTimeline(merged).ok());
}

TEST(StepTimeline, TooManyRowsAreLeftOutAndSaidSo) {
  const v1::StepTimeline half = TimelineOf(std::vector<TimelineRow>(kMostTimelineRows / 2, RowAt(0, 0)));
  const v1::StepTimeline most = MergeTimelines(std::vector<v1::StepTimeline>{half, half});
  EXPECT_EQ(most.rows_size(), kMostTimelineRows);
  EXPECT_TRUE(CheckTimeline(most).ok()) << CheckTimeline(most);
  const v1::StepTimeline more =
      MergeTimelines(std::vector<v1::StepTimeline>{half, half, TimelineOf({RowAt(1, 0)})});
  EXPECT_EQ(more.rows_size(), 0);
  EXPECT_EQ(more.left_out(), "its 20,001 actions are more than the 20,000 that are kept");
  EXPECT_TRUE(CheckTimeline(more).ok()) << CheckTimeline(more);
  EXPECT_EQ(MergeTimelines(std::vector<v1::StepTimeline>{half, more}).SerializeAsString(),
            more.SerializeAsString())
      << "half a pipeline is no timeline";
}

}  // namespace
}  // namespace autocfg
