// What a worker is asked to do for a study: the jobs of its calibration and its trials. Pure functions,
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "search/ops/op_desc.h"
#include "server/search_problem.h"

namespace autocfg {

// Attempts of a job that may end without an answer (a worker that goes away).
inline constexpr std::int64_t kMaxAttempts = 3;

// Times `ops` on all ranks of one machine at once, within 10 s or a fifth of the study's time budget.
// Messages are left out where the cluster is more than one machine: its links are described; and fewer ranks
// will do there, one on each core of the worker.
v1::Job CalibrationJob(const SearchProblem& problem, const std::vector<OpDesc>& ops);

// A time budget of which a calibration is to take no more than its fifth, where it is not cut short. On large
// models it takes longer, since each op runs at least once.
double BudgetOfWholeCalibration();

struct StepCounts {
  std::int64_t untimed = 0;
  std::int64_t timed = 0;
};

// For about a second of measuring: 3 to 20 timed steps, after one untimed step, two where steps are short.
StepCounts StepsFor(double predicted_step_s);

// Runs the plan with the optimizer that `autocfg train` has by default; a slice of it in as many copies as
// one machine has ranks, so that they load it as the whole plan would (the worker runs fewer where it has
// fewer cores); an emulated one with the modelled time of every op. The time limit is a generous multiple of
// the prediction and at least 30 s. Requires a legal, resolved plan that the engine supports. InvalidArgument
// where a described cluster lacks a figure.
absl::StatusOr<v1::Job> TrialJob(const SearchProblem& problem, const TrialRequest& request);

}  // namespace autocfg
