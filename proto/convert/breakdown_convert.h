// Conversion between the parts of a step and their message. Thread-safe.
#pragma once

#include "autocfg/v1/model.pb.h"
#include "search/breakdown/step_breakdown.h"

namespace autocfg {

// Leaves `hidden_comm` unset.
v1::Breakdown ToProto(const Breakdown& breakdown);
v1::Breakdown ToProto(const RankBreakdown& breakdown);
// Returns the parts.
Breakdown FromProto(const v1::Breakdown& message);

}  // namespace autocfg
