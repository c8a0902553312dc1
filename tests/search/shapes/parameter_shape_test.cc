// Tests the shapes of parameters against the released weights of published models, and their split over a
// tensor group against figures computed by hand.
#include "search/shapes/parameter_shape.h"

#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using Kind = ParameterKind;

ParameterShape PresetShape(Kind kind, const std::string& model, std::int64_t tp) {
  const ModelSpec spec = *ModelPreset(model);
  return ShapeOf(kind, spec, LocalDimsOf({spec, {.global_batch = 1, .seq_len = 128}, {{.tp = tp}}}));
}

std::int64_t Product(const ParameterDims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

bool IsSomeOfQkv(Kind kind) { return kind >= Kind::kKeyValueWeight && kind <= Kind::kQueryBias; }

// The tensors of the released GPT-2 (Radford et al. 2019), on one rank. Only the vocabulary is padded.
TEST(ParameterShape, Gpt2AsReleased) {
  const auto global = [](Kind kind) { return PresetShape(kind, "gpt2-124m", 1).global; };
  EXPECT_EQ(global(Kind::kTokenEmbedding), ParameterDims({50257, 768}));
  EXPECT_EQ(global(Kind::kPositionEmbedding), ParameterDims({1024, 768}));
  EXPECT_EQ(global(Kind::kQkvWeight), ParameterDims({768, 2304}));
  EXPECT_EQ(global(Kind::kQkvBias), ParameterDims{2304});
  EXPECT_EQ(global(Kind::kAttentionOutWeight), ParameterDims({768, 768}));
  EXPECT_EQ(global(Kind::kFcWeight), ParameterDims({768, 3072}));
  EXPECT_EQ(global(Kind::kFcBias), ParameterDims{3072});
  EXPECT_EQ(global(Kind::kProjWeight), ParameterDims({3072, 768}));
  for (const Kind kind : {Kind::kNorm1Weight, Kind::kNorm1Bias, Kind::kAttentionOutBias, Kind::kNorm2Weight,
                          Kind::kNorm2Bias, Kind::kProjBias, Kind::kFinalNormWeight, Kind::kFinalNormBias}) {
    EXPECT_EQ(global(kind), ParameterDims{768}) << static_cast<int>(kind);
  }
  for (int k = 0; k < kParameterKindCount; ++k) {
    const ParameterShape shape = PresetShape(static_cast<Kind>(k), "gpt2-124m", 1);
    const bool vocabulary =
        k == static_cast<int>(Kind::kTokenEmbedding) || k == static_cast<int>(Kind::kOutputLayer);
    if (IsSomeOfQkv(static_cast<Kind>(k))) continue;
    EXPECT_EQ(shape.local, vocabulary ? ParameterDims({50304, 768}) : shape.global) << k;
  }
}

// Llama Team 2024, table 3: hidden 4096, 32 heads and 8 key-value heads of 128, a gated feed-forward of
// 14,336. 128,256 tokens are padded to 251 x 512.
TEST(ParameterShape, Llama3OverFourRanks) {
  const auto shape = [](Kind kind) { return PresetShape(kind, "llama3-8b", 4); };
  EXPECT_EQ(shape(Kind::kQkvWeight), (ParameterShape{.global = {4096, 6144},
                                                     .local = {4096, 1536},
                                                     .parts = {4096, 1024, 1024},
                                                     .sharding = Sharding::kColumns}));
  EXPECT_EQ(shape(Kind::kFcWeight), (ParameterShape{.global = {4096, 28672},
                                                    .local = {4096, 7168},
                                                    .parts = {14336, 14336},
                                                    .sharding = Sharding::kColumns}));
  EXPECT_EQ(shape(Kind::kAttentionOutWeight),
            (ParameterShape{
                .global = {4096, 4096}, .local = {1024, 4096}, .parts = {}, .sharding = Sharding::kRows}));
  EXPECT_EQ(shape(Kind::kProjWeight),
            (ParameterShape{
                .global = {14336, 4096}, .local = {3584, 4096}, .parts = {}, .sharding = Sharding::kRows}));
  const ParameterShape table{
      .global = {128256, 4096}, .local = {32128, 4096}, .parts = {}, .sharding = Sharding::kRows};
  EXPECT_EQ(shape(Kind::kTokenEmbedding), table);
  EXPECT_EQ(shape(Kind::kOutputLayer), table);
  EXPECT_EQ(LocalElements(table), 131'596'288);
  EXPECT_EQ(
      shape(Kind::kNorm1Weight),
      (ParameterShape{.global = {4096}, .local = {4096}, .parts = {}, .sharding = Sharding::kReplicated}));
}

// Norms of queries and keys: one weight of all heads, which every rank has whole, or one of each column (OLMo
// 2).
TEST(ParameterShape, NormsOfQueriesAndKeysOverFourRanks) {
  ModelSpec model = *ModelPreset("llama3-8b");
  const auto shape = [&](Kind kind) {
    return ShapeOf(kind, model, LocalDimsOf({model, {.global_batch = 1, .seq_len = 128}, {{.tp = 4}}}));
  };
  model.qk_norm = QkNorm::kHead;
  const ParameterShape of_head{
      .global = {128}, .local = {128}, .parts = {}, .sharding = Sharding::kReplicated};
  EXPECT_EQ(shape(Kind::kQueryNormWeight), of_head);
  EXPECT_EQ(shape(Kind::kKeyNormWeight), of_head);
  model.qk_norm = QkNorm::kFull;
  EXPECT_EQ(
      shape(Kind::kQueryNormWeight),
      (ParameterShape{.global = {4096}, .local = {1024}, .parts = {4096}, .sharding = Sharding::kColumns}));
  EXPECT_EQ(
      shape(Kind::kKeyNormWeight),
      (ParameterShape{.global = {1024}, .local = {256}, .parts = {1024}, .sharding = Sharding::kColumns}));
}

// A bias is split as the columns of its weight, or replicated if the weight is split by rows.
TEST(ParameterShape, BiasesOfGpt3OverEightRanks) {
  const auto shape = [](Kind kind) { return PresetShape(kind, "gpt3-175b", 8); };
  EXPECT_EQ(shape(Kind::kQkvBias), (ParameterShape{.global = {36864},
                                                   .local = {4608},
                                                   .parts = {12288, 12288, 12288},
                                                   .sharding = Sharding::kColumns}));
  EXPECT_EQ(
      shape(Kind::kFcBias),
      (ParameterShape{.global = {49152}, .local = {6144}, .parts = {49152}, .sharding = Sharding::kColumns}));
  for (const Kind kind : {Kind::kAttentionOutBias, Kind::kProjBias}) {
    EXPECT_EQ(shape(kind),
              (ParameterShape{
                  .global = {12288}, .local = {12288}, .parts = {}, .sharding = Sharding::kReplicated}));
  }
}

// Counts of the released weights.
TEST(ParameterShape, AddUpToThePublishedCounts) {
  struct Published {
    const char* model;
    std::int64_t layers, count;
  };
  const std::set<Kind> once = {Kind::kTokenEmbedding, Kind::kPositionEmbedding, Kind::kFinalNormWeight,
                               Kind::kFinalNormBias, Kind::kOutputLayer};
  const std::set<Kind> not_in_gpt2 = {
      Kind::kPostNorm1Weight, Kind::kPostNorm1Bias,       Kind::kPostNorm2Weight,
      Kind::kPostNorm2Bias,   Kind::kEmbeddingNormWeight, Kind::kEmbeddingNormBias,
      Kind::kOutputLayer,     Kind::kQueryNormWeight,     Kind::kKeyNormWeight,
      Kind::kKeyValueWeight,  Kind::kKeyValueBias,        Kind::kQueryWeight,
      Kind::kQueryBias};
  const std::set<Kind> not_in_llama = {Kind::kPostNorm1Weight,
                                       Kind::kPostNorm1Bias,
                                       Kind::kPostNorm2Weight,
                                       Kind::kPostNorm2Bias,
                                       Kind::kEmbeddingNormWeight,
                                       Kind::kEmbeddingNormBias,
                                       Kind::kPositionEmbedding,
                                       Kind::kNorm1Bias,
                                       Kind::kQkvBias,
                                       Kind::kAttentionOutBias,
                                       Kind::kNorm2Bias,
                                       Kind::kFcBias,
                                       Kind::kProjBias,
                                       Kind::kFinalNormBias,
                                       Kind::kQueryNormWeight,
                                       Kind::kKeyNormWeight,
                                       Kind::kKeyValueWeight,
                                       Kind::kKeyValueBias,
                                       Kind::kQueryWeight,
                                       Kind::kQueryBias};
  for (const auto& [model, layers, count] : {Published{"gpt2-124m", 12, 124'439'808},
                                             {"gpt2-1.5b", 48, 1'557'611'200},
                                             {"llama2-7b", 32, 6'738'415'616},
                                             {"llama2-70b", 80, 68'976'648'192},
                                             {"llama3-8b", 32, 8'030'261'248},
                                             {"llama3-70b", 80, 70'553'706'496},
                                             {"llama3-405b", 126, 405'853'388'800}}) {
    const std::set<Kind>& absent = std::string(model).starts_with("gpt2") ? not_in_gpt2 : not_in_llama;
    std::int64_t sum = 0;
    for (int k = 0; k < kParameterKindCount; ++k) {
      const Kind kind = static_cast<Kind>(k);
      if (absent.contains(kind)) continue;
      sum += (once.contains(kind) ? 1 : layers) * Product(PresetShape(kind, model, 1).global);
    }
    EXPECT_EQ(sum, count) << model;
  }
}

// The ranks' parts cover the whole, or their columns of it, as often as ranks hold the same; and only the
// vocabulary is padded.
TEST(ParameterShape, PartsCoverTheWhole) {
  for (const char* model : {"gpt3-175b", "llama2-70b", "llama3-405b"}) {
    for (const std::int64_t tp : {1, 2, 4, 8, 16}) {
      for (int k = 0; k < kParameterKindCount; ++k) {
        const Kind kind = static_cast<Kind>(k);
        const ParameterShape shape = PresetShape(kind, model, tp);
        // Ranks that share key-value heads have q apart from k and v instead.
        const bool shares = PresetShape(Kind::kKeyValueWeight, model, tp).replicas > 1;
        if (shares && (kind == Kind::kQkvWeight || kind == Kind::kQkvBias)) continue;
        const std::int64_t ranks = shape.sharding == Sharding::kReplicated ? 1 : tp;
        const std::int64_t held = ranks * LocalElements(shape) / shape.replicas;
        std::int64_t whole = Product(shape.global);
        if (shape.sharding == Sharding::kColumns)
          whole = whole / *(shape.global.end() - 1) *
                  std::accumulate(shape.parts.begin(), shape.parts.end(), std::int64_t{0});
        if (kind == Kind::kTokenEmbedding || kind == Kind::kOutputLayer) {
          EXPECT_GE(held, whole) << model;
        } else {
          EXPECT_EQ(held, whole) << model << " tp=" << tp << " kind " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace autocfg
