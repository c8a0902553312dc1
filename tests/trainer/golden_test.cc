// Compares the engine with independent implementations (tests/golden/make_gpt2_golden.py,
// make_llama_golden.py, make_attention_golden.py, make_layer_golden.py, make_rope_golden.py,
// make_states_golden.py). From the same weights and data it must produce the same losses, norms and final
// weights, on one rank and with every split of the model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/support/build_paths.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/checkpoint/safetensors.h"

namespace autocfg::trainer {
namespace {

const std::string kGolden = SourcePath("tests/golden/");

nlohmann::json GoldenRun(const std::string& name) {
  std::ifstream in(kGolden + name + "_run.json");
  return nlohmann::json::parse(in);
}

TrainConfig GoldenConfig(const std::string& name, const nlohmann::json& golden) {
  const auto& model = golden.at("model");
  const auto& run = golden.at("run");
  TrainConfig c;
  const bool described = model.contains("vocab_multiple");  // by all fields of docs/formats.md
  if (described) c.model = *ParseModelText(model.dump());
  c.model.layers = model.at("layers");
  c.model.hidden = model.at("hidden");
  c.model.heads = model.at("heads");
  c.model.vocab = model.at("vocab");
  c.model.max_seq_len = model.at("max_seq_len");
  c.model.norm_eps = model.at("norm_eps");
  c.model.vocab_multiple = 8;
  if (name != "gpt2" && !described) {
    c.model.kv_heads = model.at("kv_heads");
    c.model.head_dim = model.at("head_dim");
    c.model.ffn_hidden = model.at("ffn_hidden");
    c.model.activation = Activation::kSwiGlu;
    c.model.norm = Norm::kRmsNorm;
    c.model.position = name == "alibi" ? Position::kAlibi : Position::kRope;
    c.model.rope_theta = model.value("rope_theta", c.model.rope_theta);
    c.model.attention_scale = model.value("attention_scale", 0.0);
    if (name == "full_norm") c.model.qk_norm = QkNorm::kFull;
    if (name == "qk_norm") {
      c.model.qk_norm = QkNorm::kHead;
      c.model.partial_rotary_factor =
          model.at("rotary_dims").get<double>() / model.at("head_dim").get<double>();
    }
    SetBiases(c.model, false);
    c.model.tied_embeddings = false;
  }
  FillDefaults(c.model);
  c.workload.global_batch = run.at("global_batch");
  c.workload.seq_len = run.at("seq_len");
  c.workload.precision = *ParsePrecision("fp64");
  c.adamw = {.beta1 = run.at("beta1"),
             .beta2 = run.at("beta2"),
             .eps = run.at("adam_eps"),
             .weight_decay = run.at("weight_decay")};
  EXPECT_EQ(run.at("lr_schedule"), "cosine");
  c.lr = {.lr = run.at("lr"),
          .min_lr = run.at("min_lr"),
          .decay = LrDecay::kCosine,
          .warmup_steps = run.at("warmup_steps"),
          .steps = run.at("steps")};
  c.clip_norm = run.at("clip_norm");
  c.data_path = kGolden + name + "_tokens.u16";
  c.init_path = kGolden + name + "_initial.safetensors";
  return c;
}

// Checks that both files have the same tensors, within 1e-9 of the largest element.
void ExpectSameWeights(const std::string& got_path, const std::string& want_path) {
  const SafetensorsFile got(got_path), want(want_path);
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const auto& [name, tensor] : want.tensors()) {
    ASSERT_TRUE(got.tensors().contains(name)) << name;
    ASSERT_EQ(got.tensors().at(name).shape, tensor.shape) << name;
    std::vector<double> a(static_cast<std::size_t>(ElementCount(tensor.shape))), b(a.size());
    got.Read(name, 0, a);
    want.Read(name, 0, b);
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      worst = std::max(worst, std::abs(a[i] - b[i]));
    }
    EXPECT_LE(worst, 1e-9 * largest) << name;
  }
}

// Trains and saves; all results must equal those of the golden run.
void ExpectGolden(const std::string& name, const ParallelPlan& plan) {
  SCOPED_TRACE(name + " tp=" + std::to_string(plan.tp) + " pp=" + std::to_string(plan.pp) +
               " dp=" + std::to_string(plan.dp) + " vs=" + std::to_string(plan.virtual_stages));
  const nlohmann::json golden = GoldenRun(name);
  TrainConfig c = GoldenConfig(name, golden);
  c.plan = plan;
  const TempDir directory;
  const std::string saved = directory.File("saved.safetensors");
  const test::TrainedRun outcome =
      test::RunAsThreads(c, test::World::kUcx, [&](RankTrainer& trainer) { trainer.Save(saved); });
  EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
  const std::vector<double> losses = golden.at("losses"), norms = golden.at("grad_norms");
  ASSERT_EQ(outcome.steps.size(), losses.size());
  for (std::size_t s = 0; s < losses.size(); ++s) {
    EXPECT_NEAR(outcome.steps[s].loss, losses[s], 1e-9 * losses[s]) << "step " << s;
    EXPECT_NEAR(outcome.steps[s].grad_norm, norms[s], 1e-9 * norms[s]) << "step " << s;
  }
  ExpectSameWeights(saved, kGolden + name + "_final.safetensors");
}

TEST(Golden, Gpt2OnOneRankMatchesReference) { ExpectGolden("gpt2", {}); }

TEST(Golden, Gpt2SplitOnEveryAxisMatchesReference) {
  ExpectGolden("gpt2", {{.tp = 3, .pp = 1, .dp = 2}, {.micro_batch = 2, .recompute = Recompute::kFull}});
  ExpectGolden("gpt2", {{.tp = 1, .pp = 2, .dp = 2}});
}

TEST(Golden, Gpt2WithUnfusedAttentionMatchesReference) {
  ExpectGolden("gpt2", {{}, {.attention = Attention::kUnfused}});
  ExpectGolden("gpt2",
               {{.tp = 3, .pp = 2}, {.recompute = Recompute::kSelective, .attention = Attention::kUnfused}});
}

TEST(Golden, LlamaOnOneRankMatchesReference) { ExpectGolden("llama", {}); }

TEST(Golden, SplitLlamaMatchesReference) {
  ExpectGolden("llama", {{.tp = 2}});
  ExpectGolden("llama", {{.pp = 2, .dp = 2}, {.micro_batch = 2}});
  ExpectGolden("llama", {{.tp = 2, .pp = 2}, {.recompute = Recompute::kFull}});
}

TEST(Golden, LlamaWithUnfusedAttentionMatchesReference) {
  ExpectGolden("llama", {{}, {.attention = Attention::kUnfused}});
  ExpectGolden("llama",
               {{.tp = 2, .pp = 2}, {.recompute = Recompute::kSelective, .attention = Attention::kUnfused}});
}

TEST(Golden, LlamaWithInterleavedStagesMatchesReference) {
  ExpectGolden("llama", {{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}});
  ExpectGolden("llama",
               {{.tp = 2, .pp = 2, .dp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}});
}

TEST(Golden, LlamaWithSplitBackwardsMatchesReference) {
  ExpectGolden("llama", {{.tp = 2, .pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}});
}

class GoldenVariant : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenVariant, MatchesReference) {
  ExpectGolden(GetParam(), {});
  ExpectGolden(GetParam(), {{.tp = 2, .dp = 2}, {.micro_batch = 2, .recompute = Recompute::kFull}});
  ExpectGolden(GetParam(),
               {{.tp = 2}, {.recompute = Recompute::kSelective, .attention = Attention::kUnfused}});
  ExpectGolden(GetParam(), {{.tp = 2, .pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}});
  ExpectGolden(GetParam(), {{.tp = 2, .dp = 2}, {}, {}, {}, {.zero_stage = 2}});
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenVariant,
                         ::testing::Values("qk_norm", "full_norm", "alibi", "granite", "smollm3", "olmo2",
                                           "gemma3", "gemma2", "kinds", "llama3_rope", "yarn", "longrope"),
                         [](const auto& info) { return std::string(info.param); });

// Returns the largest relative differences of a run's losses and gradient norms to those of a golden run.
struct Differences {
  double losses = 0, norms = 0;
};
Differences DifferencesTo(const nlohmann::json& golden, const test::TrainedRun& run) {
  const std::vector<double> losses = golden.at("losses"), norms = golden.at("grad_norms");
  Differences most;
  EXPECT_EQ(run.steps.size(), losses.size());
  for (std::size_t s = 0; s < std::min(run.steps.size(), losses.size()); ++s) {
    most.losses = std::max(most.losses, std::abs(run.steps[s].loss / losses[s] - 1));
    most.norms = std::max(most.norms, std::abs(run.steps[s].grad_norm / norms[s] - 1));
  }
  return most;
}

TrainConfig StatesConfig(const std::string& precision, const std::string& optimizer, double momentum) {
  TrainConfig c = GoldenConfig("gpt2", GoldenRun("gpt2"));
  c.workload.precision = *ParsePrecision(precision);
  EXPECT_TRUE(SetOptimizer(optimizer, momentum, c.workload).ok());
  c.plan.micro_batch = 2;
  return c;
}

TEST(GoldenStates, SgdMatchesReferenceUnderEveryPlan) {
  int compared = 0;
  const nlohmann::json states = GoldenRun("states");
  for (const nlohmann::json& golden : states.at("runs")) {
    if (golden.at("optimizer") != "sgd") continue;
    TrainConfig c = StatesConfig(golden.at("precision"), "sgd", golden.at("momentum"));
    for (const char* plan :
         {"tp=1,pp=1,dp=1,mbs=2", "tp=3,pp=1,dp=2,mbs=1,zero=1", "tp=1,pp=2,dp=2,mbs=1,zero=2",
          "tp=1,pp=2,dp=2,mbs=1,zero=3,schedule=gpipe", "tp=3,pp=2,dp=1,mbs=2,schedule=zb-h1"}) {
      SCOPED_TRACE(fmt::format("{} momentum={}", plan, c.workload.optimizer.momentum));
      c.plan = *ParsePlanText(plan);
      const Differences most = DifferencesTo(golden, test::RunAsThreads(c));
      EXPECT_LT(most.losses, 1e-9);
      EXPECT_LT(most.norms, 1e-9);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 10);
}

// A value that is rounded to bf16 changes by at most 2^-9 of its size. Gradients are rounded once for each of
// two microbatches, and that of the tied table twice, so a norm may differ by 2^-7 of it. The losses follow
// weights that such gradients move by a part of the learning rate.
TEST(GoldenStates, TypesMatchReference) {
  int compared = 0;
  const nlohmann::json states = GoldenRun("states");
  for (const nlohmann::json& golden : states.at("runs")) {
    if (golden.at("optimizer") != "adamw") continue;
    const std::string precision = golden.at("precision");
    SCOPED_TRACE(precision);
    const Differences most = DifferencesTo(golden, test::RunAsThreads(StatesConfig(precision, "adamw", 0)));
    EXPECT_LT(most.norms, 0x1p-7);
    EXPECT_LT(most.losses, 0x1p-9);
    const Differences wide = DifferencesTo(golden, test::RunAsThreads(StatesConfig("fp32", "adamw", 0)));
    EXPECT_LT(2 * most.losses, wide.losses) << "a run without the types is as near";
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

// In these runs, clipping is active in some steps but not in others, and the data wraps around.
TEST(Golden, RunsExerciseClippingAndWrapping) {
  for (const std::string name : {"gpt2", "llama", "qk_norm", "full_norm", "alibi", "granite", "smollm3",
                                 "olmo2", "gemma3", "gemma2", "kinds", "llama3_rope", "yarn", "longrope"}) {
    const nlohmann::json golden = GoldenRun(name);
    const std::vector<double> norms = golden.at("grad_norms");
    const double clip = golden.at("run").at("clip_norm");
    EXPECT_LT(*std::min_element(norms.begin(), norms.end()), clip) << name;
    EXPECT_GT(*std::max_element(norms.begin(), norms.end()), clip) << name;
    const auto& run = golden.at("run");
    std::int64_t read = 1;
    for (const char* factor : {"steps", "global_batch", "seq_len"})
      read *= run.at(factor).get<std::int64_t>();
    EXPECT_GT(2 * read, static_cast<std::int64_t>(std::filesystem::file_size(kGolden + name + "_tokens.u16")))
        << name;
  }
}

}  // namespace
}  // namespace autocfg::trainer
