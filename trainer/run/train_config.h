// A training run as the engine takes it: the launcher's TrainSpec, converted and checked. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "autocfg/v1/trainer.pb.h"
#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "trainer/optim/adamw.h"
#include "trainer/optim/lr_schedule.h"

namespace autocfg {

// Seconds by op.
using OpTimeTable = std::unordered_map<OpDesc, double, OpDescHash>;

// One rank of a plan, run alone: its coordinates; that of the data axis is 0.
struct SliceSpec {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;
};

struct TrainConfig {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  std::uint64_t program_fingerprint = 0;  // 0: not checked
  AdamWOptions adamw;
  LrSchedule lr;  // lr.steps is the number of steps of the run
  double clip_norm = 1.0;
  std::int64_t untimed_steps = 0;  // the first of the run that are left out of the timing
  std::uint64_t seed = 0;
  std::string data_path;                   // empty: the synthetic pattern
  std::string init_path;                   // empty: drawn from the seed
  std::string save_path;                   // empty: nothing is saved
  std::int64_t memory_capacity_bytes = 0;  // 0: unlimited
  bool trace = false;                      // the result carries the rows of the last step
  std::optional<SliceSpec> slice;          // every process of the job runs this rank of the plan alone
  // of every op that a rank issues; the paced device alone takes them
  OpTimeTable op_times;
  double host_op_s = 0;  // in which the host issues one of them; of the paced device too
};

// Throws BadInput naming the field, or NotSupported naming the feature.
TrainConfig ParseTrainSpec(const v1::TrainSpec& spec);

// Throws BadInput where the plan is illegal for the model and workload, too large a program, or not one for
// `world_size` ranks (a slice runs on any number), and where the slice is not in the plan; NotSupported for
// what the engine does not run.
void CheckTrainConfig(const TrainConfig& config, std::int64_t world_size);

// The rank of the plan that a run with a slice stands for. Requires config.slice, checked.
std::int64_t SliceRank(const TrainConfig& config);

}  // namespace autocfg
