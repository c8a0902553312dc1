// The engine's configuration of a training run: the launcher's TrainSpec, converted and validated. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "autocfg/v1/trainer.pb.h"
#include "search/ops/op_desc.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/rank_mesh.h"
#include "search/plan/workload.h"
#include "trainer/optim/optimizer.h"

namespace autocfg::trainer {

// Seconds by op.
using OpTimeTable = std::unordered_map<OpDesc, double, OpDescHash>;

struct TrainConfig {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  std::uint64_t program_fingerprint = 0;  // 0: not checked
  AdamWOptions adamw;
  LrSchedule lr;  // lr.steps is the number of steps of the run
  double clip_norm = 1.0;
  std::int64_t untimed_steps = 0;  // the number of steps at the start that are not timed
  std::uint64_t seed = 0;
  std::string data_path;                   // empty: the synthetic pattern
  std::string init_path;                   // empty: drawn from the seed
  std::string save_path;                   // empty: nothing is saved
  std::string checkpoint_path;             // directory of checkpoints to write; empty: none are written
  std::int64_t save_every = 0;             // steps from checkpoint to checkpoint; 0: one, at the end
  std::string resume_path;                 // checkpoint, or directory of them; empty: starts at step 0
  std::int64_t memory_capacity_bytes = 0;  // 0: unlimited
  bool trace = false;                      // the result contains the trace rows of the last steps
  std::int64_t trace_steps = 1;            // how many
  bool record_breakdown = false;           // of the last untimed step
  std::optional<SliceCoordinates> slice;   // every process of the job runs this rank of the plan alone
  // Times of all ops that a rank issues; only for the paced device.
  OpTimeTable op_times;
  double host_op_s = 0;  // host time to issue one op; only for the paced device
};

// Throws BadInput, which names the field, or NotSupported, which names the feature.
TrainConfig ParseTrainSpec(const v1::TrainSpec& spec);

// Returns the device of the run. Throws NotSupported for a name that this engine does not know.
EngineDevice DeviceOf(const v1::RunSpec& spec);

// Throws BadInput if the plan is illegal for the model and workload, its program is too large, it does not
// have `world_size` ranks (a slice runs on any number), or the slice is not in the plan. Throws NotSupported
// for features that the engine does not run.
void CheckTrainConfig(const TrainConfig& config, std::int64_t world_size);

// Returns the rank of the plan that a slice represents. Requires config.slice, validated.
std::int64_t RankOfSlice(const TrainConfig& config);

}  // namespace autocfg::trainer
