// What the exporters write, the readers read: equal model, workload and plan, for random runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "search/frameworks/changed_lines.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/export_target.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/framework_rules.h"
#include "search/frameworks/launch.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/random_runs.h"
#include "tests/search/frameworks/target_rules.h"

namespace autocfg {
namespace {

constexpr int kDrawnRuns = 10'000;

ReadingOptions OptionsFor(const std::string& framework, const ExportedRun& run) {
  ReadingOptions options;
  if (framework == kDeepSpeed) {
    options.model = run.model;
    options.seq_len = run.workload.seq_len;
  }
  return options;
}

// What the file of a framework leaves open.
ParallelPlan Readable(const std::string& framework, ParallelPlan plan) {
  if (plan.tp_overlap > 1) plan.tp_overlap = kChunksOfSwitch;
  if (framework == kDeepSpeed) {
    plan.attention = Attention::kFused;
    if (plan.pp == 1) plan.recompute = Recompute::kNone;
  }
  return Canonical(plan);
}

std::string LineOf(const std::string& text, std::int64_t line) {
  std::istringstream lines(text);
  std::string found;
  for (std::int64_t i = 0; i < line; ++i) std::getline(lines, found);
  return found;
}

std::string LastNameOf(const std::string& name) { return name.substr(name.rfind('.') + 1); }

class RoundTrip : public testing::TestWithParam<std::string> {};

TEST_P(RoundTrip, GivesTheSameRun) {
  const std::string& framework = GetParam();
  const ExportTarget* target = FindExportTarget(framework);
  ASSERT_NE(target, nullptr);
  test::RandomRuns runs(21);
  int files = 0;
  for (int i = 0; i < kDrawnRuns && !HasFailure(); ++i) {
    const ExportedRun run = runs.Next();
    const auto file = Export(run, *target);
    if (!file.ok()) continue;
    ++files;
    SCOPED_TRACE(PlanText(run.plan) + "\n" + file->text);
    EXPECT_EQ(FrameworkOf(file->text), framework);
    const auto read = ReadFrameworkFile(framework, "run.txt", file->text, OptionsFor(framework, run));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->workload, run.workload);
    EXPECT_EQ(read->ranks, RankCount(run.plan));
    EXPECT_EQ(PlanText(read->plan), PlanText(Readable(framework, run.plan)));
    EXPECT_EQ(read->plan, Readable(framework, run.plan));
    ModelSpec model = run.model;
    model.name = read->model.name;
    model.max_seq_len = std::max(model.max_seq_len, run.workload.seq_len);
    // The file has the vocabulary with its padding.
    if (framework == kNemo || framework == kMegatronBridge) model.vocab = PaddedVocab(model, run.plan.tp);
    if (framework == kMegatronBridge) model.max_seq_len = run.workload.seq_len;
    // An activation that the core has in one form with biases, in another without.
    EXPECT_EQ(ModelJson(read->model).dump(), ModelJson(model).dump());
  }
  EXPECT_GE(files, 100) << "too few plans can be exported for the test to show much";
}

// The batch script that starts it gives the same run as the file, and its lines are changed alike.
TEST_P(RoundTrip, OfABatchScriptGivesTheSameRun) {
  const std::string& framework = GetParam();
  const ExportTarget* target = FindExportTarget(framework);
  test::RandomRuns runs(23);
  int files = 0, changed = 0;
  for (int i = 0; i < 20'000 && files < 60 && !HasFailure(); ++i) {
    const ExportedRun run = runs.Next();
    const auto file = Export(run, *target);
    const auto script = ExportSlurmScript(run, *target);
    if (!file.ok() || !script.ok()) continue;
    ++files;
    SCOPED_TRACE(PlanText(run.plan) + "\n" + script->text);
    EXPECT_EQ(FrameworkOf(script->text), framework);
    const ReadingOptions options = OptionsFor(framework, run);
    const auto read = ReadFrameworkFile(framework, "run.sbatch", script->text, options);
    const auto plain = ReadFrameworkFile(framework, "run.txt", file->text, options);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(read->plan, plain->plan);
    EXPECT_EQ(read->workload, plain->workload);
    EXPECT_EQ(read->model, plain->model);
    EXPECT_EQ(read->ranks, plain->ranks);
    EXPECT_EQ(read->ranks_per_node, LayoutOf(run).ranks_per_node);
    EXPECT_EQ(read->settings.text, script->text);
    for (const IgnoredSetting& setting : read->ignored)
      EXPECT_THAT(LineOf(script->text, setting.line), testing::HasSubstr(LastNameOf(setting.name)));
    ParallelPlan other = run.plan;
    other.recompute = other.recompute == Recompute::kFull ? Recompute::kNone : Recompute::kFull;
    other.recompute_layers = 0;
    if (framework == kDeepSpeed || !CheckLegal({run.model, run.workload, other}, read->ranks).ok()) continue;
    const auto change = ChangePlan(*read, other, options);
    if (!change.ok()) continue;
    ++changed;
    EXPECT_FALSE(change->lines.empty());
    EXPECT_TRUE(change->text.ends_with("'\n")) << "what follows the file stays";
  }
  EXPECT_GE(files, 60);
  EXPECT_TRUE(framework == kDeepSpeed || changed >= 20) << changed;
}

TEST(RoundTripScalings, OnlyThoseOfTheFrameworkAreWritten) {
  test::RandomRuns runs(25);
  ExportedRun run = runs.Next();
  run.model = *ModelPreset("llama3-8b");
  FillDefaults(run.model);
  run.plan = *ParsePlanText("tp=1,pp=1,dp=8,mbs=1");
  run.workload = {.global_batch = 8, .seq_len = 1024, .precision = *ParsePrecision("bf16")};
  const auto exported = [&](const char* framework, RopeScaling scaling,
                            const RopeScalingParameters& parameters) {
    run.model.rope_scaling = scaling;
    run.model.rope_scaling_parameters = parameters;
    return Export(run, *FindExportTarget(framework));
  };
  using testing::HasSubstr;
  const auto goes_through = [&](const char* framework, RopeScaling scaling,
                                const RopeScalingParameters& parameters) {
    const auto file = exported(framework, scaling, parameters);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto read = ReadFrameworkFile(framework, "run.txt", file->text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->model.rope_scaling, scaling) << file->text;
    EXPECT_EQ(read->model.rope_scaling_parameters, parameters);
  };
  goes_through("megatron", RopeScaling::kLlama3, Llama3Scaling(8));
  goes_through("megatron", RopeScaling::kLlama3, Llama3Scaling(32));
  goes_through("megatron", RopeScaling::kLinear, {.factor = 4});
  goes_through("megatron-bridge", RopeScaling::kLlama3, Llama3Scaling(32));
  goes_through("megatron-bridge", RopeScaling::kLinear, {.factor = 2.5});
  goes_through("nemo", RopeScaling::kLinear, {.factor = 2.5});
  // A name alone leaves the factor to the framework.
  const auto named = exported("megatron", RopeScaling::kLlama3, {});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->text, HasSubstr("--use-rope-scaling\n"));
  EXPECT_THAT(named->text, testing::Not(HasSubstr("--rope-scaling-factor")));
  EXPECT_EQ(ReadFrameworkFile("megatron", "run.txt", named->text)->model.rope_scaling_parameters,
            Llama3Scaling(8));
  run.plan = *ParsePlanText("tp=1,pp=1,dp=8,mbs=1,zero=3,grad_overlap=1,param_overlap=1");
  const auto same = exported("torchtitan", RopeScaling::kLlama3, Llama3Scaling(8));
  EXPECT_TRUE(same.ok()) << same.status();

  const auto refused = [&](const char* framework, RopeScaling scaling,
                           const RopeScalingParameters& parameters) {
    return std::string(exported(framework, scaling, parameters).status().message());
  };
  for (const char* framework : {"megatron", "megatron-bridge", "nemo", "torchtitan"}) {
    EXPECT_THAT(refused(framework, RopeScaling::kYarn, {.factor = 2}), HasSubstr("rope_scaling=yarn"));
    EXPECT_THAT(refused(framework, RopeScaling::kLinear, {}), HasSubstr("rope_scaling=linear"));
  }
  EXPECT_THAT(refused("megatron", RopeScaling::kLinear, {.factor = 2.5}), HasSubstr("rope_scaling=linear"));
  RopeScalingParameters other = Llama3Scaling(8);
  other.high_freq_factor = 5;
  EXPECT_THAT(
      refused("megatron", RopeScaling::kLlama3, other),
      HasSubstr("rope_scaling=llama3 (it has llama3, with the parameters of Llama 3.1 but for the factor,"));
  EXPECT_THAT(refused("torchtitan", RopeScaling::kLlama3, Llama3Scaling(32)),
              HasSubstr("rope_scaling=llama3"));
  EXPECT_THAT(refused("nemo", RopeScaling::kLlama3, Llama3Scaling(8)), HasSubstr("rope_scaling=llama3"));
}

TEST(RoundTripScripts, NodesMustBeThoseOfTheFile) {
  test::RandomRuns runs(24);
  ExportedRun run = runs.Next();
  run.plan = *ParsePlanText("tp=1,pp=1,dp=16,mbs=1");
  run.workload.global_batch = 16;
  run.workload.precision = *ParsePrecision("bf16");
  run.ranks_per_node = 8;
  const auto script = ExportSlurmScript(run, *FindExportTarget("megatron"));
  ASSERT_TRUE(script.ok()) << script.status();
  const std::string nodes = "#SBATCH --nodes=2\n";
  std::string text = script->text;
  ASSERT_NE(text.find(nodes), std::string::npos);
  text.replace(text.find(nodes), nodes.size(), "#SBATCH --nodes=4\n");
  const auto read = ReadFrameworkFile("megatron", "run.sbatch", text);
  EXPECT_THAT(
      std::string(read.status().message()),
      testing::HasSubstr("#SBATCH has 4 nodes of 8 GPUs, and the file that the script holds trains on 16"));
}

// The changed lines turn the file of one plan into that of another.
TEST_P(RoundTrip, ChangesOneFileIntoAnother) {
  const std::string& framework = GetParam();
  const ExportTarget* target = FindExportTarget(framework);
  test::RandomRuns runs(22);
  int changed = 0, refused = 0;
  for (int i = 0; i < 60'000 && changed + refused < 60 && !HasFailure(); ++i) {
    const ExportedRun run = runs.Next();
    ExportedRun other = runs.Next();
    other.model = run.model;
    other.workload = run.workload;
    if (!CheckLegal({run.model, run.workload, other.plan}, RankCount(run.plan)).ok() ||
        RankCount(other.plan) != RankCount(run.plan))
      continue;
    other.plan = Canonical(other.plan);
    const auto file = Export(run, *target);
    if (!file.ok() || !Export(other, *target).ok()) continue;
    SCOPED_TRACE(PlanText(run.plan) + " -> " + PlanText(other.plan) + "\n" + file->text);
    const ReadingOptions options = OptionsFor(framework, run);
    const auto read = ReadFrameworkFile(framework, "run.txt", file->text, options);
    ASSERT_TRUE(read.ok()) << read.status();
    const auto change = ChangePlan(*read, other.plan, options);
    if (!change.ok()) {
      EXPECT_EQ(change.status().code(), absl::StatusCode::kFailedPrecondition) << change.status();
      ++refused;
      continue;
    }
    ++changed;
    EXPECT_EQ(change->lines.empty(), change->text == file->text);
  }
  EXPECT_GE(changed, 5);
  EXPECT_LE(refused, changed / 2) << "most files can be changed line by line";
}

// A preset that is exported has its name again, though files leave out or round what costs nothing.
TEST(RoundTripNames, PresetsAreNamed) {
  for (const std::string framework : {"megatron", "nemo"}) {
    int named = 0;
    for (const std::string& name : ModelPresetNames()) {
      SCOPED_TRACE(fmt::format("{} {}", framework, name));
      const std::string own_name = name == "mt-nlg-530b" ? "megatron-530b" : name;  // one model of two papers
      ExportedRun run;
      run.model = *ModelPreset(name);
      FillDefaults(run.model);
      run.workload.seq_len = std::min<std::int64_t>(run.model.max_seq_len, 2048);
      run.workload.global_batch = 16;
      run.workload.precision = *ParsePrecision("bf16");
      run.plan =
          *ParsePlanText(run.model.heads % 8 == 0 ? "tp=8,pp=1,dp=2,mbs=1,sp=1" : "tp=1,pp=1,dp=16,mbs=1");
      run.ranks_per_node = 8;
      const auto file = Export(run, *FindExportTarget(framework));
      // Models with parts that the framework lacks: norms on outputs, windows.
      if (name.starts_with("gemma3") || name.starts_with("olmo") ||
          (framework == "nemo" && name == "mistral-7b")) {
        EXPECT_TRUE(absl::IsFailedPrecondition(file.status())) << file.status();
        continue;
      }
      ASSERT_TRUE(file.ok()) << file.status();
      const auto read = ReadFrameworkFile(framework, "run.txt", file->text);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->model.name, own_name);
      ++named;
      // As people write it: other seeds of the weights, and positions that turn more slowly.
      const std::string_view end =
          framework == "megatron" ? "\n--init-method-std 0.011\n--norm-epsilon 1e-7\n" : "";
      const auto again = ReadFrameworkFile(framework, "run.txt", file->text + std::string(end));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->model.name, own_name);
    }
    EXPECT_GE(named, 20);
  }
}

// Another shape has no preset's name.
TEST(RoundTripNames, AnotherShapeIsUnnamed) {
  ExportedRun run;
  run.model = *ModelPreset("llama3-8b");
  run.workload.seq_len = 2048;
  run.workload.global_batch = 16;
  run.workload.precision = *ParsePrecision("bf16");
  run.plan = *ParsePlanText("tp=1,pp=1,dp=16,mbs=1");
  for (const auto change :
       {+[](ModelSpec& model) { --model.layers; }, +[](ModelSpec& model) { model.vocab += 1; },
        +[](ModelSpec& model) { model.tied_embeddings = true; },
        +[](ModelSpec& model) { model.qkv_bias = true; },
        +[](ModelSpec& model) { model.norm = Norm::kLayerNorm; },
        +[](ModelSpec& model) { model.activation = Activation::kGeluErf; },
        +[](ModelSpec& model) { model.kv_heads = model.heads; }}) {
    ExportedRun other = run;
    change(other.model);
    FillDefaults(other.model);
    const auto file = Export(other, *FindExportTarget("megatron"));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto read = ReadFrameworkFile("megatron", "run.txt", file->text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->model.name, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RoundTrip, testing::ValuesIn(test::ExportedFrameworks()),
                         [](const auto& info) { return test::TestNameOf(info.param); });

}  // namespace
}  // namespace autocfg
