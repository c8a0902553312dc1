// Exports random plans to every framework, and checks the files against the framework's own options (as
// data) and rules (as its sources state them, written anew here).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "search/frameworks/export_target.h"
#include "search/frameworks/framework_file.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"
#include "tests/search/frameworks/random_runs.h"
#include "tests/search/frameworks/target_rules.h"

namespace autocfg {
namespace {

using test::Options;

constexpr int kRuns = 10'000;

Options OptionsOf(std::string_view target, const std::string& text) {
  if (target == "megatron") return test::FlagOptions(text);
  if (target == "torchtitan") return test::TomlOptions(text);
  if (target == "nemo") return test::YamlOptions(text);
  if (target == "megatron-bridge") return test::OverrideOptions(text);
  Options options;
  test::AddJsonOptions(nlohmann::json::parse(text), "", options);
  return options;
}

bool IsWhole(const std::string& text) {
  char* end = nullptr;
  (void)std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0';
}
bool IsNumber(const std::string& text) {
  char* end = nullptr;
  (void)std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// Checks that the framework knows each option, and takes a value of this type.
void ExpectKnown(const nlohmann::json& rules, const Options& options) {
  std::map<std::string, int> times;
  for (const auto& [name, value] : options) {
    ASSERT_TRUE(rules["options"].contains(name)) << name << " is no option of the framework";
    EXPECT_EQ(++times[name], 1) << name << " is given twice";
    const nlohmann::json& rule = rules["options"][name];
    const std::string type = rule.value("type", "");
    if (value == "null") continue;
    if (type == "int") {
      EXPECT_TRUE(IsWhole(value)) << name << ' ' << value;
    }
    if (type == "float") {
      EXPECT_TRUE(IsNumber(value)) << name << ' ' << value;
    }
    if (type == "bool" && rule["kind"] == "flag" && name.starts_with("--")) {
      EXPECT_EQ(value, "") << name;
    } else if (type == "bool") {
      EXPECT_TRUE(value == "true" || value == "false") << name << ' ' << value;
    }
    if (!rule.contains("choices")) continue;
    std::vector<std::string> values = {value};
    if (rule["kind"] == "list") values = absl::StrSplit(value, ' ');
    for (const std::string& one : values) {
      bool chosen = false;
      for (const auto& choice : rule["choices"])
        chosen = chosen || (choice.is_string() ? choice.get<std::string>() : choice.dump()) == one;
      EXPECT_TRUE(chosen) << name << ' ' << one;
    }
  }
}

// The options of one file by name; whole numbers where they are asked for.
class Given {
 public:
  explicit Given(const Options& options) : options_(options.begin(), options.end()) {}
  bool Has(const std::string& name) const { return options_.contains(name); }
  std::string Text(const std::string& name) const { return options_.contains(name) ? options_.at(name) : ""; }
  std::int64_t Whole(const std::string& name, std::int64_t otherwise = 0) const {
    return Has(name) ? std::strtoll(options_.at(name).c_str(), nullptr, 10) : otherwise;
  }

 private:
  std::map<std::string, std::string> options_;
};

// The stages of a layout string: its layers, and that E comes first and L last.
std::vector<std::int64_t> StagesOfLayout(const std::string& layout) {
  std::vector<std::int64_t> stages = {0};
  EXPECT_EQ(layout.front(), 'E');
  EXPECT_EQ(layout.back(), 'L');
  EXPECT_EQ(std::count(layout.begin(), layout.end(), 'E'), 1);
  EXPECT_EQ(std::count(layout.begin(), layout.end(), 'L'), 1);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] == '|') stages.push_back(0);
    if (layout[i] != 't') continue;
    if (i + 1 < layout.size() && layout[i + 1] == '*') {
      stages.back() += std::strtoll(layout.c_str() + i + 2, nullptr, 10);
    } else {
      ++stages.back();
    }
  }
  return stages;
}

// Rules of megatron/training/arguments.py and pipeline_parallel_layer_layout.py.
void ExpectMegatronAccepts(const ExportedRun& run, const Options& options, const std::string& text) {
  const Given given(options);
  const std::int64_t tp = given.Whole("--tensor-model-parallel-size"),
                     pp = given.Whole("--pipeline-model-parallel-size"), world = RankCount(run.plan),
                     dp = world / (tp * pp), layers = given.Whole("--num-layers");
  EXPECT_EQ(world % (tp * pp), 0);
  EXPECT_EQ(given.Whole("--global-batch-size") % (given.Whole("--micro-batch-size") * dp), 0);
  EXPECT_EQ(given.Whole("--num-attention-heads") % tp, 0);
  EXPECT_GE(given.Whole("--max-position-embeddings"), given.Whole("--seq-length"));
  const bool layout = given.Has("--pipeline-model-parallel-layout"),
             per_stage = given.Has("--num-layers-per-virtual-pipeline-stage");
  EXPECT_FALSE(layout && per_stage);
  std::int64_t virtual_stages = 1;
  if (layout) {
    const auto stages = StagesOfLayout(given.Text("--pipeline-model-parallel-layout"));
    EXPECT_EQ(static_cast<std::int64_t>(stages.size()) % pp, 0);
    virtual_stages = static_cast<std::int64_t>(stages.size()) / pp;
    for (std::int64_t stage = 0; stage < StageCount(run.plan); ++stage)
      EXPECT_EQ(stages.at(static_cast<std::size_t>(stage)), StageLayerCount(run.model, run.plan, stage));
  } else {
    EXPECT_EQ(layers % pp, 0);
    if (per_stage) {
      EXPECT_EQ(layers / pp % given.Whole("--num-layers-per-virtual-pipeline-stage"), 0);
      virtual_stages = layers / pp / given.Whole("--num-layers-per-virtual-pipeline-stage");
    }
  }
  EXPECT_EQ(virtual_stages, run.plan.virtual_stages);
  const std::int64_t microbatches =
      given.Whole("--global-batch-size") / (given.Whole("--micro-batch-size") * dp);
  if (virtual_stages > 1) {
    EXPECT_GT(pp, given.Has("--no-overlap-p2p-communication") ? 2 : 1);
    EXPECT_LE(pp, microbatches);
    EXPECT_TRUE(microbatches % pp == 0 || microbatches % pp >= pp);
  }
  const std::string granularity = given.Text("--recompute-granularity");
  EXPECT_EQ(granularity == "full", given.Has("--recompute-method"));
  EXPECT_EQ(granularity == "full", given.Has("--recompute-num-layers"));
  if (given.Has("--recompute-modules")) {
    EXPECT_EQ(granularity, "selective");
    // Without --multi-latent-attention, --moe-grouped-gemm or --transformer-impl local.
    for (const char* module : {"mla_up_proj", "moe_act", "layernorm"})
      EXPECT_EQ(given.Text("--recompute-modules").find(module), std::string::npos) << module;
  }
  const bool fsdp = given.Has("--use-megatron-fsdp");
  if (given.Has("--overlap-param-gather")) {
    EXPECT_TRUE(given.Has("--overlap-grad-reduce"));
    EXPECT_TRUE(fsdp || given.Has("--use-distributed-optimizer"));
  }
  if (given.Has("--tp-comm-overlap")) {
    EXPECT_TRUE(given.Has("--sequence-parallel"));
  }
  if (given.Has("--sequence-parallel")) {
    EXPECT_GT(tp, 1);
    EXPECT_EQ(given.Whole("--seq-length") % tp, 0);
  }
  const bool one_queue = text.find("# env CUDA_DEVICE_MAX_CONNECTIONS=1\n") != std::string::npos;
  if (fsdp) {
    EXPECT_EQ(given.Text("--ckpt-format"), "fsdp_dtensor");
    EXPECT_FALSE(one_queue);
    EXPECT_TRUE(given.Has("--overlap-grad-reduce"));
    EXPECT_TRUE(given.Has("--use-distributed-optimizer"));
    EXPECT_TRUE(given.Has("--no-gradient-accumulation-fusion"));
  } else {
    EXPECT_EQ(one_queue, tp > 1);
  }
  if (given.Has("--num-distributed-optimizer-instances")) {
    EXPECT_EQ(dp % given.Whole("--num-distributed-optimizer-instances"), 0);
    EXPECT_EQ(dp / given.Whole("--num-distributed-optimizer-instances"), StateShards(run.plan));
  }
  EXPECT_FALSE(given.Has("--bf16") && given.Has("--fp16"));
  // Transformer Engine has no other kernel for 32 bits.
  EXPECT_TRUE(given.Has("--bf16") || given.Has("--fp16") || given.Text("--attention-backend") == "unfused");
  // NullTokenizer adds an id; the padded vocabularies are equal.
  EXPECT_EQ(given.Whole("--vocab-size") + 1, run.model.vocab);
  EXPECT_EQ(given.Whole("--make-vocab-size-divisible-by"), run.model.vocab_multiple);
}

// Rules of deepspeed/runtime/config.py, zero/config.py and pipe/engine.py.
void ExpectDeepSpeedAccepts(const ExportedRun& run, const Options& options) {
  const Given given(options);
  const std::int64_t pp = given.Whole("pipeline.stages", 1),
                     tp = given.Whole("tensor_parallel.autotp_size", 1), dp = RankCount(run.plan) / (tp * pp),
                     stage = given.Whole("zero_optimization.stage");
  EXPECT_EQ(given.Whole("train_batch_size"),
            given.Whole("train_micro_batch_size_per_gpu") * given.Whole("gradient_accumulation_steps") * dp);
  EXPECT_LE(stage, pp > 1 ? 1 : 3);
  EXPECT_FALSE(tp > 1 && stage == 3);
  EXPECT_FALSE(tp > 1 && pp > 1);
  if (given.Has("zero_optimization.mics_shard_size")) {
    EXPECT_EQ(stage, 3);
    EXPECT_EQ(dp % given.Whole("zero_optimization.mics_shard_size"), 0);
  }
  EXPECT_FALSE(given.Has("bf16.enabled") && given.Has("fp16.enabled"));
}

// Rules of torchtitan/distributed/parallel_dims.py and pipeline_parallel.py.
void ExpectTorchtitanAccepts(const ExportedRun& run, const Options& options) {
  const Given given(options);
  const std::int64_t replicate = given.Whole("parallelism.data_parallel_replicate_degree"),
                     shard = given.Whole("parallelism.data_parallel_shard_degree"),
                     tp = given.Whole("parallelism.tensor_parallel_degree"),
                     pp = given.Whole("parallelism.pipeline_parallel_degree");
  EXPECT_EQ(replicate * shard * tp * pp, RankCount(run.plan));
  EXPECT_EQ(given.Whole("training.global_batch_size") %
                (given.Whole("training.local_batch_size") * replicate * shard),
            0);
  if (replicate > 1 && shard == 1) {
    EXPECT_EQ(tp * pp, 1);
  }
  if (tp > 1) {
    EXPECT_EQ(given.Whole("training.seq_len") % (2 * tp), 0);
  }
  if (pp > 1) {
    EXPECT_EQ(given.Whole("training.local_batch_size") %
                  given.Whole("parallelism.pipeline_parallel_microbatch_size"),
              0);
    const auto stages = nlohmann::json::parse(given.Text("parallelism.module_fqns_per_model_part"), nullptr,
                                              /*allow_exceptions=*/true, /*ignore_comments=*/true);
    EXPECT_EQ(static_cast<std::int64_t>(stages.size()) % pp, 0);
    std::vector<std::string> modules;
    for (const auto& stage : stages) {
      for (const auto& module : stage) modules.push_back(module);
    }
    ASSERT_EQ(static_cast<std::int64_t>(modules.size()), run.model.layers + 3);
    EXPECT_EQ(modules.front(), "tok_embeddings");
    EXPECT_EQ(modules.back(), "output");
    for (std::int64_t i = 0; i < run.model.layers; ++i)
      EXPECT_EQ(modules[static_cast<std::size_t>(i) + 1], "layers." + std::to_string(i));
    const bool several = given.Text("parallelism.pipeline_parallel_schedule") == "Interleaved1F1B";
    EXPECT_EQ(several, static_cast<std::int64_t>(stages.size()) > pp);
  }
}

// Rules of megatron_base_model.py and megatron_gpt_model.py.
void ExpectNemoAccepts(const ExportedRun& run, const Options& options) {
  const Given given(options);
  const std::int64_t tp = given.Whole("model.tensor_model_parallel_size"),
                     pp = given.Whole("model.pipeline_model_parallel_size"),
                     world = given.Whole("trainer.devices") * given.Whole("trainer.num_nodes"),
                     dp = world / (tp * pp);
  EXPECT_EQ(world, RankCount(run.plan));
  EXPECT_EQ(given.Whole("model.global_batch_size") % (given.Whole("model.micro_batch_size") * dp), 0);
  EXPECT_EQ(given.Whole("model.num_layers") % pp, 0);
  if (given.Text("model.virtual_pipeline_model_parallel_size") != "null") {
    EXPECT_EQ(
        given.Whole("model.num_layers") / pp % given.Whole("model.virtual_pipeline_model_parallel_size"), 0);
    EXPECT_EQ(given.Text("model.megatron_amp_O2"), "true");
  }
  if (given.Text("model.optim.name") == "distributed_fused_adam") {
    EXPECT_EQ(given.Text("model.megatron_amp_O2"), "true");
  }
  if (given.Text("model.optim.overlap_param_sync") == "true") {
    EXPECT_EQ(given.Text("model.optim.overlap_grad_sync"), "true");
  }
  if (given.Text("model.ub_tp_comm_overlap") == "true") {
    EXPECT_EQ(given.Text("model.sequence_parallel"), "true");
  }
  EXPECT_NE(given.Text("model.overlap_p2p_comm"), given.Text("model.batch_p2p_comm"));
  EXPECT_EQ(given.Text("model.activations_checkpoint_granularity") == "full",
            given.Text("model.activations_checkpoint_method") != "null");
  EXPECT_EQ(given.Whole("model.override_vocab_size"), PaddedVocab(run.model, tp));
}

// Rules of megatron/bridge/training/config.py, setup.py and megatron/core/transformer/transformer_config.py.
void ExpectBridgeAccepts(const ExportedRun& run, const Options& options, const std::string& text) {
  const Given given(options);
  const std::int64_t tp = given.Whole("model.tensor_model_parallel_size"),
                     pp = given.Whole("model.pipeline_model_parallel_size"), world = RankCount(run.plan),
                     dp = world / (tp * pp), layers = given.Whole("model.num_layers");
  EXPECT_EQ(world % (tp * pp), 0);
  EXPECT_EQ(given.Whole("train.global_batch_size") % (given.Whole("train.micro_batch_size") * dp), 0);
  EXPECT_EQ(given.Whole("model.seq_length"), given.Whole("dataset.seq_length"));
  std::int64_t virtual_stages = given.Whole("model.virtual_pipeline_model_parallel_size", 1);
  if (given.Text("model.virtual_pipeline_model_parallel_size") == "null") virtual_stages = 1;
  EXPECT_EQ(virtual_stages, run.plan.virtual_stages);
  if (const std::string layout = given.Text("model.pipeline_model_parallel_layout"); layout != "null") {
    ASSERT_TRUE(layout.starts_with('\'') && layout.ends_with('\''));
    const auto stages = StagesOfLayout(layout.substr(1, layout.size() - 2));
    EXPECT_EQ(static_cast<std::int64_t>(stages.size()), pp * virtual_stages);
    for (std::int64_t stage = 0; stage < StageCount(run.plan); ++stage)
      EXPECT_EQ(stages.at(static_cast<std::size_t>(stage)), StageLayerCount(run.model, run.plan, stage));
  } else {
    EXPECT_EQ(layers / pp % virtual_stages, 0);
    EXPECT_EQ(layers % pp, 0);
  }
  EXPECT_NE(given.Text("model.overlap_p2p_comm"), given.Text("model.batch_p2p_comm"));
  const std::string granularity = given.Text("model.recompute_granularity");
  EXPECT_EQ(granularity == "full", given.Text("model.recompute_method") != "null");
  EXPECT_EQ(granularity == "full", given.Text("model.recompute_num_layers") != "null");
  EXPECT_EQ(granularity == "selective", given.Text("model.recompute_modules") != "null");
  const bool fsdp = given.Text("ddp.use_megatron_fsdp") == "true",
             gathers = given.Text("ddp.overlap_param_gather") == "true";
  // Each pair is made the same, by switching both on.
  EXPECT_EQ(given.Text("ddp.use_distributed_optimizer"), given.Text("optimizer.use_distributed_optimizer"));
  EXPECT_EQ(given.Text("ddp.overlap_param_gather"), given.Text("optimizer.overlap_param_gather"));
  if (gathers) {
    EXPECT_EQ(given.Text("ddp.overlap_grad_reduce"), "true");
    EXPECT_EQ(given.Text("ddp.use_distributed_optimizer"), "true");
  }
  if (given.Text("model.tp_comm_overlap") == "true") {
    EXPECT_EQ(given.Text("model.sequence_parallel"), "true");
  }
  if (given.Text("model.sequence_parallel") == "true") {
    EXPECT_GT(tp, 1);
  }
  const bool one_queue = text.find("# env CUDA_DEVICE_MAX_CONNECTIONS=1\n") != std::string::npos;
  EXPECT_EQ(one_queue, tp > 1 && !fsdp);
  if (fsdp) {
    EXPECT_EQ(given.Text("checkpoint.ckpt_format"), "fsdp_dtensor");
    EXPECT_EQ(given.Text("model.gradient_accumulation_fusion"), "false");
  }
  EXPECT_EQ(dp % given.Whole("ddp.num_distributed_optimizer_instances"), 0);
  // A gated or plain kernel for silu and gelu; that of plain gelu adds biases.
  if (given.Text("model.bias_activation_fusion") == "true") {
    EXPECT_TRUE(given.Text("model.gated_linear_unit") == "true" ||
                given.Text("model.add_bias_linear") == "true");
  }
  // A size that is given is not padded, and must hold the tokenizer's ids.
  EXPECT_EQ(given.Whole("model.vocab_size"), PaddedVocab(run.model, tp));
  EXPECT_GE(given.Whole("model.vocab_size"), given.Whole("tokenizer.vocab_size"));
  if (given.Text("model.no_rope_freq") != "null") {
    EXPECT_EQ(layers % given.Whole("model.no_rope_freq"), 0);
  }
}

class ExportRules : public testing::TestWithParam<std::string> {};

TEST_P(ExportRules, AcceptEveryFile) {
  const std::string& name = GetParam();
  const ExportTarget* target = FindExportTarget(name);
  ASSERT_NE(target, nullptr);
  const nlohmann::json rules = test::RulesOf(name);
  test::RandomRuns runs(7);
  int files = 0;
  for (int i = 0; i < kRuns && !HasFailure(); ++i) {
    const ExportedRun run = runs.Next();
    SCOPED_TRACE(run.model.name + " " + PlanText(run.plan));
    const auto file = Export(run, *target);
    if (!file.ok()) {
      ASSERT_TRUE(absl::IsFailedPrecondition(file.status())) << file.status();
      continue;
    }
    ++files;
    const Options options = OptionsOf(name, file->text);
    ASSERT_NO_FATAL_FAILURE(ExpectKnown(rules, options));
    if (name == "megatron") ExpectMegatronAccepts(run, options, file->text);
    if (name == "deepspeed") ExpectDeepSpeedAccepts(run, options);
    if (name == "torchtitan") ExpectTorchtitanAccepts(run, options);
    if (name == "nemo") ExpectNemoAccepts(run, options);
    if (name == "megatron-bridge") ExpectBridgeAccepts(run, options, file->text);
  }
  EXPECT_GE(files, 100) << "too few plans can be exported for the test to show much";
}

INSTANTIATE_TEST_SUITE_P(Each, ExportRules, testing::ValuesIn(test::ExportedFrameworks()),
                         [](const auto& info) { return test::TestNameOf(info.param); });

}  // namespace
}  // namespace autocfg
