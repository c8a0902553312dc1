// Each row of the tables of fields: its field goes through JSON and through the message, and the
// documentation has it.
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fields.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/convert/message_fields.h"
#include "search/plan/model_spec.h"
#include "search/predict/predict_plan.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "tests/proto/convert/wire.h"
#include "tests/support/field_samples.h"
#include "tests/support/random_features.h"

namespace autocfg {
namespace {

using test::ChangedIn;
using test::FormatsPage;
using test::Wire;

// Models of which at least one takes any value of any field.
std::vector<ModelSpec> SomeModels() {
  ModelSpec rope{.name = "m", .layers = 4, .hidden = 64, .heads = 4, .vocab = 100};
  rope.position = Position::kRope;
  rope.layer_kinds = {{.layers = 4, .window = 8}};
  ModelSpec parallel{.name = "m", .layers = 4, .hidden = 64, .heads = 4, .vocab = 100};
  parallel.kv_heads = 1;
  parallel.parallel_residual = true;
  FillDefaults(rope);
  FillDefaults(parallel);
  return {rope, parallel};
}

TEST(ModelFields, GoThroughJsonAndTheMessage) {
  for (const ModelField& field : ModelFields()) {
    std::size_t tried = 0;
    for (const ModelSpec& some : SomeModels()) {
      for (const ModelSpec& model : ChangedIn(field, some)) {
        if (!Validate(model).ok()) continue;
        ++tried;
        if (model.position == Position::kRope || field.name != "rope_theta") {
          const auto read = ParseModelText(ModelJson(model).dump());
          ASSERT_TRUE(read.ok()) << field.name << ": " << read.status();
          EXPECT_EQ(*read, model) << field.name;
        }
        const auto received = FromProto(Wire(ToProto(model)));
        ASSERT_TRUE(received.ok()) << field.name << ": " << received.status();
        EXPECT_EQ(*received, model) << field.name;
      }
    }
    EXPECT_GE(tried, std::max<std::size_t>(field.names.size(), 2) - 1) << field.name;
  }
}

// `names`: fields of the message that have no row.
template <typename Rows>
std::set<std::string> NamesOf(const Rows& rows, std::set<std::string> names = {}) {
  for (const base::FieldTraits& row : rows) names.emplace(row.name);
  return names;
}

std::set<std::string> FieldsOf(const google::protobuf::Descriptor& message) {
  std::set<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.insert(message.field(i)->name());
  return names;
}

TEST(ModelFields, AreThoseOfTheMessage) {
  std::set<std::string> others = NamesOf(LayerPatternFields(), {"rope_scaling_parameters", "layer_kinds"});
  EXPECT_EQ(NamesOf(ModelFields(), std::move(others)), FieldsOf(*v1::ModelSpec::descriptor()));
  EXPECT_EQ(NamesOf(LayerRunFields()), FieldsOf(*v1::LayerRun::descriptor()));
  EXPECT_EQ(NamesOf(RopeScalingFields()), FieldsOf(*v1::RopeScalingParameters::descriptor()));
}

// A model of each scaling, with all parameters that it needs.
std::vector<ModelSpec> ScaledModels() {
  std::vector<ModelSpec> models;
  for (int i = 1; i < kRopeScalingCount; ++i) {
    ModelSpec model = SomeModels()[0];
    model.layer_kinds.clear();
    model.rope_scaling = static_cast<RopeScaling>(i);
    RopeScalingParameters& parameters = model.rope_scaling_parameters;
    if (model.rope_scaling != RopeScaling::kLongRope) parameters.factor = 8;
    if (model.rope_scaling == RopeScaling::kLlama3) parameters = Llama3Scaling(8);
    if (model.rope_scaling == RopeScaling::kLlama3) parameters.low_freq_factor = 0.25;
    if (model.rope_scaling == RopeScaling::kYarn) parameters.beta_slow = 0.25;
    if (model.rope_scaling == RopeScaling::kLongRope)
      parameters.short_factor = parameters.long_factor = std::vector<double>(8, 1.5);
    models.push_back(model);
  }
  return models;
}

TEST(RopeScalingFields, GoThroughJsonAndTheMessage) {
  for (const RopeScalingField& field : RopeScalingFields()) {
    int tried = 0;
    for (ModelSpec model : ScaledModels()) {
      if (Has(model.rope_scaling, field)) {
        const base::FieldValue other = test::OtherValues(field, field.Get(model.rope_scaling_parameters))[0];
        field.Set(model.rope_scaling_parameters,
                  field.type == base::FieldType::kNumbers ? std::vector<double>(8, 1.25) : other);
        ++tried;
      }
      ASSERT_TRUE(Validate(model).ok()) << field.name << ": " << Validate(model);
      EXPECT_TRUE(CheckEngineSupports(model).ok()) << field.name;
      const auto read = ParseModelText(ModelJson(model).dump());
      ASSERT_TRUE(read.ok()) << field.name << ": " << read.status();
      EXPECT_EQ(*read, model) << field.name;
      const auto received = FromProto(Wire(ToProto(model)));
      ASSERT_TRUE(received.ok()) << field.name << ": " << received.status();
      EXPECT_EQ(*received, model) << field.name;
    }
    EXPECT_GE(tried, 1) << field.name;
  }
}

// Older files and messages have the name alone.
TEST(RopeScalingFields, ANameAloneIsReadAndWritten) {
  ModelSpec model = SomeModels()[0];
  model.rope_scaling = RopeScaling::kYarn;
  EXPECT_EQ(ModelJson(model)["rope_scaling"], "yarn");
  EXPECT_EQ(*ParseModelJson(ModelJson(model)), model);
  v1::ModelSpec message = ToProto(model);
  EXPECT_EQ(message.rope_scaling(), "yarn");
  EXPECT_FALSE(message.has_rope_scaling_parameters());
  EXPECT_EQ(*FromProto(message), model);
  message.set_rope_scaling("magic");
  EXPECT_THAT(std::string(FromProto(message).status().message()),
              testing::HasSubstr("unknown rope_scaling 'magic'; expected none, linear,"));
}

TEST(RopeScalingFields, JsonIsRefusedByName) {
  const auto says = [](const char* scaling) {
    nlohmann::ordered_json json = ModelJson(SomeModels()[0]);
    json["rope_scaling"] = nlohmann::ordered_json::parse(scaling);
    return std::string(ParseModelJson(json).status().message());
  };
  using testing::HasSubstr;
  EXPECT_EQ(says(R"({"type": "none"})"), "");
  EXPECT_THAT(says(R"({"factor": 8})"), HasSubstr("rope_scaling: type is missing"));
  EXPECT_THAT(says(R"({"type": "magic", "factor": 8})"), HasSubstr("unknown rope_scaling 'magic'"));
  EXPECT_THAT(says(R"({"type": "linear", "factor": "8"})"), HasSubstr("rope_scaling: factor"));
  EXPECT_THAT(says(R"({"type": "linear", "factors": 8})"), HasSubstr("rope_scaling: "));
  EXPECT_THAT(says(R"({"type": "linear", "mscale": 8})"), HasSubstr("rope_scaling: factor is missing"));
  EXPECT_THAT(says(R"({"type": "longrope", "short_factor": [1, "2"]})"),
              HasSubstr("rope_scaling: short_factor must be a list of finite numbers"));
  EXPECT_THAT(says("[8]"), HasSubstr("rope_scaling"));
}

TEST(LayerKinds, GoThroughJsonAndTheMessage) {
  for (const base::Field<LayerRun>& field : LayerRunFields()) {
    ModelSpec model = SomeModels()[0];
    const LayerRun usual{.layers = 1};
    const auto changed = ChangedIn(field, usual);
    model.layer_kinds = {usual, changed[0]};
    model.layer_kinds[1].layers = 3;
    if (field.name == "layers") model.layer_kinds[1].window = 8;
    ASSERT_TRUE(Validate(model).ok()) << field.name << ": " << Validate(model);
    EXPECT_EQ(CheckEngineSupports(model).ok(), field.name != "experts") << field.name;
    const auto read = ParseModelText(ModelJson(model).dump());
    ASSERT_TRUE(read.ok()) << field.name << ": " << read.status();
    EXPECT_EQ(*read, model) << field.name;
    const auto received = FromProto(Wire(ToProto(model)));
    ASSERT_TRUE(received.ok()) << field.name << ": " << received.status();
    EXPECT_EQ(*received, model) << field.name;
  }
}

TEST(LayerKinds, OlderFieldsAreReadIntoThem) {
  ModelSpec model = SomeModels()[0];
  model.layer_kinds.clear();
  for (const base::Field<LayerPattern>& field : LayerPatternFields()) {
    LayerPattern pattern{.sliding_window = field.name == "sliding_window_pattern" ? 8 : 0};
    field.Set(pattern, std::int64_t{2});
    ModelSpec expected = model;
    ASSERT_TRUE(ApplyPattern(pattern, expected).ok());
    EXPECT_FALSE(expected.layer_kinds.empty());
    nlohmann::ordered_json json = ModelJson(model);
    base::WriteFields(LayerPatternFields(), pattern, json);
    EXPECT_EQ(*ParseModelJson(json), expected) << field.name;
    v1::ModelSpec message = ToProto(model);
    FieldsToMessage(LayerPatternFields(), pattern, message);
    EXPECT_EQ(*FromProto(Wire(message)), expected) << field.name;
    // Beside the kinds they are refused.
    *message.add_layer_kinds() = ToProto(expected).layer_kinds(0);
    EXPECT_THAT(std::string(FromProto(message).status().message()),
                testing::HasSubstr("and layer_kinds are both given; leave one of them out"));
    json["layer_kinds"] = nlohmann::ordered_json::parse(R"([{"layers": 4}])");
    EXPECT_THAT(std::string(ParseModelJson(json).status().message()),
                testing::HasSubstr("and layer_kinds are both given; leave one of them out"));
  }
}

TEST(LayerKinds, EqualModelsHaveEqualRuns) {
  const auto read = [](const char* kinds) {
    nlohmann::ordered_json json = ModelJson(SomeModels()[1]);
    json["position"] = "rope";
    json["layer_kinds"] = nlohmann::ordered_json::parse(kinds);
    return ParseModelJson(json)->layer_kinds;
  };
  EXPECT_EQ(read(R"([{"layers": 3}, {"layers": 1, "rotary": true, "rope_theta": 10000}])"),
            std::vector<LayerRun>());
  EXPECT_EQ(read(R"([{"layers": 1, "window": 8}, {"layers": 2, "window": 8}, {"layers": 1}])"),
            (std::vector<LayerRun>{{.layers = 3, .window = 8}, {.layers = 1}}));
}

TEST(LayerKinds, AreRefusedByName) {
  const auto says = [](const char* kinds) {
    nlohmann::ordered_json json = ModelJson(SomeModels()[1]);
    json["position"] = "rope";
    json["layer_kinds"] = nlohmann::ordered_json::parse(kinds);
    return std::string(ParseModelJson(json).status().message());
  };
  using testing::HasSubstr;
  EXPECT_EQ(says(R"([{"layers": 4, "window": 4, "rope_theta": 100.0}])"), "");
  EXPECT_THAT(says(R"([{"layers": 4, "window": 0}])"),
              HasSubstr("layer_kinds[0]: window is 0; it must be at least 1"));
  EXPECT_THAT(says(R"([{"layers": 3}, {"layers": 1, "chunk": 0}])"),
              HasSubstr("layer_kinds[1]: chunk is 0; it must be at least 1"));
  EXPECT_THAT(says(R"([{"layers": 1}, {"layers": 2, "window": 4}])"),
              HasSubstr("layer_kinds has runs of 3 layers in all, but layers is 4; make them equal"));
  EXPECT_THAT(says(R"([{"layers": 4, "window": 4, "chunk": 8}])"),
              HasSubstr("layer_kinds[0]: chunk is 8, and window is 4; give one of them"));
  EXPECT_THAT(says(R"([{"layers": 3}, {"layers": 1, "rotary": false, "rope_theta": 9}])"),
              HasSubstr("layer_kinds[1]: rope_theta is 9, but rotary is false"));
  EXPECT_THAT(says(R"([{"layers": 4, "rotary": false}])"),
              HasSubstr("layer_kinds has no layer with rotary positions; set position to none"));
  EXPECT_THAT(says(R"([{"layers": 4, "rope_theta": 0.5}])"),
              HasSubstr("layer_kinds[0]: rope_theta is 0.5; it must be from 1 to 1e+12"));
  EXPECT_THAT(says(R"([{"layers": 4, "rope_theta": 0}])"), HasSubstr("layer_kinds[0]: rope_theta is 0"));
  EXPECT_THAT(says(R"([{"layers": 200000}])"),
              HasSubstr("layer_kinds[0]: layers is 200000; it must be from 1 to 100000"));
  EXPECT_THAT(says(R"([{"window": 4}])"), HasSubstr("layer_kinds[0]: layers is missing"));
  EXPECT_THAT(says(R"([{"layers": 4, "windows": 4}])"), HasSubstr("layer_kinds[0]: "));
  EXPECT_THAT(says("[4]"), HasSubstr("layer_kinds[0]"));
  EXPECT_THAT(says("[]"), HasSubstr("layer_kinds is []; it must be a list of runs of layers"));
  EXPECT_THAT(says("4"), HasSubstr("layer_kinds is 4; it must be a list of runs of layers"));
  ModelSpec model = SomeModels()[1];
  model.layer_kinds = {{.layers = 4, .rotary = false}};
  EXPECT_THAT(std::string(Validate(model).message()),
              HasSubstr("layer_kinds[0]: rotary is false, but position is learned"));
  model.layer_kinds = {{.layers = 4, .rope_theta = 100}};
  EXPECT_THAT(std::string(Validate(model).message()),
              HasSubstr("layer_kinds[0]: rope_theta is 100, but position is learned"));
  model.layer_kinds = {{.layers = 4, .experts = true}};
  EXPECT_THAT(std::string(CheckPredictable(model).message()),
              HasSubstr("layer_kinds[0]: experts true is not supported yet; leave it out"));
  model.layers = 65;
  model.layer_kinds.clear();
  for (int i = 1; i <= 65; ++i) model.layer_kinds.push_back({.layers = 1, .window = i});
  EXPECT_THAT(std::string(Validate(model).message()),
              HasSubstr("layer_kinds has more than 64 different kinds"));
  // A longer sequence has whole chunks.
  model = SomeModels()[1];
  model.layer_kinds = {{.layers = 4, .chunk = 8}};
  for (const std::int64_t seq_len : {7, 8, 16})
    EXPECT_TRUE(Validate(Workload{.global_batch = 1, .seq_len = seq_len}, model).ok()) << seq_len;
  EXPECT_THAT(std::string(Validate(Workload{.global_batch = 1, .seq_len = 12}, model).message()),
              HasSubstr("seq_len is 12, which the chunks of 8 tokens of layer_kinds do not divide"));
}

// What predictions say of a model, with and without fused attention.
std::vector<double> PredictionsOf(const ModelSpec& model) {
  const Workload workload{.global_batch = 8, .seq_len = 1024, .precision = *ParsePrecision("bf16")};
  auto predictor = Predictor::Create({model, workload, *PresetCluster("a100-80gb-sxm:1x4")});
  std::vector<double> said = {static_cast<double>(ParameterCount(model))};
  for (const Attention attention : {Attention::kFused, Attention::kUnfused}) {
    if (!predictor.ok()) return {};
    const auto result = predictor->Predict({{.dp = 4}, {.attention = attention}});
    if (!result.ok()) return {};
    said.push_back(result->prediction.step_time_s);
    said.push_back(static_cast<double>(result->prediction.memory.Total()));
  }
  return said;
}

// A row that says that its field is predicted, though nothing reads the field, fails here.
TEST(ModelFields, HaveAnEffectOnPredictions) {
  const std::set<std::string_view> no_cost = {
      "name",           "norm_eps",          "rope_theta",      "init_std",
      "rope_scaling",   "parallel_residual", "attention_scale", "attention_softcap",
      "output_softcap", "undescribed",       "max_seq_len"};  // the sample is shorter than the workload's sequences
  for (const ModelField& field : ModelFields()) {
    bool has_effect = false;
    for (const ModelSpec& some : SomeModels()) {
      for (const ModelSpec& model : ChangedIn(field, some)) {
        const auto said = Validate(model).ok() ? PredictionsOf(model) : std::vector<double>();
        if (!said.empty() && said != PredictionsOf(some)) has_effect = true;
      }
    }
    EXPECT_EQ(has_effect, !no_cost.contains(field.name)) << field.name;
  }
}

TEST(ModelFields, FeaturesThatAreRunAreInRandomModels) {
  std::set<std::string_view> missing;
  for (const ModelField& feature : ModelFeatures()) {
    if (feature.support == Support::kRun) missing.insert(feature.name);
  }
  std::set<std::string> missing_of_kinds = NamesOf(LayerRunFields());
  missing_of_kinds.erase("experts");  // not supported yet
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    ModelSpec model = SomeModels()[0];
    model.layer_kinds.clear();
    test::AddRandomFeatures(model, random, /*predicted_only=*/false);
    for (const LayerRun& run : model.layer_kinds) {
      std::erase_if(missing_of_kinds, [&](std::string_view name) {
        return std::ranges::any_of(LayerRunFields(), [&](const base::Field<LayerRun>& field) {
          return field.name == name && !field.IsDefault(run);
        });
      });
    }
    std::erase_if(missing, [&](std::string_view name) {
      return std::ranges::any_of(ModelFeatures(), [&](const ModelField& feature) {
        return feature.name == name && !feature.IsDefault(model);
      });
    });
  }
  EXPECT_THAT(missing, testing::IsEmpty()) << "tests/support/random_features.h";
  EXPECT_THAT(missing_of_kinds, testing::IsEmpty()) << "tests/support/random_features.h";
}

// Which fields are written at their defaults is part of the format.
TEST(ModelFields, DefaultsThatAreWritten) {
  EXPECT_EQ(ModelJson(SomeModels()[1]).dump(),
            R"({"name":"m","layers":4,"hidden":64,"heads":4,"kv_heads":1,"head_dim":16,"ffn_hidden":256,)"
            R"("vocab":100,"max_seq_len":1024,"activation":"gelu","norm":"layernorm","norm_eps":1e-05,)"
            R"("position":"learned","bias":true,"tied_embeddings":true,"init_std":0.02,"vocab_multiple":128,)"
            R"("parallel_residual":true})");
}

// `has_zero`: a number of 0 is a value, not the lack of one.
std::string ValuesOf(const base::FieldTraits& field, bool has_zero = false) {
  switch (field.type) {
    case base::FieldType::kFlag: return "true, false";
    case base::FieldType::kSize: return fmt::format("{:.0f} to {:.0f}", field.least, field.most);
    case base::FieldType::kNumber:
      return fmt::format("{} {:g}",
                         field.least > 0 || has_zero ? fmt::format("{:g} to", field.least) : "above 0, to",
                         field.most);
    case base::FieldType::kName: return fmt::format("{}", fmt::join(field.names, ", "));
    case base::FieldType::kNumbers: return "numbers above 0, one for each pair of dims that rotate";
    case base::FieldType::kText: break;
  }
  return "a text";
}

template <typename Struct>
std::string DefaultOf(const base::Field<Struct>& field) {
  if (field.required) return "required";
  if (!field.default_note.empty()) return std::string(field.default_note);
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, *field.Get(Struct()));
}

std::string ScalingsOf(std::span<const RopeScaling> scalings) {
  std::vector<std::string_view> names;
  for (const RopeScaling scaling : scalings) names.push_back(Name(scaling));
  return fmt::format("{}", fmt::join(names, ", "));
}

// A described cluster with a GPU, and rows whose every figure goes through.
ClusterSpec DescribedCluster() {
  ClusterSpec cluster = *PresetCluster("a100-80gb-sxm:2x4");
  cluster.groups[0].device.efficiency = {};
  cluster.groups[0].device.overhead_bytes.reset();
  return cluster;
}

// Changes each field in turn; `part`: the struct in the cluster that has it.
template <typename Struct>
void ExpectFieldsGoThrough(std::span<const base::Field<Struct>> fields, Struct& (*part)(ClusterSpec&)) {
  for (const base::Field<Struct>& field : fields) {
    ClusterSpec some = DescribedCluster();
    if (field.name == "ranks_per_core") some.local = true;
    for (const Struct& changed : ChangedIn(field, part(some))) {
      ClusterSpec cluster = some;
      part(cluster) = changed;
      if (field.name == "memory_bytes") field.Set(part(cluster), std::int64_t{1} << 30);
      if (field.name == "ranks_per_core") field.Set(part(cluster), 2.0);
      const auto read = ParseClusterJson(ClusterJson(cluster));
      ASSERT_TRUE(read.ok()) << field.name << ": " << read.status();
      EXPECT_EQ(*read, cluster) << field.name;
      const auto received = FromProto(Wire(ToProto(cluster)));
      ASSERT_TRUE(received.ok()) << field.name << ": " << received.status();
      EXPECT_EQ(*received, cluster) << field.name;
    }
    EXPECT_NE(FormatsPage().find(field.name), std::string::npos) << field.name;
  }
}

TEST(ClusterFields, GoThroughJsonAndTheMessage) {
  ExpectFieldsGoThrough(
      NodeGroupFields(), +[](ClusterSpec& c) -> NodeGroup& { return c.groups[0]; });
  ExpectFieldsGoThrough(
      DeviceFields(), +[](ClusterSpec& c) -> DeviceSpec& { return c.groups[0].device; });
  ExpectFieldsGoThrough(
      RateFields(), +[](ClusterSpec& c) -> DeviceSpec& { return c.groups[0].device; });
  ExpectFieldsGoThrough(
      EfficiencyFields(), +[](ClusterSpec& c) -> DeviceEfficiency& { return c.groups[0].device.efficiency; });
}

TEST(ClusterFields, AreThoseOfTheMessages) {
  EXPECT_EQ(NamesOf(NodeGroupFields(), {"device"}), FieldsOf(*v1::NodeGroup::descriptor()));
  EXPECT_EQ(NamesOf(DeviceFields(), {"flops_per_s", "efficiency"}), FieldsOf(*v1::DeviceSpec::descriptor()));
  EXPECT_EQ(NamesOf(EfficiencyFields()), FieldsOf(*v1::DeviceEfficiency::descriptor()));
}

std::string_view SupportOf(const ModelField& field) {
  switch (field.support) {
    case Support::kNone: return "refused";
    case Support::kPredicted: return "predicted";
    case Support::kRun: return "run";
  }
  return "";
}

TEST(ModelFields, StandInTheDocumentationAsInTheTable) {
  std::string table;
  for (const ModelField& field : ModelFields()) {
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name, field.summary, DefaultOf(field),
                         ValuesOf(field, /*has_zero=*/!field.Get(ModelSpec())), SupportOf(field));
  }
  EXPECT_TRUE(FormatsPage().find(table) != std::string::npos) << "docs/formats.md lacks this table:\n"
                                                              << table;
}

template <typename Rows>
void ExpectDocumented(const Rows& rows) {
  std::string table;
  for (const auto& field : rows) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", field.name, field.summary, DefaultOf(field),
                         ValuesOf(field));
  }
  EXPECT_TRUE(FormatsPage().find(table) != std::string::npos) << "docs/formats.md lacks this table:\n"
                                                              << table;
}

TEST(LayerKinds, StandInTheDocumentationAsInTheTables) {
  ExpectDocumented(LayerRunFields());
  ExpectDocumented(LayerPatternFields());
}

TEST(RopeScalingFields, StandInTheDocumentationAsInTheTable) {
  std::string table;
  for (const RopeScalingField& field : RopeScalingFields()) {
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", field.name, field.summary,
                         ScalingsOf(field.needed_by), ScalingsOf(field.taken_by),
                         field.taken_by.empty() ? "" : DefaultOf(field), ValuesOf(field));
  }
  EXPECT_TRUE(FormatsPage().find(table) != std::string::npos) << "docs/formats.md lacks this table:\n"
                                                              << table;
}

}  // namespace
}  // namespace autocfg
