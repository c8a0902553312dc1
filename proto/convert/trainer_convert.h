// Messages of the launcher's protocol (trainer.proto): the spec of a training run, which only this file fills
// in from a plan, and conversion between OpDesc, OpTime and TraceRow and their messages. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "search/ops/op_desc.h"
#include "search/plan/run_view.h"
#include "search/schedule/action.h"

namespace autocfg {

// Returns AdamW at a constant rate: the default of `autocfg train`, and the optimizer of every trial of a
// search.
v1::OptimizerSpec DefaultOptimizer();

// Returns a run of the plan with the default optimizer: model, workload, plan and the fingerprint of its
// program. Steps, seed, data and files are the caller's. Requires a plan that the engine runs, with a
// resolved split and a program of allowed size (search/schedule/program.h).
v1::TrainSpec MakeTrainSpec(const RunView& run);

v1::OpDesc ToProto(const OpDesc& op);
absl::StatusOr<OpDesc> FromProto(const v1::OpDesc& message);  // InvalidArgument names the bad field.
v1::OpTime ToProto(const OpTime& time);
absl::StatusOr<OpTime> FromProto(const v1::OpTime& message);

v1::TraceRow ToProto(const TraceRow& row);
absl::StatusOr<TraceRow> FromProto(const v1::TraceRow& message);  // InvalidArgument names the bad field.

}  // namespace autocfg
