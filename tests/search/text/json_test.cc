// Tests models and clusters as JSON and by name: fields, defaults, presets, and arbitrary bytes.
#include "nlohmann/json.hpp"

#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/json_reader.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string ModelError(std::string_view text) {
  const auto model = ParseModelText(text);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(model.status().message());
}

TEST(ModelJson, DefaultsOfGpt2) {
  const auto model = ParseModelText(R"({"layers": 2, "hidden": 64, "heads": 4, "vocab": 100})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->kv_heads, 4);
  EXPECT_EQ(model->head_dim, 16);
  EXPECT_EQ(model->ffn_hidden, 256);
  EXPECT_EQ(model->max_seq_len, 0) << "depends on the sequence length asked for";
  EXPECT_EQ(model->activation, Activation::kGelu);
  EXPECT_EQ(model->norm_eps, 1e-5);
  EXPECT_EQ(model->init_std, 0.02);
  EXPECT_EQ(model->vocab_multiple, 128);
  EXPECT_TRUE(model->qkv_bias && model->attention_out_bias && model->mlp_bias);
  EXPECT_TRUE(model->tied_embeddings);
}

TEST(ModelJson, RejectsBadFields) {
  EXPECT_THAT(ModelError(""), HasSubstr("model: not valid JSON at line 1"));
  EXPECT_THAT(ModelError("{\n  \"layers\": 2,\n  oops }"),
              AllOf(HasSubstr("line 3, column"), HasSubstr("unexpected")));
  EXPECT_THAT(ModelError("[]"), HasSubstr("model: [] is not a JSON object; give one"));
  EXPECT_THAT(ModelError("{}"), HasSubstr("layers is missing"));
  EXPECT_THAT(ModelError(R"({"layers": 2, "hiden": 384, "heads": 4, "vocab": 100})"),
              HasSubstr("hidden is missing, and hiden is unknown; write hidden in its place"));
  EXPECT_THAT(ModelError(R"({"layers": 2, "head_dim": 64, "hidden": 64, "vocab": 100})"),
              HasSubstr("heads is missing; add it"));
  const absl::Status experts =
      ParseModelText(R"({"layers": 2, "hidden": 64, "heads": 4, "vocab": 100, "num_experts": 8})").status();
  EXPECT_TRUE(absl::IsUnimplemented(experts));
  EXPECT_THAT(std::string(experts.message()),
              HasSubstr("num_experts says that this is a mixture of experts, which is not supported yet"));
  EXPECT_THAT(ModelError(R"({"layers": 2, "hidden": 64, "heads": 4})"), HasSubstr("vocab is missing"));
  const auto with = [](const std::string& field) {
    return ModelError(R"({"layers": 2, "hidden": 64, "heads": 4, "vocab": 100, )" + field + "}");
  };
  EXPECT_THAT(with(R"("layrs": 1)"),
              AllOf(HasSubstr("unknown field layrs"), HasSubstr("did you mean layers?")));
  EXPECT_THAT(with(R"("layers": 3)"), HasSubstr("\"layers\" is named twice"));
  EXPECT_THAT(with(R"("kv_heads": 0)"), HasSubstr("kv_heads is 0; it must be at least 1"));
  EXPECT_THAT(with(R"("kv_heads": -4)"), HasSubstr("kv_heads is -4; it must be at least 1"));
  EXPECT_THAT(with(R"("kv_heads": 3)"), HasSubstr("kv_heads = 3 does not divide heads = 4"));
  EXPECT_THAT(with(R"("kv_heads": 8)"), HasSubstr("kv_heads = 8 does not divide heads = 4"));
  EXPECT_THAT(with(R"("rope_theta": 500000)"), HasSubstr("rope_theta is 500000, but position is learned"));
  EXPECT_THAT(with(R"("position": "rope", "head_dim": 15)"),
              HasSubstr("head_dim is 15; rotary positions need an even one"));
  EXPECT_THAT(with(R"("ffn_hidden": "4")"), HasSubstr("ffn_hidden is \"4\"; it must be a whole number"));
  EXPECT_THAT(with(R"("ffn_hidden": 1.5)"), HasSubstr("ffn_hidden is 1.5; it must be a whole number"));
  EXPECT_THAT(with(R"("ffn_hidden": 1e300)"),
              HasSubstr("ffn_hidden is 1e+300; it must be a whole number within 9007199254740992 of 0"));
  EXPECT_THAT(with(std::string("\0", 1)), HasSubstr("unexpected \"\\x00\""));
  EXPECT_THAT(with(R"("ffn_hidden": 1e400)"), HasSubstr("too large"));
  EXPECT_THAT(with(R"("ffn_hidden": 18446744073709551615)"),
              HasSubstr("ffn_hidden is 18446744073709551615; it must be at most"));
  EXPECT_THAT(with(R"("ffn_hidden": 9223372036854775807)"), HasSubstr("ffn_hidden is 9223372036854775807"));
  EXPECT_THAT(with(R"("ffn_hidden": NaN)"), HasSubstr("not valid JSON"));
  EXPECT_THAT(with(R"("norm_eps": -1)"),
              HasSubstr("norm_eps is -1; it must be a finite number, not negative"));
  EXPECT_THAT(with(R"("norm_eps": 0)"), HasSubstr("norm_eps is 0"));
  EXPECT_THAT(with(R"("activation": "gelo")"),
              HasSubstr("unknown activation 'gelo'; expected gelu, gelu_erf, relu, swiglu, geglu or "
                        "squared_relu; did you mean gelu"));
  EXPECT_THAT(with(R"("activation": 3)"), HasSubstr("activation is 3; it must be a string"));
  EXPECT_THAT(with(R"("qk_norm": "heads")"),
              HasSubstr("unknown qk_norm 'heads'; expected none, head or full; did you mean head"));
  EXPECT_THAT(with(R"("norm_placement": "post")"),
              HasSubstr("unknown norm_placement 'post'; expected pre, output or sandwich"));
  EXPECT_THAT(with(R"("sliding_window": -1)"), HasSubstr("sliding_window is -1; it must be at least 0"));
  EXPECT_THAT(with(R"("bias": 1)"), HasSubstr("bias is 1; it must be true or false"));
  EXPECT_THAT(with("\"name\": \"\xff\xfe\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(ModelError(R"({"layers": 2, "hidden": 65, "heads": 4, "vocab": 100})"),
              HasSubstr("does not divide hidden"));
  EXPECT_THAT(ModelError(std::string(100'000, '[')), HasSubstr("nested deeper"));
}

TEST(ModelJson, Presets) {
  EXPECT_THAT(ModelPresetNames(), Contains("gpt2-124m"));
  for (const std::string& name : ModelPresetNames()) {
    const auto model = ModelPreset(name);
    ASSERT_TRUE(model.ok()) << name << ": " << model.status();
    EXPECT_EQ(model->name, name);
  }
  // Sizes of the released weights.
  EXPECT_EQ(ParameterCount(*ModelPreset("gpt2-124m")), 124'439'808);
  EXPECT_EQ(ParameterCount(*ModelPreset("gpt2-1.5b")), 1'557'611'200);
  const auto unknown = ModelPreset("gpt2-125m");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("did you mean gpt2-124m"));
  EXPECT_EQ(ModelPreset(std::string(1 << 20, 'x')).status().code(), absl::StatusCode::kNotFound);
}

constexpr std::string_view kCluster =
    R"({"name": "c", "device": {"name": "d", "kind": "cpu", "memory_bytes": 1000000,
    "memory_bytes_per_s": 1e10, "flops_per_s": {"fp32": 1e11}, "multiprocessors": 3, "overhead_bytes": 5000,
    "efficiency": {"matmul": 0.8, "matmul_k_half": 150, "attention_forward": 0.9, "attention_backward": 0.7,
    "attention_head_dim_half": 24, "memory": 0.75, "intra_node_message": 0.1, "inter_node_message": 0.2, "optimizer": 0.3, "data_exposed": 0.4, "overlap_contention": 0.25,
    "intra_node": 0.6, "inter_node": 0.5, "op_overhead_s": 4e-6}}, "nodes": 2, "gpus_per_node": 4,
    "intra_node_bytes_per_s": 1e9, "inter_node_bytes_per_s": 1e8, "intra_node_latency_s": 1e-6,
    "inter_node_latency_s": 1e-5, "host_op_s": 2e-5, "ranks_per_core": 2, "local": true})";

TEST(ClusterJson, RoundTrips) {
  const auto cluster = ParseClusterJson(Json::parse(kCluster));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(RankCount(*cluster), 8);
  EXPECT_EQ(MemoryCapacity(*cluster), 1'000'000);
  EXPECT_TRUE(cluster->local);
  EXPECT_EQ(cluster->groups[0].device.flops_per_s_fp32, 1e11);
  EXPECT_EQ(cluster->groups[0].host_op_s, 2e-5);
  EXPECT_EQ(cluster->groups[0].device.efficiency.overlap_contention, 0.25);
  const auto again = ParseClusterJson(Json::parse(ClusterJson(*cluster).dump()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *cluster);
}

TEST(ClusterJson, AFieldOfTheDeviceIsNamedAsOne) {
  Json json = Json::parse(kCluster);
  json["efficiency"] = {{"memory", 0.5}};
  EXPECT_THAT(std::string(ParseClusterJson(json).status().message()),
              HasSubstr("efficiency is a field of the device; write it as device.efficiency"));
}

// A missing overhead, latency or host time is unknown; 0 is a known value.
TEST(ClusterJson, MissingIsNotZero) {
  Json json = Json::parse(kCluster);
  json["device"]["efficiency"]["op_overhead_s"] = json["intra_node_latency_s"] = 0;
  json["host_op_s"] = 0;
  json.erase("inter_node_latency_s");
  const auto cluster = ParseClusterJson(json);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->groups[0].device.efficiency.op_overhead_s, 0);
  EXPECT_EQ(cluster->groups[0].intra_node_latency_s, 0);
  EXPECT_EQ(cluster->groups[0].inter_node_latency_s, std::nullopt);
  EXPECT_EQ(cluster->groups[0].host_op_s, 0);
  EXPECT_EQ(*ParseClusterJson(ClusterJson(*cluster)), *cluster);
  json.erase("host_op_s");
  EXPECT_EQ(ParseClusterJson(json)->groups[0].host_op_s, std::nullopt);
  EXPECT_FALSE(ClusterJson(*ParseClusterJson(json)).contains("host_op_s"));
}

TEST(ClusterJson, ZeroOverheadIsAllowed) {
  Json json = Json::parse(kCluster);
  json["device"]["overhead_bytes"] = 0;
  const auto cluster = ParseClusterJson(json);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->groups[0].device.overhead_bytes, 0);
  EXPECT_EQ(*ParseClusterJson(ClusterJson(*cluster)), *cluster);
  json["device"].erase("overhead_bytes");
  EXPECT_EQ(ParseClusterJson(json)->groups[0].device.overhead_bytes, std::nullopt);
  EXPECT_EQ(*ParseClusterJson(ClusterJson(*ParseClusterJson(json))), *ParseClusterJson(json));
  json["device"].erase("memory_bytes_per_s");
  const auto unknown = ParseClusterJson(json);
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_EQ(*ParseClusterJson(ClusterJson(*unknown)), *unknown) << "what is not known is left out again";
}

// A preset supplies what a file leaves out; values in the file take precedence.
TEST(ClusterJson, PresetDevice) {
  const auto preset = PresetCluster("a100-80gb-sxm:4x8");
  ASSERT_TRUE(preset.ok()) << preset.status();
  EXPECT_EQ(preset->name, "a100-80gb-sxm:4x8");
  EXPECT_EQ(RankCount(*preset), 32);
  EXPECT_FALSE(preset->local);
  auto named = ParseClusterJson(
      Json::parse(R"({"name": "a100-80gb-sxm:4x8", "device": "a100-80gb-sxm", "nodes": 4})"));
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(*named, *preset);
  named = ParseClusterJson(Json::parse(
      R"({"device": "a100-80gb-sxm", "nodes": 2, "gpus_per_node": 4, "inter_node_bytes_per_s": 1e9, "intra_node_latency_s": 0})"));
  ASSERT_TRUE(named.ok()) << named.status();
  NodeGroup expected = preset->groups[0];
  expected.nodes = 2;
  expected.gpus_per_node = 4;
  expected.inter_node_bytes_per_s = 1e9;
  expected.intra_node_latency_s = 0;
  EXPECT_EQ(named->groups[0], expected);
  const auto again = ParseClusterJson(Json::parse(ClusterJson(*preset).dump()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *preset);
}

// Machines like this one: their number and links are given, their figures are measured.
TEST(ClusterJson, LocalDevice) {
  const Json json = {
      {"device", "local"}, {"nodes", 2}, {"gpus_per_node", 4}, {"inter_node_bytes_per_s", 1e9}};
  const auto cluster = ParseClusterJson(json);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_FALSE(cluster->local);
  EXPECT_EQ(cluster->groups[0].device, (DeviceSpec{.name = "local"}));
  EXPECT_EQ(cluster->groups[0].device.kind, DeviceKind::kCpu);
  EXPECT_EQ(cluster->groups[0].inter_node_bytes_per_s, 1e9);
  const auto again = ParseClusterJson(Json::parse(ClusterJson(*cluster).dump()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *cluster);
  const auto sizeless = ParseClusterJson(Json{{"device", "local"}, {"nodes", 2}});
  EXPECT_THAT(std::string(sizeless.status().message()), HasSubstr("gpus_per_node is missing"));
}

TEST(PresetCluster, Names) {
  const auto whole_node = PresetCluster("h200-sxm");
  ASSERT_TRUE(whole_node.ok()) << whole_node.status();
  EXPECT_EQ(whole_node->groups[0].nodes, 1);
  EXPECT_EQ(whole_node->groups[0].gpus_per_node, 8);
  EXPECT_EQ(PresetCluster("a100-80gb-sxm:0x8").status().code(), absl::StatusCode::kInvalidArgument);
  const auto unknown = PresetCluster("a100-80gb-sxn:2x8");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("did you mean a100-80gb-sxm"));
}

TEST(ClusterJson, TakesTextsWithUnits) {
  const auto with = [](const char* field, const Json& value) {
    Json json = Json::parse(kCluster);
    json[Json::json_pointer(field)] = value;
    auto cluster = ParseClusterJson(json);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return *std::move(cluster);
  };
  ClusterSpec written = with("/inter_node_bytes_per_s", "200Gb/s");
  EXPECT_EQ(written.read_as,
            std::vector<std::string>{"inter_node_bytes_per_s: 200Gb/s is 25 GB/s a GPU and direction"});
  written.read_as.clear();
  EXPECT_EQ(written, with("/inter_node_bytes_per_s", 25e9));
  EXPECT_EQ(with("/intra_node_bytes_per_s", "400GB/s").groups[0].intra_node_bytes_per_s, 400e9);
  EXPECT_EQ(with("/device/memory_bytes", "80GiB").groups[0].device.memory_bytes, std::int64_t{80} << 30);
  EXPECT_DOUBLE_EQ(with("/device/memory_bytes_per_s", "2.039TB/s").groups[0].device.memory_bytes_per_s,
                   2.039e12);
  const ClusterSpec device = with("/device/flops_per_s/fp32", "19.5TFLOPS");
  EXPECT_EQ(device.groups[0].device.flops_per_s_fp32, 19.5e12);
  EXPECT_EQ(device.read_as, std::vector<std::string>{"fp32: 19.5TFLOPS is 19.5 TFLOP/s"});
}

// The figure of a node is read as that of a GPU, eight times too fast.
TEST(ClusterJson, AsksWhetherALinkFasterThanAnyIsThatOfANode) {
  const auto notes = [](const char* field, const Json& value) {
    Json json = {{"device", "h100-sxm"}, {"nodes", 4}};
    json[field] = value;
    const auto cluster = ParseClusterJson(json);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return cluster->read_as;
  };
  EXPECT_THAT(
      notes("inter_node_bytes_per_s", "3.2Tb/s"),
      testing::ElementsAre("inter_node_bytes_per_s: 3.2Tb/s is 400 GB/s a GPU and direction",
                           AllOf(HasSubstr("400 GB/s a GPU and direction is more than the fastest"),
                                 HasSubstr("(800 Gb/s, ConnectX-8); is it the figure of a whole node"),
                                 HasSubstr("Of a node of 8, it is 50 GB/s a GPU"))));
  EXPECT_THAT(notes("inter_node_bytes_per_s", 400e9), testing::SizeIs(1)) << "a number too";
  EXPECT_THAT(notes("inter_node_bytes_per_s", 100e9), testing::IsEmpty());
  EXPECT_THAT(notes("intra_node_bytes_per_s", 900e9), testing::IsEmpty());
  EXPECT_THAT(notes("intra_node_bytes_per_s", 1800e9), testing::ElementsAre(HasSubstr("NVLink 5")));
}

// The names of fields that are unknown at 0.
template <typename Struct>
std::vector<std::string> Names(std::span<const base::Field<Struct>> fields) {
  std::vector<std::string> names;
  for (const base::FieldTraits& field : fields) {
    if (field.unknown_at_zero) names.emplace_back(field.name);
  }
  return names;
}

TEST(ClusterJson, RejectsBadFields) {
  const auto change = [](const std::string& field, const Json& value, absl::StatusCode code) {
    Json json = Json::parse(kCluster);
    json[Json::json_pointer(field)] = value;
    const auto cluster = ParseClusterJson(json);
    EXPECT_EQ(cluster.status().code(), code) << json;
    return std::string(cluster.status().message());
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(change("/nodes", 0, kInvalid), HasSubstr("nodes is 0; it must be at least 1"));
  EXPECT_THAT(change("/nodes", 10'000'000, kInvalid), HasSubstr("nodes is 10000000"));
  EXPECT_THAT(change("/nodes", "2", kInvalid), HasSubstr("nodes is \"2\"; it must be a whole number"));
  for (const double ranks : {0.0, 1e-300, 0.5, 4.5}) {
    EXPECT_THAT(change("/ranks_per_core", ranks, kInvalid),
                HasSubstr("; it must be from 1 to gpus_per_node, 4"));
  }
  EXPECT_THAT(change("/intra_node_latency_s", -1, kInvalid), HasSubstr("intra_node_latency_s"));
  EXPECT_THAT(change("/intra_node_latency_s", 2, kInvalid),
              HasSubstr("intra_node_latency_s is 2; at most 1"));
  EXPECT_THAT(change("/host_op_s", -1e-6, kInvalid),
              HasSubstr("host_op_s is -1e-06; it must be a finite number, not negative"));
  EXPECT_THAT(change("/host_op_s", 2, kInvalid), HasSubstr("host_op_s is 2; at most 1 is possible, in sec"));
  EXPECT_THAT(change("/host_op_s", "5us", kInvalid), HasSubstr("host_op_s is \"5us\"; it must be a number"));
  EXPECT_THAT(change("/host_op_s", nullptr, kInvalid), HasSubstr("host_op_s"));
  EXPECT_THAT(change("/inter_node_bytes_per_s", 2e15, kInvalid),
              HasSubstr("inter_node_bytes_per_s is 2e+15; at most 1e+15 is possible, in bytes per second"));
  for (const auto& [path, prefix, fields] :
       {std::tuple{"/device/efficiency/", "efficiency.", Names(EfficiencyFields())},
        {"/device/flops_per_s/", "flops_per_s.", Names(RateFields())},
        {"/device/", "", Names(DeviceFields())},
        {"/", "", Names(NodeGroupFields())}}) {
    for (const std::string& name : fields) {
      EXPECT_THAT(change(path + name, 1e-300, kInvalid), HasSubstr(prefix + name + " is 1e-300; at least "));
      if (std::string_view(path) != "/") {  // kCluster is local, where links may be 0
        EXPECT_THAT(change(path + name, 0, kInvalid), HasSubstr(name + " is 0; it must be positive"));
      }
      EXPECT_THAT(change(path + name, -1, kInvalid), HasSubstr(name + " is -1; it must be a finite number"));
      EXPECT_THAT(change(path + name, 1e30, kInvalid), HasSubstr(prefix + name + " is 1e+30; at most "));
    }
  }
  EXPECT_THAT(change("/device/memory_bytes", 0, kInvalid),
              HasSubstr("memory_bytes is 0; it must be at least 1"));
  EXPECT_THAT(change("/device/overhead_bytes", 2'000'000, kInvalid), HasSubstr("overhead_bytes is 2000000"));
  EXPECT_THAT(change("/device/efficiency", 1, kInvalid), HasSubstr("efficiency: 1 is not a JSON object"));
  EXPECT_EQ(change("/device/efficiency/matmul", 1.5, kInvalid),
            "cluster: efficiency.matmul is 1.5; at most 1 is possible");
  EXPECT_THAT(change("/device/efficiency/matmull", 0.5, kInvalid), HasSubstr("did you mean matmul"));
  EXPECT_THAT(change("/device/flops_per_s/int8", 1, kInvalid), HasSubstr("unknown field int8"));
  EXPECT_THAT(change("/device/flops_per_s", 1, kInvalid), HasSubstr("flops_per_s: 1 is not a JSON object"));
  EXPECT_THAT(change("/device/kind", "tpu", kInvalid), HasSubstr("unknown kind 'tpu'; expected cpu or cuda"));
  EXPECT_THAT(change("/device", 3, kInvalid), HasSubstr("device: 3 is not a JSON object"));
  EXPECT_THAT(change("/device", "loca", absl::StatusCode::kNotFound), HasSubstr("did you mean local?"));
  EXPECT_THAT(change("/gpu", 3, kInvalid), HasSubstr("unknown field gpu"));
  EXPECT_THAT(change("/calibration", Json::object(), kInvalid), HasSubstr("measurements is missing"));
  EXPECT_THAT(change("/groups", Json::array(), absl::StatusCode::kUnimplemented),
              HasSubstr("groups is not supported yet"));
  EXPECT_THAT(change("/sources", Json{{"gpus", "x"}}, kInvalid), HasSubstr("sources: gpus is not a field"));
  for (const char* name : {"a\nb", "a\x1b[31m", "a\x7f"}) {
    EXPECT_THAT(change("/name", name, kInvalid), HasSubstr("cluster: name has a control character"));
    EXPECT_THAT(change("/device/name", name, kInvalid),
                HasSubstr("cluster: device.name has a control character"));
  }
  EXPECT_THAT(change("/name", std::string(257, 'x'), kInvalid), HasSubstr("name has 257 bytes; at most 256"));
  Json described = Json::parse(kCluster);
  described["local"] = false;
  EXPECT_THAT(std::string(ParseClusterJson(described).status().message()),
              AllOf(HasSubstr("ranks_per_core is 2, but each rank of a described cluster has a core or GPU "
                              "of its own; leave it out"),
                    HasSubstr("local:1xN")));
  described["ranks_per_core"] = 1;
  described["inter_node_bytes_per_s"] = 0;
  EXPECT_THAT(std::string(ParseClusterJson(described).status().message()),
              HasSubstr("inter_node_bytes_per_s is 0; it must be positive"));
  described["inter_node_bytes_per_s"] = 1e9;
  described["device"]["kind"] = "cuda";
  EXPECT_THAT(std::string(ParseClusterJson(described).status().message()),
              HasSubstr("memory_bytes is 1000000; a GPU has at least"));
  EXPECT_THAT(std::string(ParseClusterJson(Json::object()).status().message()),
              HasSubstr("device is missing"));
}

TEST(ClusterName, Parts) {
  const auto local = ParseClusterName("local");
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(local->preset, "local");
  EXPECT_EQ(local->nodes, 0);
  const auto sized = ParseClusterName("a-b:64x8");
  ASSERT_TRUE(sized.ok());
  EXPECT_EQ(sized->preset, "a-b");
  EXPECT_EQ(sized->nodes, 64);
  EXPECT_EQ(sized->gpus_per_node, 8);
  for (const char* bad : {"", ":1x1", "a:", "a:1", "a:x", "a:1x", "a:x1", "a:0x1", "a:1x-1", "a:1x1x1",
                          "a:1e3x1", "a:99999999999999999999x1", "a:1x1:1", "a: 1x1"}) {
    EXPECT_EQ(ParseClusterName(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

// Any bytes give an answer, a model or cluster or one printable line, and never an exception.
TEST(Printable, KeepsVisibleCharactersOnly) {
  EXPECT_EQ(base::Printable("größe 模型 🙂"), "größe 模型 🙂");
  EXPECT_EQ(base::Printable("a\tb\x7f"), "a\\x09b\\x7f");
  EXPECT_EQ(base::Printable("\xc3"), "\\xc3");                    // an incomplete character
  EXPECT_EQ(base::Printable("\xc3("), "\\xc3(");                  // a wrong second byte
  EXPECT_EQ(base::Printable("\xc0\x80"), "\\xc0\\x80");           // an overlong encoding
  EXPECT_EQ(base::Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(base::Printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // a right-to-left override
  EXPECT_EQ(base::Printable("\xc2\x9b"), "\\xc2\\x9b");           // a terminal control character
  EXPECT_EQ(base::Printable(std::string(59, 'x') + "üy"), std::string(59, 'x') + "ü...");
}

TEST(Json, AnyBytes) {
  const std::string model =
      R"({"name": "m", "layers": 3, "hidden": 96, "heads": 6, "vocab": 1000, "norm_eps": 1e-6, "bias": false, "norm": "rmsnorm"})";
  const char* const fragments[] = {"1e400",   "null",
                                   "[",       "{",
                                   "}",       "\"",
                                   "-",       "NaN",
                                   "\xff",    "99999999999999999999",
                                   "\\u0000", "\\ud800",
                                   "true",    ",",
                                   ":",       "\"layers\":1,",
                                   "{\"a\":", "\n",
                                   ".5",      "e9"};
  std::mt19937_64 random(13);
  int parsed = 0;
  for (int i = 0; i < 6000; ++i) {
    const bool is_model = i % 2 == 0;
    std::string text = is_model ? model : std::string(kCluster);
    for (std::size_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 8); break;
        case 2: text.insert(at, fragments[random() % std::size(fragments)]); break;
        case 3: text.replace(at, random() % 6, fragments[random() % std::size(fragments)]); break;
      }
    }
    absl::Status status;
    if (is_model) {
      status = ParseModelText(text).status();
    } else {
      const auto json = base::ParseJson("cluster", text);
      status = json.ok() ? ParseClusterJson(*json).status() : json.status();
    }
    parsed += status.ok() ? 1 : 0;
    for (const char c : status.message())
      ASSERT_TRUE(c >= ' ' && c <= '~') << "not one printable line: " << status;
  }
  EXPECT_GT(parsed, 20);
}

}  // namespace
}  // namespace autocfg
