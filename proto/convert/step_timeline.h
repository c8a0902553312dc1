// The timeline of a recorded step of training: rows between structs and messages, what a message may hold,
// and the parts of one joined. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "search/schedule/action.h"

namespace autocfg {

// The most rows of a timeline, of all its ranks.
inline constexpr int kMostTimelineRows = 20'000;

// What a rank of a pipeline did and when. Unlike a TraceRow it says so without the program.
struct TimelineRow {
  std::int32_t pipeline = 0;  // coordinate of the rank
  Action action;              // without peer and what it waits for
  double start_s = 0;         // since the first rank began the step
  double end_s = 0;
};

v1::TimelineRow ToProto(const TimelineRow& row);
// InvalidArgument names the bad field.
absl::StatusOr<TimelineRow> FromProto(const v1::TimelineRow& message);

// Returns a timeline that says that `rows` are too many to be kept.
v1::StepTimeline TooLongTimeline(std::int64_t rows);

// Joins the rows of ranks, or of workers, in order of time. If a part has left out its rows, or they are too
// many together, the result has none and says why. Parts without either (ranks without a place in the
// timeline) do not count.
v1::StepTimeline MergeTimelines(std::span<const v1::StepTimeline> parts);

// InvalidArgument, in one line, if the message is malformed: too many rows, a row that FromProto refuses or
// that ends before it starts, or a reason beside rows.
absl::Status CheckTimeline(const v1::StepTimeline& timeline);

}  // namespace autocfg
