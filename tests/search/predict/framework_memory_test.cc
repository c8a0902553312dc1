// What frameworks keep in memory, against what was measured of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "search/cost/memory/memory_model.h"
#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

constexpr double kGiB = 1 << 30;

struct MeasuredPeak {
  std::string test;  // of tests/functional_tests/test_cases/gpt
  std::int64_t layers, hidden, heads, kv_heads, seq_len, batch, vocab;
  bool tied;
  const char* precision;
  std::int64_t nodes;
  const char* plan;
  double gib;  // allocated at most, on H100
};

// Megatron-LM's own functional tests (golden_values_dev_dgx_h100.json), with the defaults of its options:
// GPT-2's vocabulary, dropout of 0.1.
const std::vector<MeasuredPeak> kMegatronPeaks = {
    {"gpt3_7b_tp4_pp1_memory_speed", 32, 4096, 32, 8, 8192, 8, 131073, false, "bf16", 1,
     "tp=4,dp=2,mbs=2,zero=1,grad_overlap=1,param_overlap=1", 53.2193},
    {"gpt3_mcore_te_tp1_pp1_dist_optimizer_no_mmap_bin_files", 12, 512, 8, 8, 1024, 32, 50257, true, "bf16",
     1, "dp=8,mbs=4,zero=1,attention=unfused", 4.3795},
    {"gpt3_mcore_te_tp1_pp1_resume_torch_dist_uniform_full_recompute", 12, 512, 8, 8, 1024, 32, 50257, true,
     "bf16", 1, "dp=8,mbs=4,recompute=full", 2.3854},
    {"gpt3_mcore_te_tp1_pp4_resume_torch_dist_untie_embeddings_and_outputs", 12, 512, 8, 8, 1024, 32, 50257,
     false, "bf16", 1, "pp=4,dp=2,mbs=4", 2.0583},
    {"gpt3_mcore_te_tp1_pp4_vp1_resume_torch_decoupled_lr", 12, 512, 8, 8, 1024, 32, 50257, true, "bf16", 1,
     "pp=4,dp=2,mbs=4,vpp=3", 2.4585},
    {"gpt3_mcore_te_tp1_pp4_vp1_dist_optimizer_overlap_grad_reduce", 12, 512, 8, 8, 1024, 32, 50257, true,
     "bf16", 1, "pp=4,dp=2,mbs=4,vpp=3,zero=1,grad_overlap=1,param_overlap=1,attention=unfused", 3.6717},
    {"gpt3_mcore_te_tp2_pp1_resume_torch_dist_multi_dist_optimizer", 12, 512, 8, 8, 1024, 32, 50257, true,
     "bf16", 1, "tp=2,dp=4,mbs=4,zero=1,grad_overlap=1,param_overlap=1", 1.5686},
    {"gpt3_mcore_tp1_pp1_resume_torch_dist_dist_optimizer", 12, 512, 8, 8, 1024, 32, 50257, true,
     "fp16:grads=fp16", 1, "dp=8,mbs=4,zero=1,grad_overlap=1,param_overlap=1,attention=unfused", 4.2923},
};

TEST(FrameworkMemory, OfMegatronIsWhatItsOwnTestsMeasure) {
  for (const MeasuredPeak& run : kMegatronPeaks) {
    ModelSpec model{.layers = run.layers,
                    .hidden = run.hidden,
                    .heads = run.heads,
                    .kv_heads = run.kv_heads,
                    .vocab = run.vocab,
                    .tied_embeddings = run.tied,
                    .dropout = 0.1};
    FillDefaults(model, run.seq_len);
    ClusterSpec cluster = *PresetCluster("h100-sxm:1x8");
    cluster.engine = *EngineNamed("megatron");
    const auto predicted =
        PredictPlan({{model, {run.batch, run.seq_len, *ParsePrecision(run.precision)}, cluster},
                     *ParsePlanText(run.plan)});
    ASSERT_TRUE(predicted.ok()) << run.test << ": " << predicted.status();
    const double gib = static_cast<double>(predicted->prediction.memory.Arena()) / kGiB;
    EXPECT_NEAR(gib / run.gib, 1, 0.06) << run.test << ": " << gib;
  }
}

// Korthikanti et al. 2022, section 4.2.3: with interleaving, activations grow by (p - 1) / (p m) of those of
// 1F1B.
TEST(FrameworkMemory, OfInterleavedActivationsIsOfOnePool) {
  for (const char* engine : {"megatron", "nemo"}) {
    const auto activations = [&](const std::string& plan) {
      ClusterSpec cluster = *PresetCluster("h200-sxm:1x4");
      cluster.engine = *EngineNamed(engine);
      const auto predicted = PredictPlan(
          {{*ModelPreset("llama3-8b"), {128, 4096, *ParsePrecision("bf16")}, cluster}, *ParsePlanText(plan)});
      EXPECT_TRUE(predicted.ok()) << predicted.status();
      return static_cast<double>(predicted->prediction.memory.activations) / kGiB;
    };
    const double plain = activations("pp=4");
    EXPECT_NEAR(plain, 17.02, 0.05);
    for (const int stages : {2, 4, 8}) {
      EXPECT_NEAR(activations("pp=4,vpp=" + std::to_string(stages)) / plain, 1 + 3.0 / (4 * stages), 0.01)
          << engine << " " << stages;
    }
  }
}

// Megatron-LM's uniform recomputation keeps the input of every N layers alone (transformer_block.py,
// _checkpointed_forward) and computes all N again for their backward.
TEST(FrameworkMemory, OfChunksOfLayersIsAnInputForEachAndTheTensorsOfOne) {
  const auto memory = [](const std::string& engine, const std::string& plan) {
    ClusterSpec cluster = *PresetCluster("h200-sxm:1x4");
    cluster.engine = *EngineNamed(engine);
    const auto predicted = PredictPlan(
        {{*ModelPreset("llama3-8b"), {128, 4096, *ParsePrecision("bf16")}, cluster}, *ParsePlanText(plan)});
    EXPECT_TRUE(predicted.ok()) << predicted.status();
    return predicted->prediction.memory;
  };
  constexpr std::int64_t kInput = std::int64_t{4096} * 4096 * 2;  // [S, H] in bf16
  const MemoryBytes each = memory("megatron", "recompute=full"), none = memory("megatron", "recompute=none");
  const std::int64_t layer = (none.activations - each.activations) / 32;  // beside its input
  for (const std::int64_t chunk : {2, 4, 8, 32}) {
    const MemoryBytes bytes = memory("megatron:recompute_chunk=" + std::to_string(chunk), "recompute=full");
    EXPECT_EQ(each.activations - bytes.activations, (32 - 32 / chunk) * kInput) << chunk;
    EXPECT_EQ(bytes.workspace - each.workspace, (chunk - 1) * (layer + kInput)) << chunk;
  }
  // A stage has no more layers than it has: chunks of 32 in stages of 8 are chunks of 8.
  EXPECT_EQ(memory("megatron:recompute_chunk=32", "pp=4,recompute=full"),
            memory("megatron:recompute_chunk=8", "pp=4,recompute=full"));
  // The first K layers recompute one by one (block).
  EXPECT_EQ(memory("megatron:recompute_chunk=4", "recompute=full:8"), memory("megatron", "recompute=full:8"));
}

TEST(FrameworkMemory, OfEachPipelineRankIsToldAndTheFullestDecides) {
  for (const char* plan : {"pp=1", "pp=4", "pp=4,vpp=2", "pp=8,split=5+4+4+4+4+4+4+3"}) {
    ClusterSpec cluster = *PresetCluster("h200-sxm:1x8");
    cluster.engine = *EngineNamed("megatron");
    const PlannedRun run{{*ModelPreset("llama3-8b"), {128, 4096, *ParsePrecision("bf16")}, cluster},
                         *ParsePlanText(plan)};
    const auto predicted = PredictPlan(run);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    ASSERT_EQ(predicted->rank_bytes.size(), static_cast<std::size_t>(predicted->plan.pp)) << plan;
    EXPECT_EQ(*std::ranges::max_element(predicted->rank_bytes), predicted->prediction.memory.Arena()) << plan;
    for (std::int64_t rank = 0; rank < predicted->plan.pp; ++rank) {
      EXPECT_EQ(predicted->rank_bytes[static_cast<std::size_t>(rank)],
                RankMemory(run.With(predicted->plan), rank, cluster.engine).Arena())
          << plan << " " << rank;
    }
  }
}

}  // namespace
}  // namespace autocfg
