// Tests models, workloads, clusters and precisions: defaults, bounds, and counts against published figures.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/ops/op_desc.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/states/precision.h"
#include "search/plan/workload.h"
#include "tests/support/field_samples.h"
#include "tests/support/llama_parts.h"

namespace autocfg {
namespace {

using ::testing::HasSubstr;
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

ModelSpec Gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.vocab = vocab;
  FillDefaults(model);
  return model;
}

TEST(ModelSpec, Defaults) {
  ModelSpec model = Gpt(12, 768, 12, 50257);
  EXPECT_EQ(model.kv_heads, 12);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.ffn_hidden, 3072);
  EXPECT_EQ(model.max_seq_len, 1024);
  model.max_seq_len = 0;
  FillDefaults(model, 77);
  EXPECT_EQ(model.max_seq_len, 77);
}

// Counts of the released weights: Radford et al. 2019.
TEST(ModelSpec, ParameterCountOfGpt2) {
  EXPECT_EQ(ParameterCount(Gpt(12, 768, 12, 50257)), 124'439'808);
  EXPECT_EQ(ParameterCount(Gpt(48, 1600, 25, 50257)), 1'557'611'200);
}

// Llama 2 7B (Touvron et al. 2023): 6,738,415,616 parameters in the released weights.
TEST(ModelSpec, ParameterCountOfGatedModel) {
  ModelSpec model = Gpt(32, 4096, 32, 32000);
  model.ffn_hidden = 11008;
  SetLlamaParts(model);
  EXPECT_EQ(ParameterCount(model), 6'738'415'616);
}

// Each part's parameters, counted by hand, in a model of 2 layers.
TEST(ModelSpec, ParameterCountOfEachPart) {
  ModelSpec model = Gpt(2, 64, 4, 100);
  model.kv_heads = 2;
  SetBiases(model, false);
  const std::int64_t plain = ParameterCount(model);
  const auto added = [&](const std::function<void(ModelSpec&)>& change) {
    ModelSpec changed = model;
    change(changed);
    return ParameterCount(changed) - plain;
  };
  EXPECT_EQ(added([](ModelSpec& m) { m.qkv_bias = true; }), 2 * (64 + 32 + 32));
  EXPECT_EQ(added([](ModelSpec& m) { m.attention_out_bias = true; }), 2 * 64);
  EXPECT_EQ(added([](ModelSpec& m) { m.mlp_bias = true; }), 2 * (256 + 64));
  EXPECT_EQ(added([](ModelSpec& m) { m.qk_norm = QkNorm::kHead; }), 2 * (16 + 16))
      << "RMS norms have no biases";
  EXPECT_EQ(added([](ModelSpec& m) { m.qk_norm = QkNorm::kFull; }), 2 * (64 + 32));
  EXPECT_EQ(added([](ModelSpec& m) { m.norm_placement = NormPlacement::kOutput; }), 0);
  EXPECT_EQ(added([](ModelSpec& m) { m.norm_placement = NormPlacement::kSandwich; }), 2 * 2 * 128);
  EXPECT_EQ(added([](ModelSpec& m) { m.parallel_residual = true; }), 0);
  EXPECT_EQ(added([](ModelSpec& m) { m.parallel_residual = m.shared_norm = true; }), -2 * 128);
  EXPECT_EQ(added([](ModelSpec& m) { m.embedding_norm = true; }), 128);
  EXPECT_EQ(added([](ModelSpec& m) {
              m.embedding_scale = m.residual_scale = m.logit_scale = 2;
              m.attention_scale = m.attention_softcap = m.output_softcap = 2;
              m.layer_kinds = {{.layers = 1, .window = 8}, {.layers = 1, .chunk = 4}};
            }),
            0);
}

// Counts the pairs one by one.
TEST(ModelSpec, AttendedPairs) {
  for (const std::int64_t window : {0, 1, 2, 5, 9, 10, 11}) {
    int pairs = 0;
    for (std::int64_t query = 0; query < 10; ++query) {
      for (std::int64_t key = 0; key <= query; ++key) pairs += window == 0 || query - key < window ? 1 : 0;
    }
    EXPECT_EQ(AttendedPairs(10, window), pairs) << window;
  }
}

TEST(ModelSpec, FlopsOfWindows) {
  ModelSpec model = Gpt(6, 64, 4, 100);
  const double products = ModelFlops(model, 1, 0);
  const double attention = ModelFlops(model, 1, 1024) - products;
  model.layer_kinds = {{.layers = 6, .window = 256}};
  const double share = AttendedPairs(1024, 256) / AttendedPairs(1024, 0);
  EXPECT_NEAR(ModelFlops(model, 1, 1024), products + share * attention, 1e-9 * attention);
  model.layer_kinds = {{.layers = 4, .window = 256}, {.layers = 2}};
  EXPECT_NEAR(ModelFlops(model, 1, 1024), products + (2 + 4 * share) / 6 * attention, 1e-9 * attention);
  model.layer_kinds = {
      {.layers = 3, .window = 256}, {.layers = 1, .window = 1024}, {.layers = 2, .chunk = 512}};
  EXPECT_NEAR(ModelFlops(model, 1, 1024), products + (3 * share + 1 + 2 * 0.5) / 6 * attention,
              1e-9 * attention);
}

// Korthikanti et al. 2022, equation 7, without recomputation.
TEST(ModelSpec, FlopsAsPublished) {
  for (const auto& [layers, hidden, heads, vocab, seq, batch] :
       {std::array<double, 6>{12, 768, 12, 50257, 1024, 8},
        std::array<double, 6>{96, 12288, 96, 51200, 2048, 1536}}) {
    const ModelSpec model = Gpt(static_cast<std::int64_t>(layers), static_cast<std::int64_t>(hidden),
                                static_cast<std::int64_t>(heads), static_cast<std::int64_t>(vocab));
    const double published = 72 * batch * layers * seq * hidden * hidden *
                             (1 + seq / (6 * hidden) + vocab / (12 * layers * hidden));
    EXPECT_NEAR(ModelFlops(model, batch * seq, seq) / published, 1, 1e-12);
  }
}

TEST(ModelSpec, PaddedVocab) {
  const ModelSpec model = Gpt(12, 768, 12, 50257);
  EXPECT_EQ(PaddedVocab(model, 1), 50304);
  EXPECT_EQ(PaddedVocab(model, 8), 51200);
  EXPECT_EQ(PaddedVocab(Gpt(1, 64, 4, 1024), 2), 1024);
}

TEST(ModelSpec, ValidateNamesTheField) {
  EXPECT_TRUE(Validate(Gpt(12, 768, 12, 50257)).ok());
  const auto says = [](const std::function<void(ModelSpec&)>& change) {
    ModelSpec model = Gpt(12, 768, 12, 50257);
    change(model);
    const absl::Status status = Validate(model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const ModelField& field : ModelFields()) {
    const auto least = static_cast<std::int64_t>(field.least);
    std::vector<base::FieldValue> wrong;
    if (field.type == base::FieldType::kSize) wrong = {least - 1, kMin, kMax};
    if (field.type == base::FieldType::kNumber) wrong = {-1.0, kNan, HUGE_VAL, 1e300};
    for (const base::FieldValue& value : wrong)
      EXPECT_THAT(says([&](ModelSpec& m) { field.Set(m, value); }),
                  HasSubstr(std::string(field.name) + " is"));
  }
  EXPECT_THAT(says([](ModelSpec& m) { m.kv_heads = 5; }),
              HasSubstr("kv_heads = 5 does not divide heads = 12"));
  EXPECT_THAT(says([](ModelSpec& m) { m.init_std = 0; }), HasSubstr("init_std"));
  EXPECT_THAT(says([](ModelSpec& m) { m.init_std = 1e300; }),
              HasSubstr("init_std is 1e+300; it must be from 0 to 1"));
  EXPECT_THAT(says([](ModelSpec& m) { m.rope_theta = 1e-9; }),
              HasSubstr("rope_theta is 1e-09; it must be from 1 to"));
  EXPECT_THAT(says([](ModelSpec& m) { m.name = "a\nb"; }), HasSubstr("name has a control character"));
  EXPECT_THAT(says([](ModelSpec& m) { m.name = std::string(201, 'x'); }), HasSubstr("name has 201 bytes"));
  EXPECT_THAT(says([](ModelSpec& m) { m.rope_scaling = RopeScaling::kLlama3; }),
              HasSubstr("rope_scaling is llama3, but position is learned"));
  EXPECT_THAT(says([](ModelSpec& m) {
                m.position = Position::kRope;
                m.head_dim = 63;
              }),
              HasSubstr("head_dim is 63"));
  const auto rope = [&](const std::function<void(ModelSpec&)>& change) {
    return says([&](ModelSpec& m) {
      m.position = Position::kRope;
      change(m);
    });
  };
  EXPECT_THAT(rope([](ModelSpec& m) { m.partial_rotary_factor = 0.3; }),
              HasSubstr("partial_rotary_factor is 0.3, which rotates 19.2 of the 64 dims"));
  EXPECT_THAT(rope([](ModelSpec& m) { m.partial_rotary_factor = 5.0 / 64; }),
              HasSubstr("rotates 5 of the 64"));
  EXPECT_THAT(rope([](ModelSpec& m) { m.partial_rotary_factor = 1e-6; }),
              HasSubstr("rotates 6.4e-05 of the 64"));
  EXPECT_THAT(rope([](ModelSpec& m) { m.partial_rotary_factor = 1.5; }), HasSubstr("must be from 0 to 1"));
  EXPECT_THAT(rope([](ModelSpec& m) { m.partial_rotary_factor = 0; }),
              HasSubstr("must be a positive number"));
  EXPECT_THAT(says([](ModelSpec& m) { m.partial_rotary_factor = 0.5; }),
              HasSubstr("partial_rotary_factor is 0.5, but position is learned"));
  EXPECT_THAT(says([](ModelSpec& m) { m.shared_norm = true; }), HasSubstr("parallel_residual is false"));
  EXPECT_THAT(says([](ModelSpec& m) {
                m.parallel_residual = true;
                m.norm_placement = NormPlacement::kOutput;
              }),
              HasSubstr("parallel_residual is true, but norm_placement is output"));
  EXPECT_THAT(says([](ModelSpec& m) { m.embedding_scale = 0; }), HasSubstr("embedding_scale is 0"));
  EXPECT_THAT(says([](ModelSpec& m) { m.output_softcap = 1e7; }), HasSubstr("output_softcap is 1e+07"));
  // Each size is within its bounds, but the product is too large.
  EXPECT_THAT(says([](ModelSpec& m) {
                m.layers = 100'000;
                m.hidden = 10'000'000;
                m.head_dim = 10'000'000;
              }),
              HasSubstr("parameters"));
  EXPECT_THAT(std::string(Validate(Gpt(1, 65, 4, 10)).message()), HasSubstr("does not divide hidden = 65"));
}

TEST(ModelFields, AreRefusedByNameUnlessTheEngineRunsThem) {
  ModelSpec none = Gpt(12, 768, 12, 50257);
  none.position = Position::kRope;
  for (const ModelField& field : ModelFields()) {
    for (const ModelSpec& model : test::ChangedIn(field, none)) {
      EXPECT_EQ(CheckPredictable(model).ok(), field.support != Support::kNone) << field.name;
      const absl::Status status = CheckEngineSupports(model);
      if (field.name == "rope_scaling") {
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("is a name alone, which can be predicted, not run"));
      } else if (field.support == Support::kRun) {
        EXPECT_TRUE(status.ok()) << status;
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
        EXPECT_THAT(std::string(status.message()), HasSubstr(fmt::format("model: {} ", field.name)));
        EXPECT_THAT(std::string(status.message()), ::testing::EndsWith("; leave it out"));
      }
    }
  }
}

TEST(RopeScaling, ParametersAreRefusedByName) {
  ModelSpec model = Gpt(2, 64, 8, 100);
  model.position = Position::kRope;
  const auto says = [&](RopeScaling scaling, const RopeScalingParameters& parameters) {
    model.rope_scaling = scaling;
    model.rope_scaling_parameters = parameters;
    const absl::Status status = Validate(model);
    EXPECT_TRUE(!status.ok() || CheckEngineSupports(model).ok());
    return std::string(status.message());
  };
  const RopeScalingParameters llama3 = Llama3Scaling(8);
  const std::vector<double> ones(4, 1.0);
  const RopeScalingParameters longrope{.short_factor = ones, .long_factor = ones};
  EXPECT_EQ(says(RopeScaling::kLinear, {.factor = 2}), "");
  EXPECT_EQ(says(RopeScaling::kDynamic, {.factor = 1}), "");
  EXPECT_EQ(says(RopeScaling::kYarn, {.factor = 2, .beta_fast = 16, .truncate = false}), "");
  EXPECT_EQ(says(RopeScaling::kLongRope, longrope), "");
  EXPECT_EQ(says(RopeScaling::kLlama3, llama3), "");

  EXPECT_THAT(says(RopeScaling::kNone, {.factor = 2}),
              HasSubstr("rope_scaling: factor is not a parameter of none; leave it out"));
  model.position = Position::kLearned;
  EXPECT_THAT(says(RopeScaling::kNone, {.factor = 2}), HasSubstr("factor is not a parameter of none"));
  EXPECT_THAT(says(RopeScaling::kLinear, {.factor = 2}), HasSubstr("but position is learned"));
  model.position = Position::kRope;
  EXPECT_THAT(says(RopeScaling::kLinear, {.factor = 2, .mscale = 1}),
              HasSubstr("rope_scaling: mscale is not a parameter of linear"));
  EXPECT_THAT(says(RopeScaling::kLinear, {.factor = 0.5}),
              HasSubstr("rope_scaling: factor is 0.5; it must be at least 1"));
  EXPECT_THAT(says(RopeScaling::kLinear, {.factor = std::numeric_limits<double>::quiet_NaN()}),
              HasSubstr("rope_scaling: factor is nan"));
  EXPECT_THAT(says(RopeScaling::kYarn, {.original_max_position_embeddings = 64}),
              HasSubstr("rope_scaling: factor is missing; yarn needs it"));
  EXPECT_THAT(says(RopeScaling::kYarn, {.factor = 2, .original_max_position_embeddings = -3}),
              HasSubstr("original_max_position_embeddings is -3; it must be at least 2"));
  EXPECT_THAT(says(RopeScaling::kYarn, {.factor = 2, .attention_factor = -1}),
              HasSubstr("attention_factor is -1; it must be positive"));
  EXPECT_THAT(says(RopeScaling::kYarn, {.factor = 2, .beta_slow = 40}),
              HasSubstr("beta_slow is 40; it must be below beta_fast, which is 32"));
  RopeScalingParameters changed = llama3;
  changed.low_freq_factor = 4;
  EXPECT_THAT(says(RopeScaling::kLlama3, changed),
              HasSubstr("low_freq_factor is 4; it must be below high_freq_factor, which is 4"));
  changed.low_freq_factor = 0;
  EXPECT_THAT(says(RopeScaling::kLlama3, changed), HasSubstr("low_freq_factor is missing; llama3 needs it"));
  changed = longrope;
  changed.long_factor.push_back(1);
  EXPECT_THAT(says(RopeScaling::kLongRope, changed),
              HasSubstr("long_factor has 5 numbers; give 4, one for each pair of the 8 dims of a head"));
  changed.long_factor = {1, 1, 0, 1};
  EXPECT_THAT(says(RopeScaling::kLongRope, changed), HasSubstr("long_factor is 0; it must be positive"));
  model.rope_theta = 1;
  EXPECT_THAT(says(RopeScaling::kYarn, {.factor = 2}), HasSubstr("rope_theta is 1; with rope_scaling yarn"));
  model.rope_theta = 1e4;
  model.partial_rotary_factor = 0.25;
  EXPECT_THAT(says(RopeScaling::kDynamic, {.factor = 2}), HasSubstr("only 2 dims of a head rotate"));
}

// A share that was written with few digits still rotates whole dims.
TEST(ModelSpec, RotaryDims) {
  ModelSpec model = Gpt(2, 768, 8, 100);
  model.position = Position::kRope;
  EXPECT_EQ(RotaryDims(model), 96);
  model.partial_rotary_factor = 0.3333333;
  EXPECT_EQ(RotaryDims(model), 32);
  EXPECT_TRUE(Validate(model).ok()) << Validate(model);
}

std::vector<LayerRun> KindsOfPattern(ModelSpec model, const LayerPattern& pattern) {
  EXPECT_TRUE(ApplyPattern(pattern, model).ok()) << ApplyPattern(pattern, model);
  EXPECT_TRUE(Validate(model).ok()) << Validate(model);
  return model.layer_kinds;
}

TEST(LayerKinds, OfPatterns) {
  ModelSpec model = Gpt(5, 64, 4, 100);
  model.position = Position::kRope;
  using Runs = std::vector<LayerRun>;
  EXPECT_EQ(KindsOfPattern(model, {}), Runs());
  EXPECT_EQ(KindsOfPattern(model, {.sliding_window = 8}), (Runs{{.layers = 5, .window = 8}}));
  EXPECT_EQ(KindsOfPattern(model, {.sliding_window = 8, .sliding_window_pattern = 3}),
            (Runs{{.layers = 2, .window = 8}, {.layers = 1}, {.layers = 2, .window = 8}}));
  EXPECT_EQ(KindsOfPattern(model, {.sliding_window = 8, .sliding_window_pattern = 9}),
            (Runs{{.layers = 5, .window = 8}}));
  EXPECT_EQ(KindsOfPattern(model, {.no_rope_layer_interval = 4}),
            (Runs{{.layers = 3}, {.layers = 1, .rotary = false}, {.layers = 1}}));
  EXPECT_EQ(
      KindsOfPattern(model, {.sliding_window = 8, .sliding_window_pattern = 2, .no_rope_layer_interval = 4}),
      (Runs{{.layers = 1, .window = 8},
            {.layers = 1},
            {.layers = 1, .window = 8},
            {.layers = 1, .rotary = false},
            {.layers = 1, .window = 8}}));
  const auto says = [](ModelSpec of, const LayerPattern& pattern) {
    return std::string(ApplyPattern(pattern, of).message());
  };
  EXPECT_THAT(says(Gpt(5, 64, 4, 100), {.no_rope_layer_interval = 4}),
              HasSubstr("no_rope_layer_interval is 4, but position is learned"));
  EXPECT_THAT(says(model, {.no_rope_layer_interval = 1}), HasSubstr("no_rope_layer_interval is 1"));
  EXPECT_THAT(says(model, {.sliding_window_pattern = 2}),
              HasSubstr("sliding_window_pattern is 2, but there is no sliding_window"));
  EXPECT_THAT(says(model, {.sliding_window = 8, .sliding_window_pattern = 1}),
              HasSubstr("sliding_window_pattern is 1"));
  EXPECT_THAT(says(model, {.sliding_window = -1}), HasSubstr("sliding_window is -1; it must be from 0"));
}

TEST(LayerKinds, PatternsOfKinds) {
  ModelSpec model = Gpt(12, 64, 4, 100);
  model.position = Position::kRope;
  for (const std::int64_t window : {0, 8}) {
    for (const std::int64_t full : {0, 2, 5, 12}) {
      for (const std::int64_t without : {0, 2, 4, 12}) {
        ModelSpec said = model;
        const LayerPattern pattern{window, window == 0 ? 0 : full, without};
        ASSERT_TRUE(ApplyPattern(pattern, said).ok());
        const std::optional<LayerPattern> found = PatternOf(said);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->sliding_window, pattern.sliding_window);
        EXPECT_EQ(found->sliding_window_pattern, pattern.sliding_window_pattern);
        EXPECT_EQ(found->no_rope_layer_interval, pattern.no_rope_layer_interval);
      }
    }
  }
  const std::vector<std::vector<LayerRun>> others = {
      {{.layers = 6, .window = 8}, {.layers = 6, .window = 4}},
      {{.layers = 1}, {.layers = 11, .window = 8}},
      {{.layers = 3, .window = 8}, {.layers = 2}, {.layers = 7, .window = 8}},
      {{.layers = 12, .chunk = 8}},
      {{.layers = 11, .rope_theta = 50}, {.layers = 1}},
      {{.layers = 1, .rotary = false}, {.layers = 11}}};
  for (const std::vector<LayerRun>& runs : others) {
    model.layer_kinds = runs;
    EXPECT_FALSE(PatternOf(model)) << runs.size() << " " << runs[0].layers;
  }
}

TEST(LayerKinds, OfLayers) {
  ModelSpec model = Gpt(6, 64, 4, 100);
  EXPECT_EQ(KindOf(model, 5), LayerRun{.layers = 1});
  EXPECT_EQ(RunsOf(model), std::vector<LayerRun>{{.layers = 6}});
  model.layer_kinds = {{.layers = 2, .window = 8}, {.layers = 1}, {.layers = 3, .chunk = 4}};
  for (const std::int64_t layer : {0, 1}) EXPECT_EQ(KindOf(model, layer).window, 8) << layer;
  EXPECT_EQ(KindOf(model, 2), LayerRun{.layers = 1});
  for (const std::int64_t layer : {3, 5}) EXPECT_EQ(KindOf(model, layer).chunk, 4) << layer;
}

TEST(Activation, NamesRoundTrip) {
  for (int i = 0; i < kActivationCount; ++i)
    EXPECT_EQ(ParseActivation(Name(static_cast<Activation>(i))), static_cast<Activation>(i));
  EXPECT_FALSE(ParseActivation("tanh"));
}

TEST(Workload, Validate) {
  const ModelSpec model = Gpt(12, 768, 12, 50257);
  EXPECT_TRUE(Validate(Workload{.global_batch = 8, .seq_len = 1024}, model).ok());
  const auto says = [&](std::int64_t global_batch, std::int64_t seq_len, const ModelSpec& of) {
    const absl::Status status = Validate(Workload{.global_batch = global_batch, .seq_len = seq_len}, of);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(says(0, 64, model), HasSubstr("global_batch is 0"));
  EXPECT_THAT(says(kMin, 64, model), HasSubstr("global_batch is"));
  EXPECT_THAT(says(kMax, 64, model), HasSubstr("global_batch is"));
  EXPECT_THAT(says(8, 0, model), HasSubstr("seq_len is 0"));
  EXPECT_THAT(says(8, kMax, model), HasSubstr("seq_len is"));
  EXPECT_THAT(says(8, 1025, model), HasSubstr("reach only to 1024"));
  ModelSpec rope = model;
  rope.position = Position::kRope;
  EXPECT_TRUE(Validate(Workload{.global_batch = 8, .seq_len = 1025}, rope).ok());
  EXPECT_THAT(says(1'000'000'000, 100'000'000, rope), HasSubstr("activation elements"));
}

TEST(ClusterSpec, CountsAndBounds) {
  ClusterSpec cluster;
  EXPECT_THAT(std::string(Validate(cluster).message()), HasSubstr("no node groups"));
  NodeGroup group;
  group.device.memory_bytes = 100;
  group.nodes = 2;
  group.gpus_per_node = 8;
  cluster.groups = {group, group};
  cluster.groups[1].device.memory_bytes = 50;
  cluster.groups[1].nodes = 1;
  EXPECT_TRUE(Validate(cluster).ok());
  EXPECT_EQ(RankCount(cluster), 24);
  EXPECT_EQ(MemoryCapacity(cluster), 50);
  const auto says = [&](const std::function<void(NodeGroup&)>& change) {
    ClusterSpec changed = cluster;
    change(changed.groups[1]);
    const absl::Status status = Validate(changed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(says([](NodeGroup& g) { g.nodes = 0; }), HasSubstr("node group 1: nodes is 0"));
  EXPECT_THAT(says([](NodeGroup& g) { g.gpus_per_node = kMax; }), HasSubstr("gpus_per_node is"));
  EXPECT_THAT(says([](NodeGroup& g) { g.device.memory_bytes = -1; }), HasSubstr("memory_bytes is -1"));
  EXPECT_THAT(says([](NodeGroup& g) { g.device.flops_per_s_bf16 = std::nan(""); }),
              HasSubstr("flops_per_s.bf16"));
  EXPECT_THAT(says([](NodeGroup& g) { g.inter_node_bytes_per_s = -2; }),
              HasSubstr("inter_node_bytes_per_s is -2"));
  for (const double ranks : {0.0, 0.5, 2.0, 100.0, std::nan("")}) {
    EXPECT_THAT(
        says([&](NodeGroup& g) { g.ranks_per_core = ranks; }),
        HasSubstr(", but each rank of a described cluster has a core or GPU of its own; leave it out"));
  }
  cluster.local = true;
  for (const double ranks : {0.0, 0.5, 9.0, std::nan("")}) {
    EXPECT_THAT(says([&](NodeGroup& g) { g.ranks_per_core = ranks; }),
                HasSubstr("; it must be from 1 to gpus_per_node, 8"));
  }
  cluster.groups[1].ranks_per_core = 2;
  EXPECT_TRUE(Validate(cluster).ok()) << "this machine's ranks may share its cores";
}

TEST(Precision, Names) {
  for (const char* name : {"fp64", "fp32", "bf16", "fp16"})
    EXPECT_EQ(PrecisionText(*ParsePrecision(name)), name);
  EXPECT_FALSE(ParsePrecision("fp4").ok());
  EXPECT_FALSE(ParsePrecision("").ok());
  EXPECT_EQ(ParsePrecision("fp17").status().message(),
            "unknown precision 'fp17'; expected fp64, fp32, bf16, fp16, fp8, fp8_block, mxfp8 or nvfp4");
  EXPECT_EQ(*ParsePrecision("fp32"), Precision());
  const Precision bf16 = *ParsePrecision("bf16");
  EXPECT_EQ(bf16.compute, DType::kBF16);
  EXPECT_EQ(bf16.gradients, DType::kF32);
  EXPECT_EQ(bf16.moments, DType::kF32);
  EXPECT_EQ(bf16.master, DType::kF32);
}

// Bits of an element and of the scales that elements share: OCP Microscaling Formats 1.0, table 1 (32
// elements and 8 bits of scale), NVIDIA 2025 (NVFP4: 16 elements, 8 bits), DeepSeek-AI 2024 (128 elements,
// fp32).
TEST(Precision, FormatsOfProducts) {
  const auto bits = [](const char* precision) {
    return 8 * FiguresOf(ParsePrecision(precision)->products).Bytes();
  };
  EXPECT_EQ(bits("fp8"), 8);
  EXPECT_EQ(bits("fp8_block"), 8 + 32.0 / 128);
  EXPECT_EQ(bits("mxfp8"), 8 + 8.0 / 32);
  EXPECT_EQ(bits("nvfp4"), 4 + 8.0 / 16);
  EXPECT_EQ(bits("bf16"), 0) << "its products are in no other format";
  for (const char* name : {"fp8", "fp8_block", "mxfp8", "nvfp4"}) {
    EXPECT_EQ(BaseName(*ParsePrecision(name)), name);
    EXPECT_EQ(ParsePrecision(name)->compute, DType::kBF16);
    EXPECT_EQ(CheckEngineRuns(*ParsePrecision(name)).message(),
              std::string("running ") + name + " is not supported yet; give fp64, fp32, bf16 or fp16");
  }
  EXPECT_EQ(PrecisionText(*ParsePrecision("nvfp4:grads=bf16")), "nvfp4:grads=bf16");
}

TEST(Precision, TypesOfStates) {
  const Precision narrow = *ParsePrecision("bf16:master=none,grads=bf16,moments=bf16");
  EXPECT_EQ(narrow.compute, DType::kBF16);
  EXPECT_EQ(narrow.gradients, DType::kBF16);
  EXPECT_EQ(narrow.moments, DType::kBF16);
  EXPECT_EQ(narrow.master, std::nullopt);
  EXPECT_EQ(PrecisionText(narrow), "bf16:grads=bf16,moments=bf16,master=none");
  EXPECT_EQ(BaseName(narrow), "bf16");
  EXPECT_EQ(*ParsePrecision(PrecisionText(narrow)), narrow);
  EXPECT_EQ(PrecisionText(*ParsePrecision("bf16:grads=fp32,master=fp32")), "bf16") << "those of the base";
  EXPECT_EQ(PrecisionText(*ParsePrecision("fp8:moments=int8")), "fp8:moments=int8");
  EXPECT_EQ(PrecisionText(*ParsePrecision("fp32:grads=bf16")), "fp32:grads=bf16");
  EXPECT_EQ(PrecisionText(*ParsePrecision("fp64:moments=fp64,master=none")), "fp64");
}

TEST(Precision, WrongTypesOfStatesAreNamed) {
  const auto says = [](std::string_view text) {
    return std::string(ParsePrecision(text).status().message());
  };
  EXPECT_EQ(says("bf16:grads=fp16"), "grads=fp16 is not possible in bf16; expected fp32 or bf16");
  EXPECT_EQ(says("bf16:grads=fp17"), "grads=fp17 is not possible in bf16; expected fp32 or bf16");
  EXPECT_EQ(says("fp64:moments=bf16"), "moments=bf16 is not possible in fp64; expected fp64");
  EXPECT_EQ(says("fp32:master=fp32"), "master=fp32 is not possible in fp32; expected none");
  EXPECT_EQ(says("bf16:moments=none"),
            "moments=none is not possible in bf16; expected fp32, bf16, fp16 or int8");
  EXPECT_EQ(says("bf16:grads=bf16,grads=bf16"), "precision names grads twice");
  for (const char* text : {"bf16:", "bf16:grads=bf16,", "bf16:weights=bf16", "bf16:grads"}) {
    EXPECT_THAT(says(text),
                HasSubstr(text == std::string("bf16:grads") ? "grads= is not possible"
                                                            : "in a precision; expected grads=TYPE"))
        << text;
  }
}

TEST(Precision, WhatTheEngineDoesNotRunIsNamed) {
  for (const char* text : {"fp32", "fp64", "bf16", "fp16", "bf16:grads=bf16,moments=bf16,master=none"})
    EXPECT_TRUE(CheckEngineRuns(*ParsePrecision(text)).ok()) << text;
  const auto says = [](std::string_view text) {
    return std::string(CheckEngineRuns(*ParsePrecision(text)).message());
  };
  EXPECT_EQ(says("fp8"), "running fp8 is not supported yet; give fp64, fp32, bf16 or fp16");
  EXPECT_EQ(says("bf16:moments=int8"), "moments=int8 can be predicted, not run; give fp32 or bf16");
  EXPECT_EQ(says("fp16:grads=fp16"), "grads=fp16 can be predicted, not run; give fp32");
  EXPECT_EQ(says("bf16:master=fp16"), "master=fp16 can be predicted, not run; give fp32, bf16 or none");
}

}  // namespace
}  // namespace autocfg
