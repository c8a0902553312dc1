// Training jobs as real processes, started by the worker's launcher. For tests.
#pragma once

#include <chrono>
#include <string>

#include "proto/convert/spec_convert.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/plan_op_times.h"
#include "search/schedule/program.h"
#include "tests/support/build_paths.h"
#include "trainer/config/train_config.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::trainer {

inline v1::TrainSpec SpecOf(const TrainConfig& c) {
  v1::TrainSpec spec;
  *spec.mutable_model() = ToProto(c.model);
  *spec.mutable_workload() = ToProto(c.workload);
  *spec.mutable_plan() = ToProto(c.plan);
  spec.set_program_fingerprint(Fingerprint(Lower(c)));
  v1::OptimizerSpec& o = *spec.mutable_optimizer();
  o.set_lr(c.lr.lr);
  o.set_min_lr(c.lr.min_lr);
  o.set_lr_schedule(c.lr.decay == LrDecay::kCosine ? "cosine" : "constant");
  o.set_warmup_steps(c.lr.warmup_steps);
  o.set_weight_decay(c.adamw.weight_decay);
  o.set_beta1(c.adamw.beta1);
  o.set_beta2(c.adamw.beta2);
  o.set_adam_eps(c.adamw.eps);
  o.set_clip_norm(c.clip_norm);
  spec.set_steps(c.lr.steps);
  spec.set_warmup_steps_untimed(c.untimed_steps);
  spec.set_seed(c.seed);
  spec.set_data_path(c.data_path);
  spec.set_init_path(c.init_path);
  spec.set_save_path(c.save_path);
  spec.set_checkpoint_path(c.checkpoint_path);
  spec.set_save_every(c.save_every);
  spec.set_resume_path(c.resume_path);
  spec.set_memory_capacity_bytes(c.memory_capacity_bytes);
  spec.set_trace(c.trace);
  spec.set_record_breakdown(c.record_breakdown);
  if (c.slice) {
    spec.mutable_slice()->set_tensor(c.slice->tensor);
    spec.mutable_slice()->set_pipeline(c.slice->pipeline);
  }
  for (const auto& [op, seconds] : c.op_times) *spec.add_op_times() = ToProto(OpTime{op, seconds});
  return spec;
}

constexpr std::chrono::seconds kJobLimit{120};

inline worker::JobResult RunProcesses(const v1::RunSpec& job, int ranks,
                                      const worker::LaunchHooks& hooks = {},
                                      std::chrono::seconds limit = kJobLimit) {
  worker::JobRequest request;
  for (int rank = 0; rank < ranks; ++rank) {
    v1::RunSpec spec = job;
    spec.set_rank(rank);
    spec.set_world_size(ranks);
    request.ranks.push_back(spec);
  }
  request.time_limit = limit;
  return worker::ProcessLauncher(BuildPath("bin/autocfg-trainer")).Run(request, hooks);
}

inline worker::JobResult RunProcesses(const TrainConfig& c, const char* device = "cpu",
                                      const worker::LaunchHooks& hooks = {},
                                      std::chrono::seconds limit = kJobLimit) {
  v1::RunSpec job;
  job.set_device(device);
  *job.mutable_train() = SpecOf(c);
  return RunProcesses(job, static_cast<int>(RankCount(c.plan)), hooks, limit);
}

}  // namespace autocfg::trainer
