// The ops of messages between stages.
#pragma once

#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/run_view.h"

namespace autocfg {

// Returns the one op that sends or receives a message between stages: kSend or kRecv.
std::vector<OpDesc> MessageOps(const RunView& run, OpKind kind);

// Ops that a stage issues first when a message from another stage has arrived: in the forward of all stages
// but the first, in the backward of all but the last. They gather its parts; none unless messages are
// scattered.
std::vector<OpDesc> ArrivalOps(const RunView& run);

}  // namespace autocfg
