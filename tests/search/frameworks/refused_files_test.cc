// Files and settings that are refused, each with one line that says why.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"
#include "tests/search/frameworks/target_rules.h"

namespace autocfg {
namespace {

using testing::HasSubstr;
using testing::Not;

absl::Status StatusOfFlags(const std::string& more, std::int64_t ranks = 8) {
  ReadingOptions options;
  options.ranks = ranks;
  return ReadFrameworkFile(kMegatron, "run.args", FlagsWith(more), options).status();
}

TEST(PersonsFiles, RefusesWhatContradictsOrIsNotModelled) {
  EXPECT_TRUE(StatusOfFlags("").ok()) << StatusOfFlags("");
  struct Case {
    const char* flags;
    const char* says;
  };
  for (const Case& c : {
           Case{"--num-layers-per-virtual-pipeline-stage 1\n--num-virtual-stages-per-pipeline-rank 2",
                "run.args:9: --num-virtual-stages-per-pipeline-rank contradicts "
                "--num-layers-per-virtual-pipeline-stage of line 8"},
           Case{"--tensor-model-parallel-size 3",
                "run.args:8: --tensor-model-parallel-size does not fit: 8 ranks"},
           Case{"--global-batch-size 12", "run.args:8: --global-batch-size does not fit: 12 sequences"},
           Case{"--recompute-granularity full\n--recompute-method uniform\n--recompute-activations",
                "run.args:8: --recompute-granularity contradicts --recompute-activations of line 10"},
           Case{"--recompute-activations\n--recompute-method uniform",
                "run.args:9: --recompute-method contradicts --recompute-activations of line 8"},
           Case{"--seq-length 256",
                "run.args:5: --max-position-embeddings is 128, below --seq-length 256; change one of them"},
           Case{"--bf16\n--fp16", "run.args:9: --fp16 contradicts --bf16 of line 8"},
           Case{"--context-parallel-size 2", "run.args:8: --context-parallel-size is 2: context parallelism"},
           Case{"--deepspeed", "give its JSON file, with --from deepspeed"},
           Case{"--window-size 64,64", "run.args:8: --window-size is 64,64; only N,0 can be read"},
           Case{"--window-size 64,0\n--window-attn-skip-freq ([1]*3+[0])*2",
                "run.args:9: --window-attn-skip-freq is"},
           Case{"--position-embedding-type rope\n--no-rope-freq [0,1]", "run.args:9: --no-rope-freq is"},
           Case{"--cpu-offloading-num-layers 1", "run.args:8: --cpu-offloading-num-layers cannot be read: "},
           Case{"--pipeline-model-parallel-size 2\n--num-virtual-stages-per-pipeline-rank 2\n"
                "--microbatch-group-size-per-virtual-pipeline-stage 4",
                "run.args:10: --microbatch-group-size-per-virtual-pipeline-stage is 4; only the number of"},
           Case{"--num-experts 8", "run.args:8: --num-experts cannot be read: mixtures of experts"},
           Case{"--hidden-sise 12", "run.args:8: --hidden-sise is unknown; did you mean --hidden-size?"},
           Case{"--pipeline-model-parallel-size two", "run.args:8: --pipeline-model-parallel-size is 'two'"},
           Case{"--tp-comm-overlap\n--tensor-model-parallel-size 2", "needs --sequence-parallel"},
           Case{"--overlap-param-gather", "needs --overlap-grad-reduce"},
           Case{"--recompute-granularity selective\n--recompute-method uniform", "contradicts"},
           Case{"--recompute-granularity full", "--recompute-method is missing"},
           Case{"--recompute-granularity selective\n--recompute-modules mlp act",
                "run.args:9: --recompute-modules names the unknown module 'act'; expected core_attn, "
                "layernorm, "
                "mla_up_proj, mlp, moe, moe_act or shared_experts"},
           Case{"--recompute-activations\n--recompute-modules mlp,layernorm",
                "run.args:9: --recompute-modules names the unknown module 'mlp,layernorm'; expected"},
           Case{"--recompute-granularity selective\n--recompute-modules mla_up_proj",
                "run.args:9: --recompute-modules names mla_up_proj, which needs multi-latent attention"},
           Case{"--recompute-granularity selective\n--recompute-module mlp",
                "run.args:9: --recompute-module is unknown; did you mean --recompute-modules?"},
           Case{"--pipeline-model-parallel-size 2\n--pipeline-model-parallel-layout Et|t",
                "layout cannot be read"},
           Case{"--pipeline-model-parallel-size 2\n--pipeline-model-parallel-layout (((((", "is no layout"},
           Case{"--pipeline-model-parallel-size 2\n--pipeline-model-parallel-layout E(t*99999)*99999L",
                "is no layout"},
           Case{"--pipeline-model-parallel-size 8", "illegal plan"},
           Case{"--micro-batch-size 2147483647", "global_batch is"},
           Case{"--pipeline-model-parallel-size 2147483647", "8 ranks do not divide by tp=1 x pp=2147483647"},
           Case{"--num-layers 99999999999999999999", "give a whole number"},
           Case{"--position-embedding-type yarn", "is 'yarn', which is not modelled"},
       }) {
    const absl::Status status = StatusOfFlags(c.flags);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.flags;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  }
  EXPECT_THAT(std::string(StatusOfFlags("", 0).message()),
              HasSubstr("run.args: the file does not say how many ranks"));
}

// By its name, an unknown setting may change how the work is split.
TEST(PersonsFiles, RefusesUnknownSettingsOfSplitting) {
  const std::string says = " is unknown to autocfg, and by its name it may change how the work is split; ";
  for (const char* name : {"--ring-parallel-size 2",
                           "--standalone-embedding-stage",
                           "--zero-stage 1",
                           "--offload_weights",
                           "--some-overlap off on",
                           "--checkpoint-num-layers 1",
                           "--enable-zero-bubble",
                           "--zero-bubble-v-schedule",
                           "--schedules-method dualpipev",
                           "--enable-zb-runtime",
                           "--zero-mode 3",
                           "--dp-degree 4",
                           "--pp-size 2",
                           "--remat-policy full",
                           "--ring-attention",
                           "--swap-attention",
                           "--tp 2",
                           "--cp 2",
                           "--ep=4",
                           "--tp-2d",
                           "--noop-layers 0,47"}) {
    const std::string status(StatusOfFlags(name).message());
    EXPECT_THAT(status, testing::StartsWith("run.args:8: --")) << name;
    EXPECT_THAT(status, HasSubstr(says)) << name;
  }
  for (const char* name : {"--ring-parallel-size 1", "--pipeline-model-parallel-split-rank 0",
                           "--offload_weights False", "--save-interval 100", "--split 949,50,1", "--cp 1",
                           "--no-overlap-grad-reduce", "--ddp-bucket-size 1"}) {
    EXPECT_TRUE(StatusOfFlags(name).ok()) << StatusOfFlags(name);
  }
  EXPECT_THAT(std::string(StatusOfFlags("--position-embedding-type rope\n--use-rope-scaling\n"
                                        "--rotary-seq-len-interpolation-factor 2")
                              .message()),
              HasSubstr("--use-rope-scaling contradicts --rotary-seq-len-interpolation-factor of line 10"));
  EXPECT_THAT(std::string(StatusOfFlags("--overlap-grad-reduce --no-overlap-grad-reduce").message()),
              HasSubstr("--no-overlap-grad-reduce contradicts --overlap-grad-reduce of line 8"));
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  const auto status = [&](std::string_view framework, const std::string& name, const nlohmann::json& value) {
    const std::string text = SmallFile(framework, name, value);
    return std::string(ReadFrameworkFile(framework, "f", text, options).status().message());
  };
  EXPECT_THAT(status(kMegatron, "--context-parallel-size", 2), HasSubstr("context parallelism"));
  EXPECT_THAT(status(kNemo, "model.context_parallel_size", 2), HasSubstr("context parallelism"));
  EXPECT_THAT(status(kNemo, "model.pipeline_split", 2), HasSubstr("model.pipeline_split" + says));
  EXPECT_THAT(status(kNemo, "model.fsdp", true), HasSubstr("FSDP in NeMo is not modelled"));
  EXPECT_EQ(status(kNemo, "model.fsdp", false), "");
  EXPECT_THAT(status(kDeepSpeed, "zero_optimization.shard_twice", 2), HasSubstr("shard_twice" + says));
  EXPECT_THAT(status(kDeepSpeed, "elasticity.enabled", true), HasSubstr("known only when it starts"));
  EXPECT_THAT(status(kTorchtitan, "parallelism.ring", 2), HasSubstr("parallelism.ring" + says));
  EXPECT_THAT(status(kTorchtitan, "training.enable_cpu_offload", true), HasSubstr("states in host memory"));
  EXPECT_EQ(status(kTorchtitan, "parallelism.disable_loss_parallel", false), "");
}

// No option that a framework has is taken for a misspelling of another.
TEST(PersonsFiles, OptionsThatTheFrameworkHasAreNotMisspelt) {
  const nlohmann::json rules = test::RulesOf("megatron");
  for (const auto& [name, rule] : rules["options"].items()) {
    const std::string value = rule["kind"] == "flag" ? "" : " 1";
    EXPECT_THAT(std::string(StatusOfFlags(name + value).message()), Not(HasSubstr("did you mean"))) << name;
  }
}

TEST(PersonsFiles, SectionsOfDeepSpeedAreObjects) {
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  options.seq_len = 2048;
  const auto status = [&](const char* more) {
    const std::string text = absl::StrCat("{\"train_batch_size\": 64, ", more, "}");
    return std::string(ReadFrameworkFile(kDeepSpeed, "a.json", text, options).status().message());
  };
  EXPECT_EQ(status("\"bf16\": true"),
            "a.json:1: bf16 is no object; write {\"enabled\": true} or {\"enabled\": false}");
  EXPECT_THAT(status("\"fp16\": false"), HasSubstr("fp16 is no object"));
  EXPECT_THAT(status("\"zero_optimization\": true"), HasSubstr("write {\"stage\": 1}"));
  for (const char* stage : {"\"one\"", "4", "-1"}) {
    EXPECT_THAT(status(absl::StrCat("\"zero_optimization\": {\"stage\": ", stage, "}").c_str()),
                HasSubstr("a whole number"))
        << stage;
  }
  EXPECT_THAT(status("\"zero_optimization\": {\"stage\": 4}"), HasSubstr("from 0 to 3"));
  EXPECT_EQ(status("\"zero_optimization\": false, \"bf16\": {\"enabled\": true}"), "");
}

TEST(PersonsFiles, BadTextsAreOneLine) {
  std::string deep_yaml, deep_json = "{\"train_batch_size\": ", doubling = "A=xxxxxxxx\n";
  for (int i = 0; i < 200; ++i) deep_yaml += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  for (int i = 0; i < 200; ++i) deep_json += "[";
  for (int i = 0; i < 60; ++i) doubling += "A=\"$A$A\"\n";
  std::string deep_shell = "A=";
  for (int i = 0; i < 5000; ++i) deep_shell += "${A:-";
  struct Case {
    std::string_view framework;
    std::string text;
    const char* says;
  };
  for (const Case& c : {
           Case{kMegatron, "", "empty"},
           Case{kMegatron, std::string("--num\0", 6), "zero bytes"},
           Case{kNemo, "a: [1\nb: ]", "no YAML"},
           Case{kNemo, deep_yaml, "nested deeper"},
           Case{kNemo, "a: &x [*x, *x]\n", "anchors"},
           Case{kNemo, "model:\n  micro_batch_size: 1\n  micro_batch_size: 2\n",
                "f.txt:3: model.micro_batch_size is given twice"},
           Case{kNemo,
                "trainer: {devices: 1}\nmodel:\n  encoder_seq_length: ${.b}\n  b: ${.encoder_seq_length}\n",
                "leads back to itself"},
           Case{kNemo,
                "trainer: {devices: 2}\nmodel:\n  num_layers: 4\n  hidden_size: 256\n"
                "  num_attention_heads: 8\n  encoder_seq_length: 128\n  micro_batch_size: 1\n"
                "  override_vocab_size: 1024\n  virtual_pipeline_model_parallel_size: 2\n",
                "f.txt:9: model.virtual_pipeline_model_parallel_size is 2, and "
                "model.pipeline_model_parallel_size is 1"},
           Case{kTorchtitan, "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = \"8192\"\n",
                "f.txt:5: training.seq_len is the text \"8192\"; give a whole number, without quotes"},
           Case{kMegatron,
                "#!/usr/bin/env bash\n#SBATCH --job-name=autocfg-nemo\ncat >\"$plan\" <<'END_OF_PLAN'\n"
                "END_OF_PLAN\n",
                "no command of it starts a .py program with --micro-batch-size"},
           Case{kMegatron, "#!/bin/sh\n#SBATCH --nodes=2\ncat >\"$plan\" <<'END_OF_PLAN'\n--bf16\n",
                "f.txt:3: the file that the script holds does not end; add a line END_OF_PLAN"},
           Case{kNemo,
                "#!/bin/sh\n#SBATCH --nodes=2\ncat >\"$plan\" <<'END_OF_PLAN'\n--micro-batch-size "
                "1\nEND_OF_PLAN\n",
                "the batch script holds a file of megatron, not of nemo; leave --from out"},
           Case{kDeepSpeed, deep_json, "nested"},
           Case{kDeepSpeed, "[1]", "no JSON object"},
           Case{kTorchtitan, "[a\nb", "no TOML"},
           Case{kTorchtitan, "a = 1\na = 2\n", "f.txt:2"},
           Case{kMegatron, "echo hello\n", "no command of it starts"},
           Case{kMegatron, "x='a\n", "f.txt:1: a single quote does not end"},
           Case{kMegatron, "x=\"a\n", "f.txt:1: a double quote does not end"},
           Case{kMegatron, "x=(a\n", "'(' does not end"},
           Case{kMegatron, "x=$(a\n", "'$(' does not end"},
           Case{kMegatron, "x=${a\n", "'${' does not end"},
           Case{kMegatron, "cat <<END\na\n", "does not end"},
           Case{kMegatron, doubling, "expands to more than"},
           Case{kMegatron, deep_shell, "nested deeper"},
           Case{kMegatron, "python pretrain_bert.py --micro-batch-size 1\n", "trains no decoder"},
           Case{kMegatron, "python a.py --micro-batch-size 1\npython a.py --micro-batch-size 2\n",
                "f.txt:2: a second command trains, after that of line 1"},
       }) {
    const absl::Status status = ReadFrameworkFile(c.framework, "f.txt", c.text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.says << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    EXPECT_LT(status.message().size(), 400u);
  }
  const absl::Status large =
      ReadFrameworkFile(kNemo, "f.txt", std::string(kMostSettingsBytes + 1, 'a')).status();
  EXPECT_THAT(std::string(large.message()), HasSubstr("the limit is"));
}

}  // namespace
}  // namespace autocfg
