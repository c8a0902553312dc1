#include "trainer/config/train_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "proto/convert/spec_convert.h"
#include "proto/convert/trainer_convert.h"
#include "search/plan/legality.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

void ThrowUnlessOk(const absl::Status& status) {
  if (status.ok()) return;
  const std::string message(status.message());
  if (status.code() == absl::StatusCode::kUnimplemented) throw NotSupported(message);
  throw BadInput(message);
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowUnlessOk(value.status());
  return *std::move(value);
}

// Throws unless low <= value <= high. The condition also fails for NaN.
void RequireRange(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw BadInput(fmt::format("{} is {}; it must be a number from {} to {}", field, value, low, high));
  }
}

LrDecay ParseDecay(const std::string& name) {
  if (name.empty() || name == "constant") return LrDecay::kConstant;
  if (name == "cosine") return LrDecay::kCosine;
  throw BadInput(fmt::format("lr_schedule \"{}\" is unknown; use constant or cosine", name));
}

OpTimeTable ParseOpTimes(const v1::TrainSpec& spec) {
  OpTimeTable table;
  table.reserve(static_cast<std::size_t>(spec.op_times_size()));
  for (int i = 0; i < spec.op_times_size(); ++i) {
    const auto time = FromProto(spec.op_times(i));
    if (!time.ok()) throw BadInput(fmt::format("op_times[{}]: {}", i, std::string(time.status().message())));
    if (!table.emplace(time->op, time->seconds).second) {
      throw BadInput(fmt::format("op_times[{}]: duplicate time for {}", i, ToString(time->op)));
    }
  }
  return table;
}

void CheckSlice(const TrainConfig& c) {
  const auto check = [](const char* axis, std::int64_t coordinate, std::int64_t size) {
    if (coordinate < 0 || coordinate >= size) {
      throw BadInput(fmt::format("slice: {} {} is outside 0 to {} of the plan", axis, coordinate, size - 1));
    }
  };
  check("tensor", c.slice->tensor, SizeOf(c.plan, Axis::kTensor));
  check("pipeline", c.slice->pipeline, SizeOf(c.plan, Axis::kPipeline));
  if (!c.save_path.empty()) throw BadInput("a slice has no whole model to save; leave out --save or --slice");
  if (!c.checkpoint_path.empty() || !c.resume_path.empty())
    throw BadInput("a slice has no state of a whole run; leave out --checkpoint and --resume, or --slice");
}

void CheckCheckpoints(const TrainConfig& c) {
  if (!c.resume_path.empty() && !c.init_path.empty())
    throw BadInput("a resumed run has the weights of its checkpoint; leave out --init or --resume");
  if (c.save_every != 0 && c.checkpoint_path.empty())
    throw BadInput("save_every is given without a directory; give --checkpoint DIR too");
}

void CheckRecording(const TrainConfig& c) {
  if (!c.record_breakdown) return;
  if (c.untimed_steps < 1) {
    throw BadInput("record_breakdown needs a step that is not timed; set warmup_steps_untimed to at least 1");
  }
  if (c.slice)
    throw BadInput("record_breakdown needs all ranks of the plan, and a slice is one; leave it out");
}

}  // namespace

TrainConfig ParseTrainSpec(const v1::TrainSpec& spec) {
  TrainConfig c;
  c.workload = ValueOrThrow(FromProto(spec.workload()));
  if (const absl::Status runs = CheckEngineRuns(c.workload.precision); !runs.ok())
    throw NotSupported("precision: " + std::string(runs.message()));
  if (const absl::Status runs = CheckEngineRuns(c.workload.optimizer); !runs.ok())
    throw NotSupported("optimizer: " + std::string(runs.message()));
  c.model = ValueOrThrow(FromProto(spec.model()));
  FillDefaults(c.model, c.workload.seq_len);
  c.plan = ValueOrThrow(FromProto(spec.plan()));
  c.program_fingerprint = spec.program_fingerprint();
  const v1::OptimizerSpec& o = spec.optimizer();
  c.adamw = {o.beta1(), o.beta2(), o.adam_eps(), o.weight_decay()};
  c.lr = {o.lr(), o.min_lr(), ParseDecay(o.lr_schedule()), o.warmup_steps(), spec.steps()};
  c.clip_norm = o.clip_norm();
  c.untimed_steps = spec.warmup_steps_untimed();
  c.seed = spec.seed();
  c.data_path = spec.data_path();
  c.init_path = spec.init_path();
  c.save_path = spec.save_path();
  c.checkpoint_path = spec.checkpoint_path();
  c.save_every = spec.save_every();
  c.resume_path = spec.resume_path();
  c.memory_capacity_bytes = spec.memory_capacity_bytes();
  c.trace = spec.trace();
  c.trace_steps = std::max<std::int64_t>(spec.trace_steps(), 1);
  c.record_breakdown = spec.record_breakdown();
  if (spec.has_slice()) c.slice = SliceCoordinates{spec.slice().tensor(), spec.slice().pipeline()};
  c.op_times = ParseOpTimes(spec);
  c.host_op_s = spec.host_op_s();
  return c;
}

EngineDevice DeviceOf(const v1::RunSpec& spec) {
  const std::optional<EngineDevice> device = ParseEngineDevice(spec.device());
  if (!device) {
    throw NotSupported(
        fmt::format("device \"{}\" is not supported yet; use cpu, cuda, dry or paced", spec.device()));
  }
  return *device;
}

void CheckTrainConfig(const TrainConfig& c, std::int64_t world_size) {
  ThrowUnlessOk(Validate(c.model));
  ThrowUnlessOk(Validate(c.workload, c.model));
  ThrowUnlessOk(CheckEngineSupports(c.model));
  ThrowUnlessOk(CheckEngineSupports(c.plan));
  const std::int64_t max_ranks = c.slice ? std::numeric_limits<std::int64_t>::max() : world_size;
  if (const auto illegal = ExplainIllegality(c, max_ranks)) {
    throw BadInput(fmt::format("the plan is illegal: {}", illegal->detail));
  }
  if (c.plan.split == SplitMode::kAuto) {
    throw BadInput(
        "the plan's layer split is not resolved (split=auto); resolve it before the trainer starts");
  }
  ThrowUnlessOk(CheckProgramSize(c.workload, c.plan));
  if (c.slice) {
    CheckSlice(c);
  } else if (RankCount(c.plan) != world_size) {
    throw BadInput(
        fmt::format("the plan is for {} ranks, but {} were started", RankCount(c.plan), world_size));
  }
  constexpr double kLarge = 1e9;
  RequireRange("steps", static_cast<double>(c.lr.steps), 1, kLarge);
  RequireRange("warmup_steps", static_cast<double>(c.lr.warmup_steps), 0, kLarge);
  RequireRange("save_every", static_cast<double>(c.save_every), 0, kLarge);
  CheckCheckpoints(c);
  RequireRange("warmup_steps_untimed", static_cast<double>(c.untimed_steps), 0, kLarge);
  CheckRecording(c);
  RequireRange("lr", c.lr.lr, 0, kLarge);
  RequireRange("min_lr", c.lr.min_lr, 0, kLarge);
  RequireRange("weight_decay", c.adamw.weight_decay, 0, kLarge);
  RequireRange("beta1", c.adamw.beta1, 0, std::nextafter(1.0, 0.0));
  RequireRange("beta2", c.adamw.beta2, 0, std::nextafter(1.0, 0.0));
  RequireRange("adam_eps", c.adamw.eps, 0, kLarge);
  RequireRange("clip_norm", c.clip_norm, 0, kLarge);
  RequireRange("host_op_s", c.host_op_s, 0, 1);
  RequireRange("memory_capacity_bytes", static_cast<double>(c.memory_capacity_bytes), 0, 1e18);
}

std::int64_t RankOfSlice(const TrainConfig& c) {
  return RankMesh(c.plan).RankAt({{Axis::kTensor, c.slice->tensor}, {Axis::kPipeline, c.slice->pipeline}});
}

}  // namespace autocfg::trainer
