#include "proto/convert/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

constexpr double kLongestTimeline = 1e6;  // seconds, as of a step (server/services/request_checks.cc)
constexpr std::size_t kMostReasonBytes = 200;
constexpr std::size_t kMostQuotedBytes = 40;

// Returns the value of an enumeration with `count` values that has this name.
template <typename Kind>
std::optional<Kind> Named(std::string_view name, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (Name(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

absl::Status InvalidRow(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("timeline.rows: {}", what));
}

}  // namespace

v1::TimelineRow ToProto(const TimelineRow& row) {
  v1::TimelineRow message;
  message.set_pipeline(row.pipeline);
  message.set_lane(std::string(Name(row.action.lane)));
  message.set_kind(std::string(Name(row.action.kind)));
  message.set_stage(row.action.stage);
  message.set_microbatch(row.action.microbatch);
  message.set_start_s(row.start_s);
  message.set_end_s(row.end_s);
  return message;
}

absl::StatusOr<TimelineRow> FromProto(const v1::TimelineRow& message) {
  TimelineRow row{.pipeline = message.pipeline(),
                  .action = {.stage = message.stage(), .microbatch = message.microbatch()},
                  .start_s = message.start_s(),
                  .end_s = message.end_s()};
  const auto lane = Named<Lane>(message.lane(), kLanes);
  if (!lane)
    return InvalidRow(
        fmt::format("unknown lane '{}'", base::Printable(base::Cut(message.lane(), kMostQuotedBytes))));
  const auto kind = Named<ActionKind>(message.kind(), kActionKinds);
  if (!kind)
    return InvalidRow(
        fmt::format("unknown kind '{}'", base::Printable(base::Cut(message.kind(), kMostQuotedBytes))));
  row.action.lane = *lane;
  row.action.kind = *kind;
  if (row.pipeline < 0 || row.action.stage < -1 || row.action.microbatch < -1)
    return InvalidRow(fmt::format("pipeline is {}, stage {}, microbatch {}; they must be at least 0, -1, -1",
                                  row.pipeline, row.action.stage, row.action.microbatch));
  // False for NaN.
  if (!(row.start_s >= 0 && row.start_s <= row.end_s && row.end_s < kLongestTimeline))
    return InvalidRow(fmt::format("invalid time span from {} s to {} s", row.start_s, row.end_s));
  return row;
}

v1::StepTimeline TooLongTimeline(std::int64_t rows) {
  v1::StepTimeline timeline;
  timeline.set_left_out(fmt::format("its {} actions are more than the {} that are kept",
                                    base::CountText(rows), base::CountText(kMostTimelineRows)));
  return timeline;
}

v1::StepTimeline MergeTimelines(std::span<const v1::StepTimeline> parts) {
  v1::StepTimeline merged;
  std::int64_t rows = 0;
  for (const v1::StepTimeline& part : parts) {
    if (!part.left_out().empty()) return part;
    rows += part.rows_size();
  }
  if (rows > kMostTimelineRows) return TooLongTimeline(rows);
  for (const v1::StepTimeline& part : parts) merged.mutable_rows()->MergeFrom(part.rows());
  std::stable_sort(
      merged.mutable_rows()->pointer_begin(), merged.mutable_rows()->pointer_end(),
      [](const v1::TimelineRow* a, const v1::TimelineRow* b) { return a->start_s() < b->start_s(); });
  return merged;
}

absl::Status CheckTimeline(const v1::StepTimeline& timeline) {
  if (timeline.rows_size() > kMostTimelineRows)
    return absl::InvalidArgumentError(fmt::format("timeline.rows has {} entries; the limit is {}",
                                                  timeline.rows_size(), kMostTimelineRows));
  if (timeline.left_out().size() > kMostReasonBytes)
    return absl::InvalidArgumentError(
        fmt::format("timeline.left_out is longer than {} bytes; shorten it", kMostReasonBytes));
  if (timeline.rows().empty() == timeline.left_out().empty())
    return absl::InvalidArgumentError(
        "timeline must have either rows or left_out, which says why there are none");
  for (const v1::TimelineRow& row : timeline.rows()) {
    AUTOCFG_RETURN_IF_ERROR(FromProto(row).status());
  }
  return absl::OkStatus();
}

}  // namespace autocfg
