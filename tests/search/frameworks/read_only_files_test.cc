// Files of frameworks that are read and not written: gpt-neox, Accelerate and MaxText.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/accelerate/accelerate.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/gpt_neox/gpt_neox.h"
#include "search/frameworks/maxtext/maxtext.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_text.h"
#include "search/plan/states/precision.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/persons_files.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

ReadingOptions OnRanks(std::int64_t ranks) {
  ReadingOptions options;
  options.ranks = ranks;
  return options;
}

struct RefusedChange {
  std::string before, after, message;
};

void ExpectRefused(std::string_view framework, const std::string& text, const ReadingOptions& options,
                   std::initializer_list<RefusedChange> changes) {
  ASSERT_TRUE(ReadFrameworkFile(framework, "f", text, options).ok());
  for (const RefusedChange& change : changes) {
    const auto run = ReadFrameworkFile(framework, "f",
                                       absl::StrReplaceAll(text, {{change.before, change.after}}), options);
    EXPECT_THAT(std::string(run.status().message()), HasSubstr(change.message)) << change.after;
  }
}

TEST(ReadOnlyFiles, OfGptNeox) {
  const FrameworkRun run = test::ReadFile(kGptNeox, "neox.yml", OnRanks(16));
  EXPECT_EQ(run.model.vocab, 50257);
  EXPECT_EQ(run.model.ffn_hidden, 8192);
  EXPECT_TRUE(run.model.parallel_residual);
  EXPECT_EQ(run.model.partial_rotary_factor, 0.25);
  EXPECT_EQ(run.workload.global_batch, 64);
  EXPECT_EQ(PrecisionText(run.workload.precision), "fp16");
  EXPECT_EQ(PlanText(run.plan), "tp=2,pp=1,dp=8,mbs=4,recompute=full,zero=1");
  ParallelPlan plan = run.plan;
  plan.recompute = Recompute::kNone;
  plan.micro_batch = 8;
  const auto changed = ChangePlan(run, plan, OnRanks(16));
  EXPECT_TRUE(changed.ok()) << changed.status();
  // Its bf16 sums as DeepSpeed does under ZeRO.
  const auto states = [&](const char* more) {
    const std::string file =
        absl::StrReplaceAll(test::FileNamed("neox.yml"), {{"\"fp16\"", absl::StrCat(more, "\"bf16\"")}});
    const auto bf16 = ReadFrameworkFile(kGptNeox, "f", file, OnRanks(16));
    return bf16.ok() ? PrecisionText(bf16->workload.precision) : std::string(bf16.status().message());
  };
  EXPECT_EQ(states(""), "bf16:grads=bf16");
  EXPECT_EQ(states("\"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "), "bf16");
  ExpectRefused(kGptNeox, test::FileNamed("neox.yml"), OnRanks(16),
                {{"\"flash\"", "\"mamba\"", "f:14: attention_config cannot be read: other layers"},
                 {"\"stage\": 1", "\"stage\": 1, \"cpu_offload\": true", "states in host memory"},
                 {"\"rotary\"", "\"rpe\"", "pos_emb is 'rpe', which is not modelled"},
                 {"\"num-layers\": 16", "\"num-layers\": 16, \"moe_num_experts\": 8", "mixtures of experts"},
                 {"\"model-parallel-size\": 2", "\"model-parallel-size\": 3", "16 ranks do not divide by"}});
}

// The files of a run count together; a message says what a part of it lacks.
TEST(ReadOnlyFiles, OfGptNeoxMayBeSeveral) {
  const std::string sizes = "num_layers: 4\nhidden-size: 256\nnum-attention-heads: 8\nseq-length: 128\n";
  const std::string launch = "pipe-parallel-size: 1\nattention-config: [[[\"flash\"], 4]]\n";
  const auto problem = [&](const std::string& text, const ReadingOptions& options) {
    return std::string(ReadFrameworkFile(kGptNeox, "a.yml", text, options).status().message());
  };
  ReadingOptions options = OnRanks(8);
  EXPECT_EQ(problem(launch, options),
            "a.yml: seq_length is missing; give the run's other files behind this one, or --model");
  EXPECT_EQ(problem("num_layers: 4\n" + launch, options),
            "a.yml: seq_length is missing; give the run's other files behind this one, or --seq-len");
  EXPECT_EQ(
      problem(sizes + launch, options),
      "a.yml: train_micro_batch_size_per_gpu is missing; give the run's other files behind this one, or "
      "--plan mbs=1");
  EXPECT_THAT(problem(sizes + "attention_config: [[[\"gmlp\"], 4]]\n", options),
              HasSubstr("attention_config cannot be read: layers of gMLP are not modelled"));
  options.plan["mbs"] = "2";
  options.launch.files = {{.name = "b.yml", .text = sizes}};
  EXPECT_TRUE(TakesSeveralFiles(kGptNeox));
  EXPECT_FALSE(TakesSeveralFiles(kMaxText));
  const auto run = ReadFrameworkFile(kGptNeox, "a.yml", launch, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.micro_batch, 2);
  EXPECT_EQ(run->plan.attention, Attention::kFused);
  EXPECT_EQ(run->model.hidden, 256);
  options.launch.files.front().text = "num_layers: [\n";
  EXPECT_THAT(problem(launch, options), HasSubstr("b.yml:"));
}

TEST(ReadOnlyFiles, OfAccelerate) {
  const std::string text =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_sharding_strategy: HYBRID_SHARD\n"
      "  fsdp_offload_params: false\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n";
  EXPECT_EQ(FrameworkOf(text), kAccelerate);
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  EXPECT_THAT(std::string(ReadFrameworkFile(kAccelerate, "f", text, options).status().message()),
              HasSubstr("the batch is the script's: give --plan mbs=1"));
  options.launch.arguments = {
      {"--per_device_train_batch_size"}, {"2"}, {"--gradient_accumulation_steps"}, {"4"}};
  const auto run = ReadFrameworkFile(kAccelerate, "f", text, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->workload.global_batch, 128);
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=1,dp=16,mbs=2,zero=3,dp_shard=8,grad_overlap=1,param_overlap=1");
  const auto deepspeed = ReadFrameworkFile(
      kAccelerate, "f", absl::StrReplaceAll(text, {{"type: FSDP", "type: DEEPSPEED"}}), options);
  ASSERT_TRUE(deepspeed.ok()) << deepspeed.status();
  EXPECT_EQ(PrecisionText(deepspeed->workload.precision), "bf16:grads=bf16");
  EXPECT_THAT(deepspeed->notes, testing::Contains(HasSubstr("with the figures of FSDP")));
  ReadingOptions wrong = options;
  wrong.launch.arguments.back() = {"four"};
  EXPECT_THAT(std::string(ReadFrameworkFile(kAccelerate, "f", text, wrong).status().message()),
              HasSubstr("--gradient_accumulation_steps behind it is 'four'; give a whole number"));
  ExpectRefused(kAccelerate, text, options,
                {{"offload_params: false", "offload_params: true", "states in host memory"},
                 {"HYBRID_SHARD", "SOME_SHARD", "f:5: fsdp_config.fsdp_sharding_strategy is 'SOME_SHARD'"},
                 {"type: FSDP", "type: MEGATRON_LM", "Megatron-LM trains; give its launch script"}});
}

TEST(ReadOnlyFiles, OfMaxText) {
  const std::string text =
      "base_config: base.yml\nmodel_name: llama2-7b\nper_device_batch_size: 4\nmax_target_length: 4096\n"
      "ici_fsdp_parallelism: 8\nremat_policy: full\nrope_max_timescale: 10_000\n";
  EXPECT_EQ(FrameworkOf(text), kMaxText);
  const auto run = ReadFrameworkFile(kMaxText, "f", text, OnRanks(32));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model.name, "llama2-7b");
  EXPECT_EQ(run->workload.global_batch, 128);
  EXPECT_EQ(PlanText(run->plan),
            "tp=1,pp=1,dp=32,mbs=4,recompute=full,zero=3,dp_shard=8,grad_overlap=1,param_overlap=1");
  const auto narrow =
      ReadFrameworkFile(kMaxText, "f", text + "quantization: fp8\nweight_dtype: bfloat16\n", OnRanks(32));
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(PrecisionText(narrow->workload.precision), "fp8:grads=bf16,moments=bf16,master=none");
  ExpectRefused(
      kMaxText, text, OnRanks(32),
      {{"llama2-7b", "mixtral-8x7b", "mixtures of experts"},
       {"llama2-7b", "unknown-7b", "f:2: model_name is 'unknown-7b', a model that is not known"},
       {"remat_policy: full", "remat_policy: full\nici_pipeline_parallelism: 2", "its pipeline is not"},
       {"batch_size: 4", "batch_size: 0.3", "makes no whole batch"}});
}

TEST(ReadOnlyFiles, OfMaxTextSayLayersByTheirBlock) {
  const auto model = [](const std::string& lines) {
    const auto run =
        ReadFrameworkFile(kMaxText, "f",
                          absl::StrCat("per_device_batch_size: 1\nmax_target_length: 256\nbase_emb_dim: 256\n"
                                       "base_num_decoder_layers: 6\nbase_mlp_dim: 1_024\nhead_dim: 64\n"
                                       "base_num_query_heads: 4\nbase_num_kv_heads: 4\n",
                                       lines),
                          OnRanks(8));
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->model : ModelSpec{};
  };
  const std::string gelu = "mlp_activations: [\"gelu\", \"linear\"]\n";
  const ModelSpec gemma = model(gelu + "decoder_block: gemma\n");
  EXPECT_EQ(gemma.activation, Activation::kGeGlu);
  EXPECT_EQ(gemma.embedding_scale, 16);
  EXPECT_EQ(gemma.ffn_hidden, 1024);
  const ModelSpec gemma2 = model(gelu +
                                 "decoder_block: gemma2\nsliding_window_size: 64\nuse_post_attn_norm: true\n"
                                 "use_post_ffw_norm: true\nattn_logits_soft_cap: 50.0\n");
  EXPECT_EQ(gemma2.layers, 12) << "a block is two layers";
  EXPECT_EQ(gemma2.norm_placement, NormPlacement::kSandwich);
  EXPECT_EQ(gemma2.attention_softcap, 50);
  EXPECT_EQ(KindOf(gemma2, 0).window, 64);
  EXPECT_EQ(KindOf(gemma2, 1).window, 0);
  const ModelSpec gemma3 = model(gelu +
                                 "decoder_block: gemma3\nsliding_window_size: 64\n"
                                 "local_rope_max_timescale: 10_000\nrope_max_timescale: 1_000_000\n");
  EXPECT_EQ(gemma3.qk_norm, QkNorm::kHead);
  EXPECT_EQ(KindOf(gemma3, 4).rope_theta, 10000);
  EXPECT_EQ(KindOf(gemma3, 5).window, 0);
  const ModelSpec gpt3 =
      model("mlp_activations: [gelu]\ndecoder_block: gpt3\ntrainable_position_size: 2048\n");
  EXPECT_EQ(gpt3.position, Position::kLearned);
  EXPECT_EQ(gpt3.norm, Norm::kLayerNorm);
  EXPECT_EQ(gpt3.max_seq_len, 2048);
  EXPECT_TRUE(gpt3.mlp_bias);
  const ModelSpec olmo3 = model(
      "decoder_block: olmo3\nuse_qk_norm: true\nsliding_window_size: 64\nrope_type: yarn\nrope_factor: 8.0\n"
      "inhomogeneous_layer_cycle_interval: 4\noriginal_max_position_embeddings: 128\n");
  EXPECT_EQ(olmo3.qk_norm, QkNorm::kFull);
  EXPECT_EQ(olmo3.norm_placement, NormPlacement::kOutput);
  EXPECT_EQ(olmo3.rope_scaling, RopeScaling::kYarn);
  EXPECT_EQ(KindOf(olmo3, 3).window, 0);
  EXPECT_EQ(KindOf(olmo3, 2).window, 64);
}

TEST(ReadOnlyFiles, NameFlavorsOfTorchtitan) {
  EXPECT_EQ(TorchtitanModel("qwen3", "0.6B")->layers, 28);
  EXPECT_EQ(TorchtitanModel("llama3", "8B_flex")->name, "llama3-8b");
  EXPECT_EQ(TorchtitanModel("llama3", "debugmodel_varlen_attn")->ffn_hidden, 768);
  EXPECT_FALSE(TorchtitanModel("qwen3", "7B"));
  const auto experts = ReadFrameworkFile(
      kTorchtitan, "a.toml", "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[training]\n", OnRanks(8));
  EXPECT_THAT(std::string(experts.status().message()), HasSubstr("mixtures of experts"));
}

}  // namespace
}  // namespace autocfg
