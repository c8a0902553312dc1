#include "proto/convert/trace_convert.h"

#include <cmath>
#include <string>

#include "fmt/format.h"

namespace autocfg {

v1::TraceRow ToProto(const TraceRow& row) {
  v1::TraceRow message;
  message.set_rank(row.rank);
  message.set_lane(std::string(Name(row.lane)));
  message.set_action(row.action);
  message.set_start_s(row.start_s);
  message.set_end_s(row.end_s);
  return message;
}

absl::StatusOr<TraceRow> FromProto(const v1::TraceRow& message) {
  for (const Lane lane : {Lane::kCompute, Lane::kPipelineSend, Lane::kPipelineRecv, Lane::kReduce}) {
    if (Name(lane) != message.lane()) continue;
    if (message.rank() < 0 || message.action() < 0)
      return absl::InvalidArgumentError("trace row: rank or action is negative");
    if (!std::isfinite(message.start_s()) || !std::isfinite(message.end_s()) ||
        message.end_s() < message.start_s())
      return absl::InvalidArgumentError(fmt::format(
          "trace row: invalid time span from start_s {} to end_s {}", message.start_s(), message.end_s()));
    return TraceRow{message.rank(), lane, message.action(), message.start_s(), message.end_s()};
  }
  return absl::InvalidArgumentError(fmt::format("trace row: unknown lane '{}'", message.lane()));
}

}  // namespace autocfg
