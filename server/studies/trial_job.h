// Builds the jobs of a study: its calibration and its trials. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "search/ops/op_desc.h"
#include "server/studies/search_problem.h"

namespace autocfg::server {

// Maximum number of attempts of a job that end without an answer (such as a worker that disappears).
inline constexpr std::int64_t kMaxAttempts = 3;

// Times `ops` on all ranks of one machine at once. It repeats them for 10 s, or a fifth of the study's time
// budget. After a quarter of that budget it leaves out what can be estimated; without a budget it takes its
// time. If the
// cluster is more than one machine, the communication of groups that do not fit on one is left out, because
// the links between machines are described; fewer_ranks is then set, and the worker runs one rank per core.
v1::Job CalibrationJob(const SearchProblem& problem, const std::vector<OpDesc>& ops);

struct StepCounts {
  std::int64_t untimed = 0;
  std::int64_t timed = 0;
};

// Chooses counts for about a third of a second of measuring for the first trial of a plan, and for about one
// second for its repeats, which tell tied plans apart: 3 to 20 timed steps after two untimed steps, or three
// if steps are short. The last untimed step is recorded for the breakdown.
StepCounts StepsFor(const TrialRequest& request);

// Runs the plan with the default optimizer of `autocfg train`. A slice runs in as many copies as one machine
// has ranks, so that they load it as the whole plan would; a worker with fewer cores runs fewer. An emulated
// plan carries the modelled time of every op. With another engine than the built-in one, the job names it,
// and a worker that offers it runs its own command. The time limit is a generous multiple of the prediction,
// at least 30 s. Requires a legal, resolved plan that the engine supports. InvalidArgument if a described
// cluster lacks a figure.
absl::StatusOr<v1::Job> TrialJob(const SearchProblem& problem, const TrialRequest& request);

}  // namespace autocfg::server
