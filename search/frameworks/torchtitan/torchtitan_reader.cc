// torchtitan's TOML. Defaults: torchtitan/config/job_config.py of the release that the writer follows.
#include <algorithm>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_options.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

void ReadFlavor(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  if (options.model) {
    run.model = *options.model;
    return;
  }
  const std::string name = read.Text(torchtitan::kModel, torchtitan::kLlama3);
  const std::string flavor = read.Text(torchtitan::kFlavor, "debugmodel");
  if (auto model = TorchtitanModel(name, flavor)) {
    run.model = *std::move(model);
    return;
  }
  const Setting* setting = read.Find(name != torchtitan::kLlama3 ? torchtitan::kModel : torchtitan::kFlavor);
  const std::string problem = fmt::format("{} {} is no known model; give its shape with --model",
                                          base::Printable(name), base::Printable(flavor));
  if (setting != nullptr) {
    read.Fail(*setting, fmt::format("cannot be read: {}", problem));
  } else {
    read.FailMissing(torchtitan::kFlavor, problem);
  }
}

constexpr std::string_view kLayersPerStage = "parallelism.pipeline_parallel_layers_per_stage";
constexpr std::string_view kFirstStageLess = "parallelism.pipeline_parallel_first_stage_less_layers";
constexpr std::string_view kLastStageLess = "parallelism.pipeline_parallel_last_stage_less_layers";
constexpr std::string_view kStates = "training.dtype";  // of parameters, gradients and optimizer states

// Layers of each stage where the file does not list them: embedding and output count as `first` and `last`
// layers.
std::vector<std::int64_t> SpreadLayers(std::int64_t layers, std::int64_t stages, std::int64_t first,
                                       std::int64_t last) {
  const std::int64_t counted = layers + first + last;
  std::vector<std::int64_t> spread(static_cast<std::size_t>(stages), counted / stages);
  for (std::int64_t i = 0; i < counted % stages; ++i) ++spread[static_cast<std::size_t>(i)];
  spread.front() -= first;
  spread.back() -= last;
  return spread;
}

void ReadPipeline(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::string schedule = read.Text(torchtitan::kSchedule, "1F1B");
  const Setting* parts = read.Known(torchtitan::kStages);
  const std::int64_t per_stage = read.Whole(kLayersPerStage, 0);
  const std::int64_t first = read.Whole(kFirstStageLess, 1, 0), last = read.Whole(kLastStageLess, 1, 0);
  if (!read.ok()) return;
  plan.micro_batch = read.Whole(torchtitan::kMicroBatch, 1);
  const auto& known = torchtitan::kSchedules;
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.second == schedule; });
  if (found == known.end()) {
    read.Fail(*read.Find(torchtitan::kSchedule),
              fmt::format("is '{}', which is not modelled; only {}, {} and {} can be read",
                          base::Printable(schedule), known[0].second, known[1].second, known[2].second));
    return;
  }
  plan.schedule = found->first;
  std::vector<std::int64_t> stages;
  if (parts != nullptr) {
    for (const std::string& modules : parts->values) {
      std::int64_t layers = 0;
      for (std::size_t at = modules.find("layers."); at != std::string::npos;
           at = modules.find("layers.", at + 1))
        ++layers;
      stages.push_back(layers);
    }
  } else {
    const std::int64_t each = TakesVirtualStages(plan.schedule) ? 2 : 1;
    const std::int64_t count =
        per_stage > 0 ? (run.model.layers + first + last + per_stage - 1) / per_stage : plan.pp * each;
    if (count > run.model.layers) {
      read.Fail(fmt::format("{} stages are more than the {} layers; give fewer", count, run.model.layers));
      return;
    }
    stages = SpreadLayers(run.model.layers, count, first, last);
    if (std::any_of(stages.begin(), stages.end(), [](std::int64_t layers) { return layers < 1; })) {
      read.Fail(fmt::format("{} = {} and {} = {} leave a stage of {} without a layer; change one of them",
                            LastPart(kFirstStageLess), first, LastPart(kLastStageLess), last, count));
      return;
    }
  }
  const auto count = static_cast<std::int64_t>(stages.size());
  if (count == 0 || count % plan.pp != 0) {
    read.Fail(fmt::format("{} stages do not divide by {} = {}; change one of them", count, torchtitan::kPp,
                          plan.pp));
    return;
  }
  plan.virtual_stages = count / plan.pp;
  plan.p2p_overlap = true;
  SetStages(std::move(stages), run);
}

void ReadTorchtitanRecompute(SettingReader& read, RunDraft& run) {
  const std::string mode = read.Text(torchtitan::kRecompute, "selective");
  const std::string option = read.Text("activation_checkpoint.selective_ac_option", "2");
  ParallelPlan& plan = run.plan;
  if (mode == torchtitan::kFullRecompute) {
    plan.recompute = Recompute::kFull;
  } else if (mode == "selective") {
    const std::int64_t every = base::ParseNumber<std::int64_t>(option, 1).value_or(0);
    const std::int64_t stages = plan.pp * plan.virtual_stages;
    if (every > 0 && run.model.layers / stages / every > 0) {
      plan.recompute = Recompute::kFull;
      plan.recompute_layers = every == 1 ? 0 : run.model.layers / stages / every;
      read.Note(fmt::format("{} is selective: {} is recomputed, read as recompute={}", torchtitan::kRecompute,
                            every == 1 ? std::string("every layer") : fmt::format("one layer in {}", every),
                            RecomputeText(plan)));
    } else {
      run.unsaid.emplace_back("recompute");
      read.Note(fmt::format("{} is selective by op, which is not modelled: read as recompute=none",
                            torchtitan::kRecompute));
    }
  } else if (mode != torchtitan::kNoRecompute) {
    read.Fail(*read.Find(torchtitan::kRecompute),
              fmt::format("is '{}', which is not modelled; only none, selective and full can be read",
                          base::Printable(mode)));
  }
}

void ReadSharding(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::int64_t replicas = read.Whole(torchtitan::kReplicas, 1);
  std::int64_t shards = read.Whole(torchtitan::kShards, -1, -1);
  if (shards == 0) shards = 1;
  if (shards < 0) {
    run.ranks = options.ranks;
    if (options.ranks == 0) {
      read.Fail(
          fmt::format("{} is all ranks that are left, and the file does not say how many there are; give "
                      "--ranks or --cluster",
                      torchtitan::kShards));
      return;
    }
    SetDataRanks(torchtitan::kAxisSettings, read, run);
    if (plan.dp % replicas != 0) {
      read.Fail(*read.Find(torchtitan::kReplicas),
                fmt::format("is {}, which does not divide the {} data ranks; change one of them", replicas,
                            plan.dp));
      return;
    }
    shards = plan.dp / replicas;
  } else {
    plan.dp = Times(replicas, shards);
    run.ranks = 1;
    for (const AxisRow& axis : kAxes) run.ranks = Times(run.ranks, plan.*axis.size);
  }
  if (plan.dp > 1) plan.grad_overlap = true;
  const std::string reshard = read.Text(torchtitan::kReshard, "default");
  if (shards == 1) return;
  if (reshard != torchtitan::kAlways && reshard != torchtitan::kNever && reshard != "default") {
    read.Fail(*read.Find(torchtitan::kReshard),
              fmt::format("is '{}'; give default, {} or {}", base::Printable(reshard), torchtitan::kAlways,
                          torchtitan::kNever));
  }
  plan.zero_stage = reshard == torchtitan::kNever || (reshard == "default" && plan.pp > 1) ? 2 : 3;
  plan.param_overlap = true;
  if (replicas > 1) plan.dp_shard = shards;
}

void ReadTorchtitanPrecision(SettingReader& read, RunDraft& run) {
  const ParallelPlan& plan = run.plan;
  const std::string mixed = read.Text(torchtitan::kPrecision, "bfloat16");
  if (mixed != "bfloat16" && mixed != "float32") {
    read.Fail(*read.Find(torchtitan::kPrecision),
              fmt::format("is '{}'; give bfloat16 or float32", base::Printable(mixed)));
  }
  if (const std::string states = read.Text(kStates, "float32"); states != "float32") {
    read.Fail(*read.Find(kStates),
              fmt::format("is '{}': states without a copy in fp32 are not modelled; only float32 can be read",
                          base::Printable(states)));
  }
  std::string_view products;
  if (const Setting* converters = read.Known("model.converters")) {
    for (const std::string& each : converters->values) {
      if (each == "float8" || each == "quantize.linear.float8") {
        products = "fp8";
      } else if (each == "mx" || each == "quantize.linear.mx") {
        products = "mxfp8";
      } else if (each.starts_with("quantize.")) {
        read.Fail(*converters,
                  fmt::format("has {}, which is not modelled; leave it out", base::Printable(each)));
      }
    }
  }
  // Sharding brings the mixed precision; without it and without tp and pp, autocast does.
  const bool disabled = BatchRanks(plan) == 1 && (SplitsLayers(plan) || SplitsDepth(plan));
  if (disabled && products.empty() && mixed == "bfloat16") {
    read.Note(fmt::format("{} has no effect with tp or pp on one data rank: the precision is read as fp32",
                          torchtitan::kPrecision));
  }
  run.workload.precision = *ParsePrecision(!products.empty()                  ? products
                                           : mixed == "bfloat16" && !disabled ? "bf16"
                                                                              : "fp32");
}

}  // namespace

void ReadTorchtitan(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  ReadFlavor(options, read, run);
  if (!read.ok()) return;
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : read.Whole(torchtitan::kSeqLen, 2048);
  ReadAxes(torchtitan::kAxisSettings, read, run);
  read.RefuseAboveOne("parallelism.context_parallel_degree", "context parallelism is not modelled");
  read.RefuseAboveOne("parallelism.expert_parallel_degree", "expert parallelism is not modelled");
  ReadSharding(options, read, run);
  if (!read.ok()) return;
  plan.sequence_parallel = SplitsLayers(plan);
  ReadTensorOverlap(torchtitan::kTpOverlap, read, run);
  const std::int64_t local = read.Whole(torchtitan::kLocalBatch, 8);
  plan.micro_batch = local;
  if (plan.pp > 1) {
    ReadPipeline(read, run);
  } else {
    // They say nothing without a pipeline.
    for (const std::string_view name : {torchtitan::kSchedule, torchtitan::kStages, torchtitan::kMicroBatch,
                                        kLayersPerStage, kFirstStageLess, kLastStageLess})
      (void)read.Find(name);
  }
  if (!read.ok()) return;
  const std::int64_t global = read.Whole(torchtitan::kGlobalBatch, -1, -1);
  run.workload.global_batch = global > 0 ? global : Times(local, plan.dp);
  if (plan.pp > 1 && run.workload.global_batch != Times(local, plan.dp)) {
    read.Fail(
        fmt::format("{} = {} on {} data ranks runs the pipeline several times for {} = {}, which is not "
                    "modelled; give {} = global batch / data ranks",
                    torchtitan::kLocalBatch, local, plan.dp, torchtitan::kGlobalBatch,
                    run.workload.global_batch, torchtitan::kLocalBatch));
    return;
  }
  if (!read.Has(torchtitan::kGlobalBatch)) NoteDefaultBatch(torchtitan::kGlobalBatch, read, run);
  CheckBatch(torchtitan::kGlobalBatch, read, run);
  ReadTorchtitanRecompute(read, run);
  ReadTorchtitanPrecision(read, run);
  ReadOptimizer({.name = "optimizer.name", .momentum = "optimizer.momentum"}, read, run);
}

}  // namespace autocfg
