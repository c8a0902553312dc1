// The JSON of an answer, read back as what a run needs.
#include <optional>
#include <string>

#include "cli/report/results_json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/plan/plan_text.h"
#include "tests/cli/report/sample_answer.h"

namespace autocfg::cli {
namespace {

using test::Answer;
using test::Question;

TEST(SearchJson, RoundTrips) {
  const auto question = Question();
  const auto json = SearchJson(Answer(), question);
  ASSERT_TRUE(json.ok());
  auto run = ParseSearchJson(json->dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model, question.model);
  EXPECT_EQ(run->workload, question.workload);
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=2,dp=1,mbs=2,recompute=full");
}

TEST(SearchJson, DescribedClusterIsReadBack) {
  auto question = Question();
  EXPECT_EQ(ParseSearchJson(SearchJson(Answer(), question)->dump())->cluster, std::nullopt) << "this machine";
  question.cluster.local = false;
  question.cluster.groups[0].device.kind = DeviceKind::kCpu;
  const auto run = ParseSearchJson(SearchJson(Answer(), question)->dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->cluster, question.cluster);
}

TEST(ParseSearchJson, ReadsTheMemoryMargin) {
  v1::Recommendation answer = Answer();
  answer.set_memory_margin(0.125);
  auto json = *SearchJson(answer, Question());
  EXPECT_EQ(ParseSearchJson(json.dump())->memory_margin, 0.125);
  json["memory_margin"] = "much";
  auto status = ParseSearchJson(json.dump()).status();
  EXPECT_EQ(status.message().substr(0, 29), "memory_margin: not a number; ");
  json["memory_margin"] = 7;
  status = ParseSearchJson(json.dump()).status();
  EXPECT_EQ(status.message().substr(0, 18), "memory_margin is 7");
  json.erase("memory_margin");
  EXPECT_EQ(ParseSearchJson(json.dump())->memory_margin, std::nullopt);
}

TEST(ParseSearchJson, ReadsEngineAndLayout) {
  auto json = *SearchJson(Answer(), Question());
  json["engine"] = "megatron";
  auto run = ParseSearchJson(json.dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->engine, "megatron");
  EXPECT_TRUE(run->local);
  EXPECT_EQ(run->ranks_per_node, 0);
  json.erase("cluster");
  json["layout"] = {{"nodes", 2}, {"ranks_per_node", 1}};  // of two ranks
  run = ParseSearchJson(json.dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->local);
  EXPECT_EQ(run->ranks_per_node, 1);
  for (const nlohmann::ordered_json& wrong : {nlohmann::ordered_json(3), nlohmann::ordered_json(-1),
                                              nlohmann::ordered_json("1"), nlohmann::ordered_json(0)}) {
    json["layout"]["ranks_per_node"] = wrong;
    const auto status = ParseSearchJson(json.dump()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("layout: 'ranks_per_node' is no size"), std::string::npos) << status;
  }
}

TEST(ParseSearchJson, ErrorsNameTheField) {
  const auto good = *SearchJson(Answer(), Question());
  const auto says = [](const nlohmann::ordered_json& json, const std::string& part) {
    const auto status = ParseSearchJson(json.dump()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in: " << status;
  };
  says("text", "model");
  says({{"losses", {1, 2}}}, "model");
  auto json = good;
  json["model"]["layers"] = -1;
  says(json, "layers");
  json = good;
  json["workload"]["global_batch"] = 0;
  says(json, "global_batch");
  json = good;
  json["workload"]["precision"] = "fp5";
  says(json, "unknown precision 'fp5'; expected fp64");
  json = good;
  json["best"]["plan"]["tp"] = "many";
  says(json, "plan");
  json = good;
  json["best"]["plan"] = nlohmann::ordered_json::object();
  says(json, "best: 'plan' is empty");
  json = good;
  json["best"] = 3;
  says(json, "best");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSearchJson(good.dump().substr(0, 100)).status()))
      << "a truncated file";
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSearchJson(R"({"best": 1, "best": 2})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSearchJson("").status()));
}

}  // namespace
}  // namespace autocfg::cli
