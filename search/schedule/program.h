// The program of a plan: the actions of each rank, in the order in which the rank issues them. Everything that needs an order (trainer,
// simulator, memory model) takes it from here. Immutable once made, thread-safe.
//
// Meaning. A rank walks its list. A compute action runs when all it names in `after` are complete. A communication action is
// issued when reached and completes later; actions of one lane complete in order. A send completes no earlier than the matching receive is
// issued (nothing buffers). Sends and receives between two ranks match in order of issue, by kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/action.h"

namespace autocfg {

using RankProgram = std::vector<Action>;

struct Program {
  ParallelPlan plan;
  std::int64_t microbatches = 0;
  std::vector<RankProgram> ranks;  // by global rank
};

// Forward and backward actions of one stage in order, communication left out: what a generator makes.
using StageOrder = std::vector<Action>;

// Generators, one file each. Requires 0 <= stage < stages, microbatches > 0.
StageOrder GPipeOrder(int stage, int stages, int microbatches);      // gpipe.h: all forwards, then all backwards (Huang et al. 2019)
StageOrder OneFOneBOrder(int stage, int stages, int microbatches);   // one_f_one_b.h: PipeDream-Flush (Narayanan et al. 2021)

// The generator that the plan's schedule names. Requires a legal, resolved plan.
StageOrder MakeStageOrder(const ParallelPlan& plan, int stage, int microbatches);

// Adds communication, reductions and the optimizer to the generator's orders. Requires a legal, resolved plan.
//
// Buffers bind the order: a stage's output goes to one of two send buffers by microbatch parity, so forward k is after send k-2;
// the gradient of a microbatch arrives in, is worked on in, and leaves from one of two buffers by the order of backwards, so receive k is after
// gradient send k-2.
Program Lower(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

// The most microbatches whose forward has run and whose backward has not, at any time: the activation slots a stage needs.
int MaxInFlight(const StageOrder& order);

// Proves the program complete (each stage forwards and backwards each microbatch once, in an order that data allows) and free
// of deadlock when no send buffers. FailedPrecondition says which action of which rank is wrong or stuck.
absl::Status ValidateProgram(const Program& program);

// 64-bit FNV-1a over the text of all ranks' actions; the same on every machine.
std::uint64_t Fingerprint(const Program& program);

}  // namespace autocfg
