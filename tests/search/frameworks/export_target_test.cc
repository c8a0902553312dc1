// Exported files as a person reads them: evidence, translations, refusals, launch.
#include "search/frameworks/export_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

ExportedRun RunWith(const std::string& plan, const std::string& model = "llama3-8b") {
  ExportedRun run;
  run.model = *ModelPreset(model);
  FillDefaults(run.model);
  run.cluster.name = "h100-sxm:8x8";
  run.cluster.groups = {NodeGroup{.nodes = 8, .gpus_per_node = 8}};
  run.workload = {.global_batch = 64, .seq_len = 4096, .precision = *ParsePrecision("bf16")};
  run.plan = *ParsePlanText(plan);
  return run;
}

std::string FileFor(const std::string& target, const ExportedRun& run) {
  const auto file = Export(run, *FindExportTarget(target));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->text : "";
}

std::string RefusalOf(const std::string& target, const std::string& plan) {
  const auto file = Export(RunWith(plan), *FindExportTarget(target));
  EXPECT_TRUE(absl::IsFailedPrecondition(file.status())) << file.status();
  return std::string(file.status().message());
}

TEST(Export, TheHeaderCarriesTheEvidence) {
  ExportedRun run = RunWith("tp=2,pp=1,dp=8,mbs=2,sp=1,zero=1");
  run.evidence = {.measured = true,
                  .step_time_s = 2,
                  .low_s = 1.9,
                  .high_s = 2.1,
                  .engine = "autocfg",
                  .device = "NVIDIA H100",
                  .build = "0.1.0+abc",
                  .memory_bytes = std::int64_t{60} << 30,
                  .capacity_bytes = std::int64_t{80} << 30,
                  .runner_up = "tp=4,pp=1,dp=4,mbs=2",
                  .runner_up_step_time_s = 2.1,
                  .study = "studies/3"};
  run.tokens = 64.0 * 4096 * 86400 * 2;  // at half a step a second
  const std::string text = FileFor("megatron", run);
  EXPECT_THAT(text, HasSubstr("# plan: tp=2,pp=1,dp=8,mbs=2,sp=1,zero=1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("# model: llama3-8b, 8,030,261,248 parameters; 64 sequences of 4096 tokens a step, bf16\n"));
  EXPECT_THAT(text,
              HasSubstr("# step time: 2 s, measured (95% interval 1.9 s to 2.1 s), of the engine autocfg, on "
                        "NVIDIA H100, by autocfg 0.1.0+abc\n"));
  EXPECT_THAT(text, HasSubstr("# memory of the worst rank: 60.0 GiB of 80.0 GiB, 20.0 GiB free\n"));
  EXPECT_THAT(text, HasSubstr("# next best plan: tp=4,pp=1,dp=4,mbs=2, 5.0% slower\n"));
  EXPECT_THAT(text, HasSubstr("tokens: 4.0 days"));
  EXPECT_THAT(text, HasSubstr("# study: studies/3\n"));
  EXPECT_THAT(text, HasSubstr("\n--train-iters 172800\n"));
  run.evidence.measured = false;
  EXPECT_THAT(FileFor("torchtitan", RunWith("dp=8,zero=3,grad_overlap=1,param_overlap=1")),
              Not(HasSubstr("step time")))
      << "nothing is known of it";
}

TEST(Export, TheHeaderSaysThatTheTrialOfThePlanFailed) {
  ExportedRun run = RunWith("tp=2,pp=1,dp=8,mbs=2");
  run.evidence = {.step_time_s = 2, .study = "studies/3"};
  EXPECT_THAT(FileFor("megatron", run), Not(HasSubstr("trial")));
  run.evidence.trial = "studies/3/trials/1 failed: rank 0\n--load /evil";
  EXPECT_THAT(FileFor("megatron", run),
              HasSubstr("# trial: studies/3/trials/1 failed: rank 0 --load /evil\n"));
}

TEST(Export, WritesTheChunksOfRecomputedLayersThatWerePredicted) {
  ExportedRun run = RunWith("tp=2,pp=1,dp=4,mbs=1,recompute=full");
  EXPECT_THAT(FileFor("megatron", run), HasSubstr("\n--recompute-num-layers 1\n"));
  run.cluster.engine.recompute_chunk = 4;
  EXPECT_THAT(FileFor("megatron", run),
              HasSubstr("\n--recompute-method uniform\n--recompute-num-layers 4\n"));
  EXPECT_THAT(FileFor("nemo", run), HasSubstr("activations_checkpoint_num_layers: 4\n"));
  EXPECT_THAT(FileFor("megatron-bridge", run), HasSubstr("\nmodel.recompute_num_layers=4\n"));
}

TEST(Export, MegatronsSplitsAndRecomputation) {
  const std::string text =
      FileFor("megatron", RunWith("tp=2,pp=4,dp=1,mbs=1,sp=1,split=9+8+8+7,recompute=full:2"));
  EXPECT_THAT(text, HasSubstr("\n--pipeline-model-parallel-layout Et*9|t*8|t*8|t*7L\n"));
  EXPECT_THAT(text,
              HasSubstr("# translated: the split is --pipeline-model-parallel-layout Et*9|t*8|t*8|t*7L\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\n--recompute-granularity full\n--recompute-method block\n--recompute-num-layers 2\n"));
  EXPECT_THAT(text, HasSubstr("# env CUDA_DEVICE_MAX_CONNECTIONS=1\n"));
  EXPECT_THAT(text,
              HasSubstr("# start: torchrun --standalone --nproc-per-node 8 pretrain_gpt.py $(grep -v '^#' "
                        "megatron.args)\n"));
  const std::string even =
      FileFor("megatron", RunWith("pp=4,dp=2,mbs=1,vpp=2,schedule=interleaved,p2p_overlap=1"));
  EXPECT_THAT(even, AllOf(HasSubstr("\n--num-layers-per-virtual-pipeline-stage 4\n"),
                          Not(HasSubstr("--no-overlap-p2p-communication"))));
}

TEST(Export, MegatronsRecomputedModules) {
  const std::string mlp = FileFor("megatron", RunWith("tp=2,dp=4,sp=1,recompute=selective:mlp"));
  EXPECT_THAT(mlp, HasSubstr("\n--recompute-granularity selective\n--recompute-modules mlp\n"));
  EXPECT_THAT(mlp, HasSubstr("# translated: recompute=selective:mlp is --recompute-modules mlp; mlp computes "
                             "the norm and the second projection of the block again, "));
  EXPECT_THAT(FileFor("megatron", RunWith("dp=8,recompute=selective:core_attn+mlp,attention=unfused")),
              HasSubstr("\n--recompute-granularity selective\n--recompute-modules core_attn mlp\n"));
  EXPECT_THAT(
      FileFor("megatron", RunWith("dp=8,recompute=selective,attention=unfused")),
      AllOf(HasSubstr("\n--recompute-granularity selective\n"), Not(HasSubstr("--recompute-modules"))))
      << "the default";
  EXPECT_THAT(FileFor("nemo", RunWith("dp=8,recompute=selective,attention=unfused")),
              HasSubstr("  activations_checkpoint_granularity: selective\n"));
}

TEST(Export, RefusesPartsThatATargetDoesNotRecompute) {
  for (const char* parts : {"act", "norm", "mlp+norm", "act+norm"}) {
    EXPECT_THAT(RefusalOf("megatron", absl::StrCat("dp=8,recompute=selective:", parts)),
                HasSubstr(absl::StrCat("megatron cannot express recompute=selective:", parts,
                                       " (it recomputes core_attn and mlp); search with")));
  }
  EXPECT_THAT(RefusalOf("nemo", "dp=8,recompute=selective:core_attn+mlp,attention=unfused"),
              HasSubstr("nemo cannot express recompute=selective:core_attn+mlp (it recomputes core_attn); "));
  EXPECT_THAT(RefusalOf("nemo", "dp=8,recompute=selective:mlp"),
              HasSubstr("recompute=selective:mlp (it recomputes core_attn); "));
  EXPECT_THAT(
      RefusalOf("torchtitan", "dp=8,recompute=selective:mlp+norm,zero=3,grad_overlap=1,param_overlap=1"),
      HasSubstr("torchtitan cannot express recompute=selective:mlp+norm (its selective mode chooses ops "
                "or layers); "));
  EXPECT_THAT(RefusalOf("deepspeed", "dp=8,recompute=selective:act"),
              HasSubstr("deepspeed cannot express recompute=selective:act; "));
  EXPECT_THAT(RefusalOf("deepspeed", "dp=8,recompute=full:3"), HasSubstr("recompute=full:3; "));
}

TEST(Export, SeveralNodesAreStartedByRank) {
  EXPECT_THAT(
      FileFor("megatron", RunWith("tp=8,dp=8,sp=1")),
      HasSubstr("# start: torchrun --nnodes 8 --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\""));
}

// All reasons at once, each by name.
TEST(Export, RefusesWhatATargetCannotExpress) {
  EXPECT_EQ(
      RefusalOf("megatron", "tp=2,pp=4,schedule=zb-h1,tp_overlap=4,p2p_overlap=1"),
      "megatron cannot express schedule=zb-h1 (it has 1f1b and interleaved); tp_overlap=4 without sp=1; "
      "p2p_overlap=1 without interleaving; search with --engine megatron (and --predict-only, unless a "
      "worker runs it) for "
      "a plan that it can, or export to another target");
  EXPECT_THAT(RefusalOf("deepspeed", "pp=4,vpp=2,schedule=interleaved"),
              HasSubstr("schedule=interleaved (it has 1f1b)"));
  EXPECT_THAT(RefusalOf("torchtitan", "dp=8,zero=1"), HasSubstr("zero=1"));
  EXPECT_THAT(RefusalOf("nemo", "dp=8,zero=3,grad_overlap=1,param_overlap=1"), HasSubstr("zero=3"));
  const auto other = Export(RunWith("dp=8,zero=3,grad_overlap=1,param_overlap=1", "gpt2-124m"),
                            *FindExportTarget("torchtitan"));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("model=gpt2-124m"));
}

// No plan helps where the target lacks the model or the precision.
TEST(Export, ARefusalAdvisesWhatHelps) {
  const auto refusal = [](const char* target, const char* precision, const std::string& plan,
                          const std::string& name = "llama3-8b") {
    ExportedRun run = RunWith(plan, name.empty() ? "gpt2-124m" : name);
    run.model.name = name;
    run.workload.precision = *ParsePrecision(precision);
    return std::string(Export(run, *FindExportTarget(target)).status().message());
  };
  EXPECT_EQ(
      refusal("megatron", "fp8", "tp=2,sp=1"),
      "megatron cannot express precision=fp8 (it has fp32, bf16 and fp16); search with a precision that "
      "it has, or export to another target");
  EXPECT_THAT(refusal("megatron", "fp8", "tp=2,tp_overlap=4"),
              HasSubstr("search with --engine megatron and a precision that it has (and --predict-only"));
  const std::string sharded = "dp=8,zero=3,grad_overlap=1,param_overlap=1";
  for (const std::string& plan : {sharded, std::string("dp=8,zero=1")}) {
    EXPECT_THAT(refusal("torchtitan", "fp16", plan, ""),
                AllOf(HasSubstr("model=unnamed (its files"), EndsWith("; export to another target"),
                      Not(HasSubstr("search with"))));
  }
}

TEST(Export, RefusesASplitWithoutLayers) {
  const auto file = Export(RunWith("pp=4,split=auto"), *FindExportTarget("megatron"));
  EXPECT_TRUE(absl::IsInvalidArgument(file.status()));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("split=auto names no layers"));
}

TEST(Export, AnEmulatedStepIsNamedSo) {
  ExportedRun run = RunWith("tp=2,sp=1");
  run.evidence = {.measured = true, .emulated = true, .step_time_s = 2};
  EXPECT_THAT(FileFor("megatron", run), HasSubstr("# step time: 2 s, emulated\n"));
}

TEST(Export, NoScriptStartsWhatStaysOnOneMachine) {
  const auto script = ExportSlurmScript(RunWith("tp=2,sp=1"), *FindExportTarget("autocfg"));
  EXPECT_TRUE(absl::IsInvalidArgument(script.status())) << script.status();
}

TEST(Export, AScriptSaysWhatWasTranslated) {
  const auto script = ExportSlurmScript(RunWith("pp=4,dp=2"), *FindExportTarget("deepspeed"));
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(script->text, HasSubstr("# translated: pp=4 is for your script"));
  EXPECT_EQ(script->evidence, "");
}

TEST(Export, RefusesAnIllegalPlan) {
  EXPECT_TRUE(absl::IsInvalidArgument(Export(RunWith("tp=3"), *FindExportTarget("megatron")).status()));
}

TEST(Export, DeepSpeedsEvidenceStandsBesideTheFile) {
  const auto file = Export(RunWith("dp=8,zero=3,grad_overlap=1"), *FindExportTarget("deepspeed"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->evidence, AllOf(HasSubstr("plan: tp=1,pp=1,dp=8"), HasSubstr("deepspeed.json"),
                                    HasSubstr("are your script's")));
  EXPECT_THAT(file->text, Not(HasSubstr("plan:")));
}

TEST(Export, ASlurmScriptHoldsTheFileAndStartsIt) {
  const auto script = ExportSlurmScript(RunWith("tp=8,dp=8,sp=1"), *FindExportTarget("megatron"));
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(script->text, HasSubstr("#SBATCH --nodes=8\n"));
  EXPECT_THAT(script->text, HasSubstr("#SBATCH --gpus-per-node=8\n"));
  EXPECT_THAT(script->text, HasSubstr("\n--tensor-model-parallel-size 8\n"));
  EXPECT_THAT(script->text, HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=1\n"));
  EXPECT_THAT(script->text,
              HasSubstr("srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=$SLURM_NODEID; torchrun"));
}

TEST(Export, EveryTargetHasANameAndAVersion) {
  for (const ExportTarget& target : ExportTargets()) {
    EXPECT_EQ(FindExportTarget(target.name), &target);
    EXPECT_EQ(target.version.empty(), target.name == "autocfg");
  }
  EXPECT_EQ(FindExportTarget("megatorn"), nullptr);
}

}  // namespace
}  // namespace autocfg
