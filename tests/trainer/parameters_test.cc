// Tests which parameters a rank has, in which order, and which part of the model's parameter each is.
#include "trainer/layout/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/trainer/model_styles.h"

namespace autocfg::trainer {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  return names;
}

std::vector<Parameter> ParametersOf(const ModelSpec& model, const ParallelPlan& plan, std::int64_t rank) {
  return RankParameters(MakeRankShape({model, {.global_batch = 8, .seq_len = 4}, plan}, rank));
}

ModelSpec Style(const std::string& name, std::int64_t layers) {
  for (ModelSpec& model : test::ModelStyles()) {
    if (model.name != name) continue;
    test::SetLayers(model, layers);
    return model;
  }
  throw std::invalid_argument(name);
}

TEST(RankParameters, Gpt2FollowsTheSpecifiedOrder) {
  EXPECT_THAT(
      Names(ParametersOf(Style("gpt2", 1), {}, 0)),
      ElementsAre("transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight",
                  "transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_attn.weight",
                  "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.c_proj.weight",
                  "transformer.h.0.attn.c_proj.bias", "transformer.h.0.ln_2.weight",
                  "transformer.h.0.ln_2.bias", "transformer.h.0.mlp.c_fc.weight",
                  "transformer.h.0.mlp.c_fc.bias", "transformer.h.0.mlp.c_proj.weight",
                  "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight", "transformer.ln_f.bias"));
}

TEST(RankParameters, NormsOfQueriesAndKeysFollowTheirProjection) {
  const std::vector<Parameter> parameters = ParametersOf(Style("qk_norm", 1), {{.tp = 2}}, 1);
  EXPECT_THAT(Names(parameters),
              ElementsAre("transformer.wte.weight", "transformer.h.0.ln_1.weight",
                          "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.q_norm.weight",
                          "transformer.h.0.attn.k_norm.weight", "transformer.h.0.attn.c_proj.weight",
                          "transformer.h.0.ln_2.weight", "transformer.h.0.mlp.c_fc.weight",
                          "transformer.h.0.mlp.c_proj.weight", "transformer.ln_f.weight"));
  EXPECT_THAT(parameters[3].shape, ElementsAre(4));
  EXPECT_EQ(parameters[3].initial, Initial::kOnes);
  EXPECT_FALSE(parameters[3].counted) << "tensor coordinate 0 counts it";
}

// Chunk by chunk, preceded by the embedding and followed by the head.
TEST(RankParameters, LlamaIsOrderedByChunk) {
  const ModelSpec llama = Style("llama", 4);
  const ParallelPlan plan{{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}};
  EXPECT_THAT(Names(ParametersOf(llama, plan, 0)),
              ElementsAre("transformer.wte.weight", "transformer.h.0.ln_1.weight",
                          "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                          "transformer.h.0.ln_2.weight", "transformer.h.0.mlp.c_fc.weight",
                          "transformer.h.0.mlp.c_proj.weight", "transformer.h.2.ln_1.weight",
                          "transformer.h.2.attn.c_attn.weight", "transformer.h.2.attn.c_proj.weight",
                          "transformer.h.2.ln_2.weight", "transformer.h.2.mlp.c_fc.weight",
                          "transformer.h.2.mlp.c_proj.weight"));
  const std::vector<Parameter> last = ParametersOf(llama, plan, 1);
  EXPECT_EQ(last.front().name, "transformer.h.1.ln_1.weight") << "the last rank has no wte: it is not tied";
  EXPECT_EQ(last[last.size() - 2].name, "transformer.ln_f.weight");
  EXPECT_EQ(last.back().name, "lm_head.weight");
  EXPECT_TRUE(last.back().counted);
  EXPECT_EQ(last.back().std, llama.init_std);
  EXPECT_EQ(last.back().kind, ParameterKind::kOutputLayer);
  EXPECT_EQ(last.back().layer, kNoLayer);
}

TEST(RankParameters, CountTheTiedEmbeddingOnTheFirstRankOnly) {
  const ModelSpec gpt2 = Style("gpt2", 2);
  const ParallelPlan plan{{.tp = 2, .pp = 2}};
  for (const std::int64_t rank : {0, 1}) EXPECT_TRUE(ParametersOf(gpt2, plan, rank).front().counted);
  for (const std::int64_t rank : {2, 3}) {
    const Parameter wte = ParametersOf(gpt2, plan, rank).front();
    EXPECT_EQ(wte.name, "transformer.wte.weight");
    EXPECT_FALSE(wte.counted);
  }
}

// The parameter count of every style, counted once over all ranks, equals the model's count.
TEST(RankParameters, AddUpToTheModel) {
  for (ModelSpec model : test::ModelStyles()) {
    test::SetLayers(model, 4);
    for (const ParallelPlan& plan :
         {ParallelPlan{}, ParallelPlan{{.tp = 4}}, ParallelPlan{{.tp = 2, .pp = 2}},
          ParallelPlan{{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
      std::int64_t count = 0;
      for (std::int64_t rank = 0; rank < RankCount(plan); ++rank) {
        for (const Parameter& p : ParametersOf(model, plan, rank)) {
          if (!p.counted) continue;
          ForEachRun(p, [&](std::int64_t, std::int64_t, std::int64_t n) { count += n; });
        }
      }
      EXPECT_EQ(count, ParameterCount(model)) << model.name << " tp=" << plan.tp << " pp=" << plan.pp;
    }
  }
}

// Four heads of width 2, two for each key-value head, on a residual stream of width 1.
ModelSpec NarrowLlama() {
  ModelSpec llama = Style("llama", 1);
  llama.heads = 4;
  llama.kv_heads = 2;
  llama.head_dim = 2;
  llama.hidden = 1;
  llama.ffn_hidden = 4;
  return llama;
}

// With two key-value heads of four ranks, two ranks in a row have the same k and v, and a query head each.
TEST(ForEachRun, RanksShareKeyValueHeads) {
  const ModelSpec llama = NarrowLlama();
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    std::map<ParameterKind, std::vector<std::int64_t>> columns;
    for (const Parameter& p : ParametersOf(llama, {{.tp = 4}}, rank)) {
      if (p.name != "transformer.h.0.attn.c_attn.weight") continue;
      EXPECT_EQ(p.counted, p.kind == ParameterKind::kQueryWeight || rank % 2 == 0);
      ForEachRun(p, [&](std::int64_t, std::int64_t global, std::int64_t count) {
        for (std::int64_t k = 0; k < count; ++k) columns[p.kind].push_back(global + k);
      });
    }
    const std::int64_t q = 2 * rank, k = 8 + 2 * (rank / 2), v = k + 4;
    EXPECT_THAT(columns[ParameterKind::kQueryWeight], ElementsAre(q, q + 1));
    EXPECT_THAT(columns[ParameterKind::kKeyValueWeight], ElementsAre(k, k + 1, v, v + 1));
  }
}

// With two query heads per key-value head, a rank has half of each of q, k and v.
TEST(ForEachRun, SplitsPartsOfFusedTensorsSeparately) {
  const ModelSpec llama = NarrowLlama();
  const auto columns = [&](const std::string& name, std::int64_t rank) {
    std::vector<std::int64_t> globals;
    for (const Parameter& p : ParametersOf(llama, {{.tp = 2}}, rank)) {
      if (p.name != name) continue;
      ForEachRun(p, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
        EXPECT_EQ(local, static_cast<std::int64_t>(globals.size()));
        for (std::int64_t k = 0; k < count; ++k) globals.push_back(global + k);
      });
    }
    return globals;
  };
  EXPECT_THAT(columns("transformer.h.0.attn.c_attn.weight", 0), ElementsAre(0, 1, 2, 3, 8, 9, 12, 13));
  EXPECT_THAT(columns("transformer.h.0.attn.c_attn.weight", 1), ElementsAre(4, 5, 6, 7, 10, 11, 14, 15));
  EXPECT_THAT(columns("transformer.h.0.mlp.c_fc.weight", 0), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(columns("transformer.h.0.mlp.c_fc.weight", 1), ElementsAre(2, 3, 6, 7));
}

}  // namespace
}  // namespace autocfg::trainer
