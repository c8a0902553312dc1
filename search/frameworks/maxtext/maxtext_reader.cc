// MaxText's YAML. Defaults: src/maxtext/configs/base.yml of the sources that maxtext.h names, on which other
// files build.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/maxtext/maxtext.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

// Models of its configs/models, and the presets of their shapes.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kMaxTextModels = {{
    {"llama2-7b", "llama2-7b"},
    {"llama2-70b", "llama2-70b"},
    {"llama3-8b", "llama3-8b"},
    {"llama3-70b", "llama3-70b"},
    {"llama3-405b", "llama3-405b"},
    {"llama3.1-8b", "llama3-8b"},
    {"llama3.1-70b", "llama3-70b"},
    {"llama3.1-405b", "llama3-405b"},
    {"gpt3-175b", "gpt3-175b"},
}};

void ReadMaxTextModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  const std::string name = read.Text(maxtext::kModel, "default");
  if (options.model) {
    run.model = *options.model;
  } else if (name == "default" || name == "None") {
    ReadMaxTextShape(options, read, run.model);
    if (run.model.max_seq_len < run.workload.seq_len) run.model.max_seq_len = run.workload.seq_len;
  } else {
    const auto known =
        std::ranges::find(kMaxTextModels, name, &std::pair<std::string_view, std::string_view>::first);
    auto preset = known == kMaxTextModels.end() ? ModelPreset("") : ModelPreset(known->second);
    if (!preset.ok()) {
      read.Fail(*read.Find(maxtext::kModel),
                fmt::format("is '{}', a model that is not known; give its shape with --model",
                            base::Printable(name)));
      return;
    }
    run.model = *std::move(preset);
    FillDefaults(run.model);
  }
}

// The ranks of an axis, within a node (ici) and between nodes (dcn). -1: those that are left.
std::int64_t MaxTextAxis(std::string_view name, std::int64_t within, SettingReader& read, bool& rest) {
  std::int64_t size = 1;
  for (const auto& [prefix, otherwise] : {std::pair("ici", within), std::pair("dcn", std::int64_t{1})}) {
    const std::int64_t said = read.Whole(fmt::format("{}_{}_parallelism", prefix, name), otherwise, -1);
    if (said < 0) rest = true;
    if (said > 0) size = Times(size, said);
  }
  return size;
}

void ReadMaxTextAxes(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  for (const auto& [axis, why] :
       {std::pair("pipeline", "the schedule of its pipeline is not modelled"),
        std::pair("context", "context parallelism is not modelled"),
        std::pair("sequence", "context parallelism is not modelled"),
        std::pair("context_autoregressive", "context parallelism is not modelled"),
        std::pair("context_usp_ulysses", "context parallelism is not modelled"),
        std::pair("tensor_transpose", "tensor parallelism over two axes is not modelled"),
        std::pair("tensor_sequence", "tensor parallelism over two axes is not modelled"),
        std::pair("expert", "expert parallelism is not modelled"),
        std::pair("autoregressive", "it is of inference"),
        std::pair("diloco", "groups that train apart are not modelled")}) {
    for (const std::string_view place : {"ici", "dcn"})
      read.RefuseAboveOne(fmt::format("{}_{}_parallelism", place, axis), why);
  }
  bool tensor_rest = false, shards_rest = false, data_rest = false;
  plan.tp = MaxTextAxis("tensor", 1, read, tensor_rest);
  const std::int64_t shards =
      Times(MaxTextAxis("fsdp", read.Has("ici_data_parallelism") ? 1 : -1, read, shards_rest),
            MaxTextAxis("fsdp_transpose", 1, read, shards_rest));
  // Across nodes, the axis of data takes what is left by default.
  const std::int64_t replicas = MaxTextAxis("data", 1, read, data_rest);
  const std::int64_t known = Times(Times(plan.tp, shards), replicas);
  run.ranks = options.ranks > 0 ? options.ranks : known;
  const bool rest = shards_rest || data_rest || tensor_rest;
  if (options.ranks == 0 && (rest || !read.Has("dcn_data_parallelism"))) {
    read.Fail("the file leaves the number of ranks to its launch; give --ranks or --cluster");
    return;
  }
  if (run.ranks % known != 0) {
    read.Fail(
        fmt::format("{} ranks do not divide by the {} of its axes; change one of them", run.ranks, known));
    return;
  }
  const std::int64_t left = run.ranks / known;
  plan.dp = run.ranks / plan.tp;
  const std::int64_t sharded = shards_rest ? shards * left : shards;
  plan.zero_stage = sharded > 1 ? 3 : 0;
  if (plan.zero_stage == 3 && sharded != plan.dp) plan.dp_shard = sharded;
  plan.grad_overlap = plan.dp > 1;
  plan.param_overlap = plan.zero_stage == 3;
}

void ReadMaxTextRecompute(SettingReader& read, RunDraft& run) {
  const std::string policy = read.Text(maxtext::kRecompute, "full");
  if (policy == "full") {
    run.plan.recompute = Recompute::kFull;
  } else if (policy != "none") {
    run.unsaid.emplace_back("recompute");
    read.NoteOf(*read.Find(maxtext::kRecompute),
                fmt::format("is {}: it recomputes what is between products, which is not modelled: read as "
                            "recompute=none",
                            base::Printable(policy)));
  }
}

void ReadMaxTextPrecision(SettingReader& read, RunDraft& run) {
  const std::string type = read.Text("dtype", "bfloat16"), quantized = read.Text("quantization");
  if (!quantized.empty() && !quantized.starts_with("fp8") && quantized != "te_fp8_delayedscaling") {
    read.Fail(*read.Find("quantization"),
              fmt::format("is '{}', which is not modelled; fp8 can be read", base::Printable(quantized)));
    return;
  }
  if (type != "bfloat16" && type != "float32") {
    read.Fail(*read.Find("dtype"),
              fmt::format("is '{}'; bfloat16 and float32 can be read", base::Printable(type)));
    return;
  }
  run.workload.precision = *ParsePrecision(!quantized.empty() ? "fp8" : type == "bfloat16" ? "bf16" : "fp32");
  if (read.Text("weight_dtype", "float32") == "bfloat16" && type == "bfloat16")
    run.workload.precision = *ParsePrecision(
        fmt::format("{}:grads=bf16,moments=bf16,master=none", quantized.empty() ? "bf16" : "fp8"));
  const std::string optimizer = read.Text("opt_type", "adamw");
  if (optimizer == "adam_pax") return;
  ReadOptimizer({.name = "opt_type", .momentum = "momentum", .otherwise = "adamw"}, read, run);
}

}  // namespace

void ReadMaxText(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : read.Whole(maxtext::kSeqLen, 2048);
  ReadMaxTextModel(options, read, run);
  ReadMaxTextAxes(options, read, run);
  if (!read.ok()) return;
  const double of_device = read.Real(maxtext::kBatch, 12);
  const double micro = of_device * static_cast<double>(run.plan.tp);
  if (micro != std::floor(micro) || micro < 1 || micro > static_cast<double>(kMostSize)) {
    read.Fail(fmt::format("{} is {}, which with {}={} makes no whole batch; change one of them",
                          maxtext::kBatch, of_device, maxtext::kTensor, run.plan.tp));
    return;
  }
  run.plan.micro_batch = static_cast<std::int64_t>(micro);
  run.workload.global_batch =
      Times(Times(run.plan.micro_batch, read.Whole(maxtext::kMicrobatches, 1)), run.plan.dp);
  ReadMaxTextRecompute(read, run);
  ReadMaxTextPrecision(read, run);
  const std::string attention = read.Text("attention", "autoselected");
  if (attention == "dot_product") run.plan.attention = Attention::kUnfused;
}

}  // namespace autocfg
