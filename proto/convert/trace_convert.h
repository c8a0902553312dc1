// Conversion between TraceRow and its message. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "search/schedule/action.h"

namespace autocfg {

v1::TraceRow ToProto(const TraceRow& row);
absl::StatusOr<TraceRow> FromProto(const v1::TraceRow& message);  // InvalidArgument names the bad field.

}  // namespace autocfg
