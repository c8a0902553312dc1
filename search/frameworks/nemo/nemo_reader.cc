// NeMo 1.x's YAML. Defaults: megatron_gpt_model.py and megatron_base_model.py of the release that the writer
// follows.
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

constexpr std::string_view kCoreShardingOptimizer = "mcore_distributed_optim";  // of Megatron-core

void ReadNemoPrecision(SettingReader& read, RunDraft& run) {
  const std::string text = read.Text(nemo::kPrecision, "32");
  const bool fp8 = read.Flag("model.fp8");
  std::string_view name;
  if (text == "bf16" || text == "bf16-mixed" || text == "bf16-true") name = "bf16";
  if (text == "16" || text == "16-mixed" || text == "16-true") name = "fp16";
  if (text == "32" || text == "32-true") name = "fp32";
  if (name.empty()) {
    read.Fail(*read.Find(nemo::kPrecision),
              fmt::format("is '{}'; give bf16, 16 or 32", base::Printable(text)));
    name = "fp32";
  }
  run.workload.precision = *ParsePrecision(fp8 ? "fp8" : name);
}

// Files that fine-tune have the tokens of a sequence at their data.
void ReadSequence(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  const std::int64_t of_data = read.Whole("model.data.train_ds.max_seq_length", 0);
  run.workload.seq_len = options.seq_len;
  if (run.workload.seq_len == 0 && !read.Has(kNemoNames.seq_len)) run.workload.seq_len = of_data;
  if (run.workload.seq_len > 0) return;
  if (!read.Has(kNemoNames.seq_len))
    read.FailMissing(kNemoNames.seq_len,
                     fmt::format("{} is missing; add it, or give --seq-len", kNemoNames.seq_len));
  run.workload.seq_len = read.Whole(kNemoNames.seq_len, 1);
}

}  // namespace

void ReadNemo(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ReadRanks({.nodes = nemo::kNodes, .ranks_of_node = nemo::kDevices, .nodes_at_launch = true}, options, read,
            run);
  if (const Setting* checkpoint = read.Find("model.restore_from_path");
      checkpoint != nullptr && !options.model && !read.Has(kNemoNames.layers)) {
    read.Fail(*checkpoint, "names a checkpoint, which has the model; give --model");
    return;
  }
  ReadSequence(options, read, run);
  if (options.model) {
    run.model = *options.model;
  } else if (!read.Has(kNemoNames.layers)) {
    read.FailMissing(kNemoNames.layers,
                     fmt::format("{} is missing; add it, or give --model", kNemoNames.layers));
    return;
  } else {
    ReadNemoModel(options, read, run);
  }
  ReadNemoPrecision(read, run);
  ReadCorePlan(kNemoNames, options, read, run);
  ParallelPlan& plan = run.plan;
  plan.virtual_stages = read.Whole(nemo::kVirtualStages, 1);
  if (plan.pp == 1 && plan.virtual_stages > 1) {
    read.Fail(*read.Find(nemo::kVirtualStages),
              fmt::format("is {}, and {} is 1: only a pipeline has virtual stages; change one of them",
                          plan.virtual_stages, kNemoNames.axes[1].setting));
    return;
  }
  SetDependentDefaults(plan);
  plan.p2p_overlap = read.Flag(nemo::kMessageOverlap) && plan.virtual_stages > 1;
  ReadCoreRecompute(kNemoNames, kNemoParts, read, run);
  const std::string optimizer = read.Text(nemo::kOptimizer, "fused_adam");
  plan.zero_stage = optimizer == nemo::kShardingOptimizer || optimizer == kCoreShardingOptimizer ? 1 : 0;
  if (plan.zero_stage == 0 && optimizer.find("dist") != std::string::npos) {
    read.Fail(
        *read.Find(nemo::kOptimizer),
        fmt::format("is '{}', which is not modelled; {} and {} can be read, and those that shard nothing",
                    base::Printable(optimizer), nemo::kShardingOptimizer, kCoreShardingOptimizer));
    return;
  }
  ReadOptimizer({.name = nemo::kOptimizer, .momentum = nemo::kMomentum, .otherwise = "fused_adam"}, read,
                run);
  plan.grad_overlap = read.Flag(nemo::kGradOverlap) && plan.zero_stage == 1;
  plan.param_overlap = read.Flag(nemo::kParamOverlap) && plan.zero_stage == 1;
  if (plan.param_overlap && !plan.grad_overlap)
    read.Fail(*read.Find(nemo::kParamOverlap), fmt::format("needs {}; add it", nemo::kGradOverlap));
  read.RefuseAboveOne("trainer.accumulate_grad_batches", "the model accumulates by its own batches");
  if (const Setting* ramp = read.Find("model.rampup_batch_size"))
    read.NoteOf(*ramp, fmt::format("is left out: the batch is the last one, {} sequences",
                                   run.workload.global_batch));
}

}  // namespace autocfg
