// Calibrations as the part of a cluster's JSON.
#include "search/text/calibration_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "search/plan/cluster/calibration.h"
#include "search/text/cluster_json.h"
#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::string_view kCalibratedCluster =
    R"({"name": "c", "device": "a100-80gb-sxm", "nodes": 2, "calibration": {
    "measurements": 12, "one_node_sigma": 0.01, "many_nodes_sigma": 0,
    "figures": [{"name": "host_op_s", "prior": 2e-5, "value": 1e-4, "sigma": 0.1, "known": true}],
    "layers": {"prior_sigma": 0.1, "own": 0.2, "octaves": 3, "shapes": [
      {"hidden": 1024, "seq_len": 2048, "micro_batch": 4, "tp": 2, "log_factor": -0.25, "sigma": 0.02}],
      "irregular": [
        {"hidden": 1024, "seq_len": 2048, "micro_batch": 1, "tp": 2, "all_micro_batches": true, "sigma": 0.3},
        {"hidden": 1024, "seq_len": 2048, "micro_batch": 4, "tp": 4, "sigma": 0.2}]},
    "output_layers": {"prior_sigma": 0.4, "own": 0.3, "octaves": 2, "shapes": []}}})";

TEST(CalibrationJson, RoundTrips) {
  const auto cluster = ParseClusterJson(Json::parse(kCalibratedCluster));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_TRUE(cluster->calibration);
  EXPECT_EQ(cluster->calibration->layers.shapes.at(0).log_factor, -0.25);
  EXPECT_TRUE(cluster->calibration->figures.at(0).known);
  EXPECT_EQ(cluster->calibration->output_layers.octaves, 2);
  const std::vector<IrregularShapes> irregular = {{{1024, 2048, 1, 2}, true, 0.3},
                                                  {{1024, 2048, 4, 4}, false, 0.2}};
  EXPECT_EQ(cluster->calibration->layers.irregular, irregular);
  EXPECT_THAT(cluster->calibration->output_layers.irregular, testing::IsEmpty())
      << "a calibration may have none";
  EXPECT_EQ(*ParseClusterJson(Json::parse(ClusterJson(*cluster).dump())), *cluster);
}

// Adds all keys of objects, at any depth.
void AddKeysOf(const Json& json, std::set<std::string>& keys) {
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) keys.insert(key);
    if (value.is_structured()) AddKeysOf(value, keys);
  }
}

TEST(CalibrationJson, StandsInTheDocumentation) {
  const auto cluster = ParseClusterJson(Json::parse(kCalibratedCluster));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::ifstream file(SourcePath("docs/formats.md"));
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::size_t begin = page.find("\n### Calibration\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin, page.find("\n## ", begin) - begin);
  std::set<std::string> keys;
  AddKeysOf(CalibrationJson(*cluster->calibration), keys);
  EXPECT_EQ(keys.count("log_factor"), 1u);
  for (const std::string& key : keys) {
    const bool named = section.find("`" + key + "`") != std::string::npos ||
                       section.find("\"" + key + "\"") != std::string::npos;
    EXPECT_TRUE(named) << key;
  }
}

TEST(CalibrationJson, RefusesWrongOnes) {
  const auto change = [](const char* path, const Json& value) {
    Json json = Json::parse(kCalibratedCluster);
    json[Json::json_pointer(std::string("/calibration") + path)] = value;
    const auto parsed = ParseClusterJson(json);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << path;
    return std::string(parsed.status().message());
  };
  EXPECT_THAT(change("/layers/shapes/0/hidden", 0), HasSubstr("hidden is 0"));
  EXPECT_THAT(change("/layers/shapes/0/log_factor", "x"), HasSubstr("log_factor must be a number"));
  EXPECT_THAT(change("/layers/shapes/0/log_factor", 1e3), HasSubstr("log_factor must be from -10 to 10"));
  EXPECT_THAT(
      change("/layers/shapes/1", Json::parse(kCalibratedCluster)["calibration"]["layers"]["shapes"][0]),
      HasSubstr("the shape hidden=1024,seq_len=2048,micro_batch=4,tp=2 must be named once"));
  EXPECT_THAT(change("/layers/octaves", 0), HasSubstr("octaves must be above 0"));
  EXPECT_THAT(change("/layers/prior_sigma", 1e-7), HasSubstr("prior_sigma must be 0, or from 1e-6 to 10"));
  EXPECT_THAT(change("/layers/own", 2), HasSubstr("own must be from 0 to 1"));
  EXPECT_THAT(change("/layers/shapes", 3), HasSubstr("shapes must be a list"));
  EXPECT_THAT(change("/layers/irregular/0/tp", 0), HasSubstr("layers: irregular[0]: tp is 0"));
  EXPECT_THAT(change("/layers/irregular/0/micro_batch", 2),
              HasSubstr("the micro_batch of an irregular shape with all_micro_batches must be 1"));
  EXPECT_THAT(change("/layers/irregular/1/sigma", 11),
              HasSubstr("an irregular shape's sigma must be from 0"));
  EXPECT_THAT(
      change("/layers/irregular/2", Json::parse(kCalibratedCluster)["calibration"]["layers"]["irregular"][1]),
      HasSubstr("the irregular shape hidden=1024,seq_len=2048,micro_batch=4,tp=4 must be named once"));
  Json many = Json::array();
  for (int tp = 1; tp <= 65; ++tp)
    many.push_back({{"hidden", 1024}, {"seq_len", 2048}, {"micro_batch", 1}, {"tp", tp}, {"sigma", 0.1}});
  EXPECT_THAT(change("/layers/irregular", many), HasSubstr("irregular must be at most 64"));
  many[0].erase("sigma");
  EXPECT_THAT(change("/layers/irregular", Json::array({many[0]})), HasSubstr("sigma"));
  EXPECT_THAT(change("/layers/irregular/1/more", 1), HasSubstr("unknown field more"));
  EXPECT_THAT(change("/one_node_sigma", 11), HasSubstr("one_node_sigma must be from 0 to 10"));
  EXPECT_THAT(change("/more", 1), HasSubstr("unknown field more"));
  Json local = Json::parse(kCalibratedCluster);
  local["local"] = true;
  EXPECT_THAT(std::string(ParseClusterJson(local).status().message()),
              HasSubstr("calibration is for described"));
}

}  // namespace
}  // namespace autocfg
