// Files as people write them (files/), and what is refused in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/plan_text.h"
#include "search/reading/batch_script.h"
#include "search/reading/changed_lines.h"
#include "search/reading/framework_file.h"
#include "search/reading/said_options.h"
#include "search/reading/settings_forms.h"
#include "search/reading/split_settings.h"
#include "search/text/model_json.h"
#include "tests/search/export/target_rules.h"
#include "tests/search/reading/small_files.h"
#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string FileNamed(const std::string& name) {
  std::ifstream file(SourcePath("tests/search/reading/files/" + name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

FrameworkRun ReadFile(std::string_view framework, const std::string& name,
                      const ReadingOptions& options = {}) {
  const std::string text = FileNamed(name);
  EXPECT_EQ(FrameworkOf(text), framework);
  auto run = ReadFrameworkFile(framework, name, text, options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : FrameworkRun();
}

TEST(PersonsFiles, AScriptWithArrays) {
  const FrameworkRun run = ReadFile(kMegatron, "arrays.txt");
  EXPECT_EQ(run.ranks, 32);
  EXPECT_EQ(run.model.name, "llama3-8b");
  EXPECT_EQ(run.model.vocab, 128256);
  EXPECT_EQ(run.workload.global_batch, 64);
  EXPECT_EQ(PlanText(run.plan), "tp=4,pp=2,dp=4,mbs=1,sp=1,zero=1,grad_overlap=1");
  EXPECT_THAT(run.notes,
              Contains(HasSubstr("settings that say nothing of model, batch or plan are left out")));
}

TEST(PersonsFiles, OneCommandWithOptionsInAText) {
  const FrameworkRun run = ReadFile(kMegatron, "one_command.txt");
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(run.model.vocab, 50257);
  EXPECT_EQ(run.model.ffn_hidden, 8192);
  EXPECT_EQ(PlanText(run.plan),
            "tp=2,pp=1,dp=8,mbs=4,recompute=full:6,zero=1,grad_overlap=1,param_overlap=1");
}

TEST(PersonsFiles, ASlurmScriptWithANestedShell) {
  const FrameworkRun run = ReadFile(kMegatron, "slurm.txt");
  EXPECT_EQ(run.ranks, 128);
  EXPECT_EQ(run.model.name, "llama2-70b");
  EXPECT_EQ(PlanText(run.plan),
            "tp=8,pp=4,dp=4,mbs=1,vpp=4,recompute=selective,attention=unfused,sp=1,zero=1,p2p_overlap=1");
}

TEST(PersonsFiles, YamlWithInterpolations) {
  const FrameworkRun run = ReadFile(kNemo, "config.yaml");
  EXPECT_EQ(run.ranks, 64);
  EXPECT_EQ(run.workload.seq_len, 4096);
  EXPECT_EQ(run.model.max_seq_len, 4096);
  EXPECT_EQ(PlanText(run.plan), "tp=4,pp=4,dp=4,mbs=1,vpp=5,sp=1,zero=1,grad_overlap=1,p2p_overlap=1");
}

TEST(PersonsFiles, JsonThatNamesNoModel) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  const FrameworkRun run = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(PlanText(run.plan), "tp=1,pp=1,dp=16,mbs=2,zero=3,grad_overlap=1,param_overlap=1");
  const auto without = ReadFrameworkFile(kDeepSpeed, "zero3.json", FileNamed("zero3.json"));
  EXPECT_EQ(without.status().message(), "zero3.json: the format says nothing of the model; give --model");
}

TEST(PersonsFiles, JsonWithNumbersOfOtherForms) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  const std::string begin = "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": ";
  const std::string end =
      ", \"gradient_accumulation_steps\": 4, \"zero_optimization\": {\"stage\": 3, "
      "\"stage3_prefetch_bucket_size\": ";
  for (const char* prefetch : {"5e7", "\"auto\"", "0"}) {
    const auto run =
        ReadFrameworkFile(kDeepSpeed, "ds.json", absl::StrCat(begin, "2", end, prefetch, "}}"), options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->plan.param_overlap, prefetch != std::string("0"));
  }
  // A batch that the other two sizes give may be chosen later.
  options.ranks = 8;
  const auto batch = ReadFrameworkFile(kDeepSpeed, "ds.json",
                                       "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": "
                                       "2, \"gradient_accumulation_steps\": 4}",
                                       options);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->workload.global_batch, 64);
  options.ranks = 0;
  const auto unknown = ReadFrameworkFile(kDeepSpeed, "ds.json", begin + "\"auto\"" + end + "0}}", options);
  EXPECT_EQ(
      unknown.status().message(),
      "ds.json:1: train_micro_batch_size_per_gpu is auto: the Trainer of Hugging Face fills it in; write "
      "its per_device_train_batch_size");
  const auto type = ReadFrameworkFile(
      kDeepSpeed, "ds.json", "{\"train_batch_size\": 8,\n \"bf16\": {\"enabled\": \"auto\"}}", options);
  EXPECT_EQ(
      type.status().message(),
      "ds.json:2: bf16.enabled is auto: the Trainer of Hugging Face fills it in; write true or false, as "
      "its bf16");
}

TEST(PersonsFiles, ChangedLinesAddASectionOfJson) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  const std::string text =
      "{\"bf16\": {\"enabled\": true},\n \"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2,\n"
      " \"gradient_accumulation_steps\": 2}\n";
  const auto run = ReadFrameworkFile(kDeepSpeed, "ds.json", text, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=1,dp=8,mbs=2");
  const auto changed =
      ChangePlan(*run, *ParsePlanText("tp=2,pp=1,dp=4,mbs=1,zero=2,grad_overlap=1"), options);
  ASSERT_TRUE(changed.ok()) << changed.status();
  const nlohmann::json json = nlohmann::json::parse(changed->text);
  EXPECT_EQ(json["zero_optimization"]["stage"], 2);
  EXPECT_EQ(json["tensor_parallel"]["autotp_size"], 2);
  EXPECT_EQ(json["gradient_accumulation_steps"], 8);
}

TEST(PersonsFiles, TomlWithTheRanksThatAreLeft) {
  ReadingOptions options;
  options.ranks = 16;
  const FrameworkRun run = ReadFile(kTorchtitan, "llama3.toml", options);
  EXPECT_EQ(run.model.name, "llama3-8b");
  EXPECT_EQ(run.workload.global_batch, 16);
  EXPECT_EQ(PlanText(run.plan),
            "tp=2,pp=1,dp=8,mbs=2,recompute=full,sp=1,zero=3,grad_overlap=1,param_overlap=1");
  const auto without = ReadFrameworkFile(kTorchtitan, "llama3.toml", FileNamed("llama3.toml"));
  EXPECT_THAT(without.status().message(), HasSubstr("give --ranks or --cluster"));
}

// A variable's line changes, not the one that uses it; what is new stands among the options.
TEST(PersonsFiles, ChangedLinesOfAScript) {
  const FrameworkRun run = ReadFile(kMegatron, "arrays.txt");
  const auto changed =
      ChangePlan(run, *ParsePlanText("tp=2,pp=2,dp=8,mbs=1,recompute=full,sp=1,zero=1,grad_overlap=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("\nTP=2\n"), HasSubstr("    --recompute-granularity full\n"),
                                   HasSubstr("    --tensor-model-parallel-size ${TP}\n")));
  bool said = false;
  for (const ChangedLine& line : changed->lines) {
    if (line.before != "TP=4") continue;
    said = true;
    EXPECT_EQ(line.line, 12);
    EXPECT_EQ(line.after, std::vector<std::string>{"TP=2"});
  }
  EXPECT_TRUE(said);
}

TEST(PersonsFiles, ChangedLinesOfAContinuedCommand) {
  const FrameworkRun run = ReadFile(kMegatron, "one_command.txt");
  const auto changed = ChangePlan(run, *ParsePlanText("tp=4,pp=1,dp=4,mbs=8,sp=1,zero=1,grad_overlap=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("--tensor-model-parallel-size=4 --micro-batch-size 8 "),
                                   Not(HasSubstr("--recompute")), Not(HasSubstr("--overlap-param-gather")),
                                   HasSubstr("--sequence-parallel"), Not(HasSubstr("\n  \\\n"))));
}

TEST(PersonsFiles, ChangedLinesOfOptionsInAVariable) {
  const FrameworkRun run = ReadFile(kMegatron, "slurm.txt");
  const auto changed = ChangePlan(
      run,
      *ParsePlanText("tp=4,pp=4,dp=8,mbs=1,vpp=10,sp=1,zero=1,grad_overlap=1,param_overlap=1,p2p_overlap=1"),
      {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text,
              AllOf(HasSubstr("    --tensor-model-parallel-size 4 \\\n"),
                    HasSubstr("    --num-layers-per-virtual-pipeline-stage 2 \\\n"),
                    HasSubstr("--overlap-grad-reduce --overlap-param-gather"),
                    HasSubstr("#SBATCH --nodes=16\n"), Not(HasSubstr("--recompute-activations"))));
  EXPECT_TRUE(changed->besides.empty());
}

// A flag at the end of a string is removed without the quote that ends the string.
TEST(PersonsFiles, ChangedLinesOfOptionsInAString) {
  for (const char* options : {"--sequence-parallel --recompute-granularity full --recompute-method uniform "
                              "--recompute-num-layers 1",
                              "--sequence-parallel --recompute-granularity=full --recompute-method=uniform "
                              "--recompute-num-layers=1"}) {
    const std::string text =
        "PAR=\"" + std::string(options) +
        "\"\ntorchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py \\\n"
        "  --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 "
        "--max-position-embeddings 4096 --vocab-size 32000 "
        "--tokenizer-type NullTokenizer --tensor-model-parallel-size 4 "
        "--pipeline-model-parallel-size 2 --use-distributed-optimizer \\\n"
        "  $PAR \\\n  --micro-batch-size 1 --global-batch-size 256 --bf16\n";
    const auto run = ReadFrameworkFile(kMegatron, "run.sh", text, {});
    ASSERT_TRUE(run.ok()) << run.status();
    ParallelPlan plan = run->plan;
    plan.recompute = {};
    const auto changed = ChangePlan(*run, plan, {});
    ASSERT_TRUE(changed.ok()) << changed.status();
    ASSERT_EQ(changed->lines.size(), 1u);
    EXPECT_EQ(changed->lines[0].line, 1);
    EXPECT_THAT(changed->text, AllOf(HasSubstr("PAR=\"--sequence-parallel"), Not(HasSubstr("--recompute"))));
  }
}

TEST(PersonsFiles, ChangedLinesSayWhatElseIsToBeDone) {
  const FrameworkRun run = ReadFile(kMegatron, "arrays.txt");
  const auto fsdp =
      ChangePlan(run, *ParsePlanText("tp=1,pp=1,dp=32,mbs=1,zero=3,grad_overlap=1,param_overlap=1"), {});
  ASSERT_TRUE(fsdp.ok()) << fsdp.status();
  EXPECT_THAT(fsdp->besides, Contains("do not set CUDA_DEVICE_MAX_CONNECTIONS"));
  // The script derives the global batch from what changes: it is written out.
  EXPECT_THAT(fsdp->text, HasSubstr("    --global-batch-size 64\n"));
  ReadingOptions options;
  options.ranks = 16;
  const FrameworkRun toml = ReadFile(kTorchtitan, "llama3.toml", options);
  const auto overlap = ChangePlan(
      toml, *ParsePlanText("tp=2,pp=1,dp=8,mbs=2,sp=1,zero=3,tp_overlap=2,grad_overlap=1,param_overlap=1"),
      options);
  ASSERT_TRUE(overlap.ok()) << overlap.status();
  EXPECT_THAT(overlap->besides, Contains(HasSubstr("enable_async_tensor_parallel")));
  EXPECT_THAT(overlap->text, HasSubstr("data_parallel_shard_degree = -1\n"));
}

TEST(PersonsFiles, ChangedLinesOfYaml) {
  const FrameworkRun run = ReadFile(kNemo, "config.yaml");
  const auto changed = ChangePlan(run, *ParsePlanText("tp=4,pp=2,dp=8,mbs=2,recompute=full,sp=1,zero=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text,
              AllOf(HasSubstr("  virtual_pipeline_model_parallel_size: null   # stages of a rank\n"),
                    HasSubstr("  activations_checkpoint_granularity: full\n"),
                    HasSubstr("overlap_grad_sync: false")));
}

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

std::map<std::string, std::string> Said(std::string_view text) {
  const auto said = ParseSaidOptions(text);
  EXPECT_TRUE(said.ok()) << said.status();
  return said.ok() ? *said : std::map<std::string, std::string>();
}

TEST(PersonsFiles, OptionsThatAFileLeavesOpenCanBeSaid) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  options.plan = Said("recompute=full");
  const FrameworkRun full = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_EQ(PlanText(full.plan),
            "tp=1,pp=1,dp=16,mbs=2,recompute=full,zero=3,grad_overlap=1,param_overlap=1");
  EXPECT_THAT(full.notes,
              Contains("attention is your script's: read as fused attention; autocfg import --plan "
                       "attention=unfused says otherwise"));
  options.plan = Said("recompute=selective, attention=unfused");
  const FrameworkRun both = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_THAT(PlanText(both.plan), HasSubstr("recompute=selective,attention=unfused"));
  EXPECT_THAT(both.notes, Not(Contains(HasSubstr("your script's"))));

  // What the file does not say, its lines cannot change.
  const auto changed = ChangePlan(
      both, *ParsePlanText("tp=1,pp=1,dp=16,mbs=1,attention=unfused,zero=3,grad_overlap=1,param_overlap=1"),
      options);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, HasSubstr("\"train_micro_batch_size_per_gpu\": 1"));
  EXPECT_THAT(changed->besides, Contains("in your script, recompute=none in place of recompute=selective"));
  const auto kept = ChangePlan(both,
                               *ParsePlanText("tp=1,pp=1,dp=16,mbs=1,recompute=selective,attention=unfused,"
                                              "zero=3,grad_overlap=1,param_overlap=1"),
                               options);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(kept->besides, Not(Contains(HasSubstr("recompute"))));

  options = {};
  options.ranks = 8;
  const auto read = [&](const std::string& flags, std::string_view said) {
    options.plan = Said(said);
    return ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
  };
  EXPECT_TRUE(IsUnfused(read("--attention-backend auto", "attention=unfused")->plan));
  EXPECT_EQ(read("--tensor-model-parallel-size 2\n--sequence-parallel\n--tp-comm-overlap", "tp_overlap=4")
                ->plan.tp_overlap,
            4);
  EXPECT_TRUE(read("", "tp=1,recompute=none").ok()) << "as the file says";
  EXPECT_EQ(read("--tensor-model-parallel-size 2", "tp=4").status().message(),
            "run.args:8: --tensor-model-parallel-size says tp=2, and --plan tp=4; change one of them");
  EXPECT_EQ(read("--attention-backend unfused", "attention=fused").status().message(),
            "run.args:8: --attention-backend says attention=unfused, and --plan attention=fused; change one "
            "of them");
  EXPECT_EQ(
      read("", "recompute=full").status().message(),
      "run.args: without a setting of it, the file says recompute=none, and --plan recompute=full; add the "
      "setting, or leave the option out of --plan");
  for (const char* wrong : {"recompute", "recompute=all", "recomput=full", "recompute=full,recompute=none"}) {
    const absl::Status status = ParseSaidOptions(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
  }
  EXPECT_TRUE(Said("").empty());
}

TEST(PersonsFiles, FilesThatAScriptNames) {
  const auto named = FilesNamedBy(
      "#!/bin/bash\n# old.toml\ntorchrun x.py $(grep -v '^#' runs/a.args) --c=${DIR}/b.toml \\\n"
      "  --d \"$HOME/c.json\" --e $X/c.json .json a.args\n  --f /etc/d.yaml --yaml-cfg");
  std::vector<std::string> shown;
  for (const NamedFile& file : named) shown.push_back(absl::StrCat(file.path, ":", file.line));
  EXPECT_THAT(shown,
              testing::ElementsAre("runs/a.args:3", "b.toml:3", "c.json:4", "a.args:4", "/etc/d.yaml:5"));
  EXPECT_TRUE(FilesNamedBy("").empty());
}

// By its name, an unknown setting may change how the work is split.
TEST(PersonsFiles, RefusesUnknownSettingsOfSplitting) {
  const std::string says = " is unknown to autocfg, and by its name it may change how the work is split; ";
  for (const char* name : {"--ring-parallel-size 2",
                           "--standalone-embedding-stage",
                           "--zero-stage 1",
                           "--enable-full-sharding-in-hsdp",
                           "--offload_weights",
                           "--some-overlap off on",
                           "--checkpoint-num-layers 1",
                           "--pipeline-model-parallel-split-rank 1",
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

// What is known to be harmless is left out, and each is of a word that would refuse it.
TEST(PersonsFiles, HarmlessSettingsAreLeftOut) {
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  for (const std::string_view framework : {kMegatron, kNemo, kDeepSpeed, kTorchtitan}) {
    EXPECT_GT(HarmlessSettings(framework).size(), 9u);
    for (const HarmlessSetting& harmless : HarmlessSettings(framework)) {
      const bool prefix = harmless.name.ends_with('*');
      std::string name(harmless.name.substr(0, harmless.name.size() - (prefix ? 1 : 0)));
      if (prefix) name += name.ends_with('.') || name.ends_with('_') ? "some_offload" : "some-offload";
      EXPECT_TRUE(SpeaksOfSplitting(name)) << name;
      const std::string section = name.substr(0, name.rfind('.'));
      if (framework == kNemo && section != "model" && section != "model.optim") continue;  // no small file
      const auto run = ReadFrameworkFile(framework, "f", SmallFile(framework, name, 7), options);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_THAT(run->ignored, Contains(testing::Field(&IgnoredSetting::name, name)));
      const auto note = HasSubstr(absl::StrCat(name, " ", std::string(harmless.why)));
      EXPECT_EQ(testing::Matches(Contains(note))(run->notes), harmless.noted) << name;
    }
  }
  EXPECT_TRUE(HarmlessSettings("jax").empty());
}

TEST(PersonsFiles, ListsWhatIsLeftOut) {
  ReadingOptions options;
  options.ranks = 8;
  const auto run = ReadFrameworkFile(kMegatron, "run.args", FlagsWith("--lr 1\n--bf16\n--seed 2"), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->ignored, testing::ElementsAre(IgnoredSetting{"--lr", 8}, IgnoredSetting{"--seed", 10}));
}

TEST(PersonsFiles, SaysWhichBatchAFileThatNamesNoneHas) {
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  for (const auto& [framework, words] :
       {std::pair(kMegatron, "--global-batch-size is missing: the framework then takes 8 sequences a step"),
        {kNemo, "model.global_batch_size is missing: the framework then takes 8 sequences a step"},
        {kTorchtitan, "training.global_batch_size is missing: the framework then takes 64 sequences"}}) {
    const auto run = ReadFrameworkFile(framework, "f", SmallFile(framework, "x", 1), options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_THAT(run->notes, Contains(HasSubstr(words)));
  }
}

TEST(PersonsFiles, CommentsOfAFlagFileAreNoValues) {
  ReadingOptions options;
  options.ranks = 4;
  const auto run =
      ReadFrameworkFile(kMegatron, "run.args", FlagsWith("--bf16  # half the memory\n\n# --fp16"), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Name(run->workload.precision), "bf16");
}

TEST(PersonsFiles, UnevenStages) {
  ReadingOptions options;
  options.ranks = 2;
  for (const char* flags :
       {"--decoder-first-pipeline-num-layers 1", "--pipeline-model-parallel-layout Et|t*3L",
        "--pipeline-model-parallel-layout Et|(t)*3,L"}) {
    const auto run = ReadFrameworkFile(
        kMegatron, "run.args", FlagsWith(std::string("--bf16\n--pipeline-model-parallel-size 2\n") + flags),
        options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(PlanText(run->plan), "tp=1,pp=2,dp=1,mbs=1,split=1+3");
  }
}

TEST(PersonsFiles, FusedAttentionTakesSixteenBits) {
  ReadingOptions options;
  options.ranks = 2;
  const auto read = [&](const std::string& flags) {
    return ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
  };
  for (const char* chosen : {"", "--attention-backend auto", "--attention-backend unfused"}) {
    const auto run = read(chosen);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(IsUnfused(run->plan)) << chosen;
  }
  EXPECT_EQ(read("--attention-backend flash").status().message(),
            "run.args:8: --attention-backend is flash, which takes 16 bits, and the run is in fp32; "
            "give unfused");
  for (const char* halves : {"--bf16", "--bf16\n--attention-backend flash", "--fp16"}) {
    const auto run = read(halves);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_FALSE(IsUnfused(run->plan)) << halves;
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
  EXPECT_EQ(status("\"zero_optimization\": false, \"bf16\": {\"enabled\": true}"), "");
}

TEST(PersonsFiles, NotesWhatCountsOtherwiseThanWritten) {
  ReadingOptions options;
  options.ranks = 8;
  const auto notes = [&](const std::string& flags) {
    const auto run = ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->notes : std::vector<std::string>();
  };
  EXPECT_THAT(
      notes("--global-batch-size 16\n--global-batch-size 32"),
      Contains("run.args:9: --global-batch-size is 32 in place of 16 of line 8: the last one counts"));
  EXPECT_THAT(notes("--global-batch-size 16\n--global-batch-size 16\n--lr 1\n--lr 2"),
              Not(Contains(HasSubstr("the last one counts"))));
  const std::string vanishes = "fused attention keeps no scores to recompute";
  EXPECT_THAT(notes("--bf16\n--recompute-activations"), Contains(HasSubstr(vanishes)));
  EXPECT_THAT(notes("--bf16\n--recompute-granularity selective"), Contains(HasSubstr(vanishes)));
  EXPECT_THAT(notes("--bf16\n--recompute-activations\n--attention-backend unfused"),
              Not(Contains(HasSubstr(vanishes))));
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

// What a file lacks is what the framework's release takes, which the rules hold: saying it changes nothing.
TEST(PersonsFiles, WhatAFileLacksIsTheFrameworksDefault) {
  for (const std::string_view framework : {kMegatron, kNemo, kDeepSpeed, kTorchtitan}) {
    ReadingOptions options;
    options.ranks = 8;
    if (framework == kDeepSpeed) options.model = *ModelPreset("llama3-8b");
    const nlohmann::json rules = test::RulesOf(std::string(framework));
    int defaults = 0;
    for (const auto& [name, rule] : rules["options"].items()) {
      if (!rule.contains("default") || name.starts_with("model.name") || name == "model.flavor") continue;
      ++defaults;
      SCOPED_TRACE(absl::StrCat(std::string(framework), " ", name));
      // A setting that says nothing, in the same section: a size of 1 splits nothing.
      const std::size_t dot = name.rfind('.');
      const std::string idle = dot == std::string::npos ? (name.starts_with("--") ? "--seed" : "seed")
                                                        : name.substr(0, dot) + ".idle_size";
      const auto without = ReadFrameworkFile(framework, "f", SmallFile(framework, idle, 1), options);
      const auto with =
          ReadFrameworkFile(framework, "f", SmallFile(framework, name, rule["default"]), options);
      ASSERT_TRUE(without.ok()) << without.status();
      ASSERT_TRUE(with.ok()) << with.status();
      EXPECT_EQ(PlanText(with->plan), PlanText(without->plan));
      EXPECT_EQ(with->workload, without->workload);
      EXPECT_EQ(with->model, without->model);
    }
    EXPECT_GE(defaults, 7) << framework;
  }
}

// No option that a framework has is taken for a misspelling of another.
TEST(PersonsFiles, OptionsThatTheFrameworkHasAreNotMisspelt) {
  const nlohmann::json rules = test::RulesOf("megatron");
  for (const auto& [name, rule] : rules["options"].items()) {
    const std::string value = rule["kind"] == "flag" ? "" : " 1";
    EXPECT_THAT(std::string(StatusOfFlags(name + value).message()), Not(HasSubstr("did you mean"))) << name;
  }
}

}  // namespace
}  // namespace autocfg
