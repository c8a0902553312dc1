// Overrides of Megatron-Bridge: what is written for the cases of its own, and what people write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search/frameworks/changed_lines.h"
#include "search/frameworks/export_target.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"
#include "search/plan/plan_text.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ExportedRun BridgeRun(const std::string& plan, const std::string& model = "llama3-8b",
                      const std::string& precision = "bf16") {
  ExportedRun run;
  run.model = *ModelPreset(model);
  FillDefaults(run.model);
  run.workload = {.global_batch = 64, .seq_len = 1024, .precision = *ParsePrecision(precision)};
  run.plan = *ParsePlanText(plan);
  return run;
}

absl::StatusOr<ExportedFile> Written(const ExportedRun& run) {
  return Export(run, *FindExportTarget(kMegatronBridge));
}

std::string TextOfRun(const ExportedRun& run) {
  const auto file = Written(run);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->text : "";
}

std::string BridgeRefusal(const ExportedRun& run) { return std::string(Written(run).status().message()); }

TEST(BridgeFiles, SayTheWholeRunBehindARecipeWithoutAModel) {
  const std::string text =
      TextOfRun(BridgeRun("tp=2,pp=4,dp=1,mbs=1,sp=1,split=9+8+8+7,recompute=selective:mlp"));
  EXPECT_THAT(text, HasSubstr("scripts/training/run_recipe.py --recipe vanilla_gpt_pretrain_config --mode "
                              "pretrain --dataset mock $(grep -v '^#' bridge.overrides)\n"));
  for (const char* line :
       {"model.num_layers=32", "model.activation_func=silu", "model.gated_linear_unit=true",
        "model.tensor_model_parallel_size=2", "model.recompute_modules=[mlp]",
        "model.pipeline_model_parallel_layout='Et*9|t*8|t*8|t*7L'", "comm_overlap=null",
        "train.global_batch_size=64", "mixed_precision=bf16_mixed"})
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n", line, "\n")));
  EXPECT_THAT(text, HasSubstr("# translated: the split is model.pipeline_model_parallel_layout "));
}

TEST(BridgeFiles, HaveAPositionForEachToken) {
  EXPECT_THAT(TextOfRun(BridgeRun("dp=8", "gpt3-175b")),
              AllOf(HasSubstr("# translated: max_seq_len=2048 is 1024: it has a position for each token"),
                    HasSubstr("\nmodel.bias_activation_fusion=true\n")));
  EXPECT_THAT(TextOfRun(BridgeRun("dp=8")), Not(HasSubstr("max_seq_len")));
}

TEST(BridgeFiles, SayRecipesOfPrecisions) {
  for (const auto& [precision, recipe] : bridge::kPrecisions) {
    const std::string text = TextOfRun(BridgeRun("dp=8,zero=1", "llama3-8b", std::string(precision)));
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\nmixed_precision=", std::string(recipe), "\n")));
    const auto read = ReadFrameworkFile(kMegatronBridge, "a", text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(PrecisionText(read->workload.precision), PrecisionText(*ParsePrecision(precision)));
  }
}

TEST(BridgeFiles, WhatTheyCannotSayIsNamed) {
  const auto refused = [](const char* plan, const char* precision, const char* message) {
    EXPECT_THAT(BridgeRefusal(BridgeRun(plan, "llama3-8b", precision)),
                AllOf(HasSubstr("megatron-bridge cannot express "), HasSubstr(message)));
  };
  refused("dp=8", "fp32", "precision=fp32 (its recipes are bf16, fp16:grads=fp16, fp8,");
  refused("dp=8,zero=1", "bf16:grads=bf16", "precision=bf16:grads=bf16 (its recipes are");
  refused(
      "dp=8,attention=unfused", "bf16",
      "attention=unfused (no override chooses the kernel, and the default is fused); search with --engine "
      "megatron-bridge");
  refused("pp=4,dp=2,schedule=zb-h1", "bf16", "schedule=zb-h1 (it has 1f1b and interleaved)");
  refused("pp=2,dp=4,zero=3,grad_overlap=1,param_overlap=1", "bf16", "zero=3 with pp");
  refused("dp=8,recompute=selective:norm", "bf16",
          "recompute=selective:norm (it recomputes core_attn and mlp)");
  ExportedRun run = BridgeRun("dp=8");
  run.workload.optimizer.kind = OptimizerKind::kLion;
  EXPECT_THAT(BridgeRefusal(run), HasSubstr("optimizer=lion (the file has adamw)"));
}

// A pasted command: several overrides a line, lines that go on, fields that a recipe says.
TEST(BridgeFiles, OfPeopleNeedNoModel) {
  const std::string text =
      "# llama3_8b_pretrain_config\n"
      "model.tensor_model_parallel_size=2 +model.sequence_parallel=true \\\n"
      "  train.micro_batch_size=2 train.global_batch_size=64 \\\n"
      "  'dataset.seq_length=4096' ddp.use_distributed_optimizer=true\n";
  EXPECT_EQ(FrameworkOf(text), kMegatronBridge);
  ReadingOptions options{.ranks = 8};
  EXPECT_EQ(ReadFrameworkFile(kMegatronBridge, "a", text, options).status().message(),
            "a: the model is that of a recipe, which the overrides do not say; give --model");
  options.model = *ModelPreset("llama3-8b");
  const auto run = ReadFrameworkFile(kMegatronBridge, "a", text, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PlanText(run->plan), "tp=2,pp=1,dp=4,mbs=2,sp=1,zero=1");
  EXPECT_EQ(run->workload.seq_len, 4096);
  ParallelPlan plan = run->plan;
  plan.tp = 4;
  plan.dp = 2;
  plan.recompute = Recompute::kFull;
  const auto changed = ChangePlan(*run, plan, options);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("model.tensor_model_parallel_size=4 "),
                                   HasSubstr("model.recompute_granularity=full")));
}

// Its models fuse the cross-entropy unless a recipe says otherwise; an exported file says what was predicted.
TEST(BridgeFiles, SayWhichCrossEntropyTrains) {
  const auto engine = [](const std::string& more) {
    const std::string text =
        "train.micro_batch_size=2\ntrain.global_batch_size=64\ndataset.seq_length=4096\n";
    const ReadingOptions options{.model = *ModelPreset("llama3-8b"), .ranks = 8};
    const auto run = ReadFrameworkFile(kMegatronBridge, "a", text + more, options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->engine : "";
  };
  EXPECT_EQ(engine(""), "megatron-bridge:logit_bytes=8");
  EXPECT_EQ(engine("model.cross_entropy_fusion_impl=te\n"), "megatron-bridge:logit_bytes=0");
  EXPECT_EQ(engine("model.cross_entropy_loss_fusion=false\n"), "megatron-bridge");
  ExportedRun run = BridgeRun("dp=8");
  run.cluster.engine = *EngineNamed("megatron-bridge");
  EXPECT_THAT(TextOfRun(run), HasSubstr("\nmodel.cross_entropy_loss_fusion=false\n"));
  run.cluster.engine = *EngineNamed("megatron-bridge:logit_bytes=8");
  EXPECT_THAT(TextOfRun(run), HasSubstr("\nmodel.cross_entropy_loss_fusion=true\n"));
}

TEST(BridgeFiles, WhatIsWrongIsNamed) {
  const auto message = [](const std::string& name, const std::string& value) {
    ReadingOptions options{.ranks = 8};
    return std::string(
        ReadFrameworkFile(kMegatronBridge, "a", SmallFile(kMegatronBridge, name, value), options)
            .status()
            .message());
  };
  EXPECT_THAT(message("model.num_moe_experts", "8"), HasSubstr("a:7: model.num_moe_experts cannot be read"));
  EXPECT_THAT(message("model.activation_func", "tanh"), HasSubstr("a:7: model.activation_func is 'tanh'"));
  EXPECT_THAT(message("mixed_precision", "bf16_with_fp8_current_scaling_mixed"),
              HasSubstr("is 'bf16_with_fp8_current_scaling_mixed', which is not modelled; give bf16_mixed"));
  EXPECT_THAT(message("model.recompute_granularity", "none_of_it"), HasSubstr("give full or selective"));
  EXPECT_THAT(message("model.virtual_pipeline_model_parallel_size", "2"),
              HasSubstr("only a pipeline has virtual stages"));
  EXPECT_THAT(
      message("ddp.use_megatron_fsdp", "true"),
      HasSubstr("shards by 'no_shard', which is not modelled; give ddp.data_parallel_sharding_strategy="));
  EXPECT_THAT(message("model.tensor_model_parallel_size", "$TP"),
              HasSubstr("a:7: model.tensor_model_parallel_size has no value that can be known: its value is "
                        "a variable of a "
                        "shell; write the value"));
  EXPECT_THAT(message("peft.dim", "8"), HasSubstr("adapters (LoRA, PEFT) are not modelled"));
  EXPECT_THAT(message("comm_overlap.tp_comm_overlap", "true"), HasSubstr("by its name it may change"));
}

}  // namespace
}  // namespace autocfg
