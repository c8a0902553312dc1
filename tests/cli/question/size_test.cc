// autocfg size, as a user sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/cli/one_clear_line.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> Size(std::vector<std::string> more) {
  std::vector<std::string> args = {"size", "--cluster", "h100-sxm", "--seq-len", "2048"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Size, AnswersAModelThatSearchTakes) {
  const ScratchDirectory home;
  const std::string file = home / "model.json";
  const auto finished =
      RunAutocfg(home, Size({"--gpus", "16", "--days", "5", "--tokens", "10B", "--save", file, "--json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["model"], Json::parse(ReadWhole(file)));
  EXPECT_EQ(answer["cluster"]["nodes"], 2);
  EXPECT_EQ(answer["cluster"]["name"], "h100-sxm:2x8");
  EXPECT_EQ(answer["tokens"], 10e9);
  EXPECT_LE(answer["days"], 5);
  EXPECT_GT(answer["next_larger"]["days"], 5);
  EXPECT_GT(answer["next_larger"]["parameters"], answer["parameters"]);
  // `predict` says the same of its plan, and a search finds one that is as fast.
  const std::vector<std::string> question = {"--model",        file,
                                             "--cluster",      "h100-sxm:2x8",
                                             "--global-batch", answer["workload"]["global_batch"].dump(),
                                             "--seq-len",      "2048",
                                             "--json"};
  std::vector<std::string> predict = {"predict", "--plan", answer["best"]["plan_text"]};
  predict.insert(predict.end(), question.begin(), question.end());
  const auto predicted = RunAutocfg(home, predict);
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const double step_time_s = answer["best"]["predicted"]["step_time_s"];
  EXPECT_NEAR(Json::parse(predicted.out)["step_time_s"], step_time_s, 1e-6 * step_time_s);
  std::vector<std::string> search = {"search",  "--predict-only", "--db",    home / "search.db",
                                     "--space", "split=even",     "--space", "recompute=none,full"};
  search.insert(search.end(), question.begin(), question.end());
  const auto searched = RunAutocfg(home, search);
  ASSERT_EQ(searched.exit_code, 0) << searched.err;
  const double fastest = Json::parse(searched.out)["best"]["predicted"]["step_time_s"];
  EXPECT_NEAR(fastest, step_time_s, 0.1 * step_time_s);
}

TEST(Size, TextProposesTheSearch) {
  const ScratchDirectory home;
  const std::string cluster =
      home.Write("mine.json", R"({"device": "h100-sxm", "nodes": 1, "gpus_per_node": 8})");
  const auto finished = RunAutocfg(
      home, {"size", "--cluster", cluster, "--gpus", "16", "--days", "0.5", "--save", home / "model.json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("model size: "));
  EXPECT_THAT(finished.out, HasSubstr("(20 for each parameter)"));
  EXPECT_THAT(finished.out, HasSubstr("next larger: dense-"));
  EXPECT_THAT(Unwrapped(finished.out), HasSubstr("--cluster " + cluster + " --nodes 2 --global-batch "));
  // A part of a node.
  const auto part = RunAutocfg(home, Size({"--gpus", "4", "--days", "0.5", "--save", home / "model.json"}));
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("--cluster h100-sxm:1x4 "));
}

TEST(Size, EndsNegativeIfNoModelIsInTime) {
  const ScratchDirectory home;
  const auto finished =
      RunAutocfg(home, Size({"--gpus", "8", "--days", "0.0001", "--json", "--save", home / "model.json"}));
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("no model of the family trains in "));
  EXPECT_EQ(Json::parse(finished.out)["best"], nullptr);
  EXPECT_FALSE(std::filesystem::exists(home / "model.json"));
}

TEST(Size, RefusesBadInputInOneClearLine) {
  const auto refuse = [](std::vector<std::string> args, const std::vector<std::string>& says) {
    ExpectOneClearLine(args, 2, says);
  };
  refuse({"size"}, {"--gpus is missing"});
  refuse({"size", "--gpus", "8"}, {"--days is missing"});
  refuse({"size", "--gpus", "8", "--days", "3"}, {"--cluster is missing"});
  const auto budget = [](const char* option, const std::string& value) {
    return Size({"--gpus", "8", "--days", "3", option, value});
  };
  refuse(Size({"--gpus", "0", "--days", "3"}), {"--gpus: invalid value '0'"});
  refuse(Size({"--gpus", "12", "--days", "3"}), {"--gpus: 12 GPUs are not whole nodes of 8", "give 8 or 16"});
  refuse(Size({"--gpus", "8", "--days", "0"}), {"--days: invalid value '0'"});
  refuse(Size({"--gpus", "8", "--days", "nan"}), {"--days"});
  refuse(budget("--tokens", "12X"), {"--tokens: invalid value '12X'"});
  refuse(budget("--global-batch", "0"), {"--global-batch: invalid value '0'"});
  refuse(budget("--precision", "fp17"), {"--precision", "fp17"});
  refuse(budget("--price-per-gpu-hour", "free"), {"--price-per-gpu-hour"});
  refuse(budget("--engine", "fast"), {"--engine: unknown engine 'fast'"});
  refuse(budget("--save", Missing("/nonexistent/model.json")), {"--save", Missing("/nonexistent")});
  refuse(budget("--save", ""), {"--save: it is empty"});
  refuse({"size", "--gpus", "8", "--days", "3", "--cluster", "local"}, {"--cluster", "local has no figures"});
  refuse({"size", "--gpus", "8", "--days", "3", "--cluster", "h100"}, {"--cluster", "h100-sxm"});
}

}  // namespace
}  // namespace autocfg::cli
