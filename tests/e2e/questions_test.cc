// One search that answers several questions by prediction, as a user sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class QuestionsTest : public testing::Test {
 protected:
  Finished Search(std::vector<std::string> more) const {
    std::vector<std::string> args = {"search",  "--predict-only", "--model", "gpt2-124m",
                                     "--space", "mbs=1",          "--db",    home_ / "search.db"};
    args.insert(args.end(), more.begin(), more.end());
    return RunAutocfg(home_, args);
  }

  const ScratchDirectory home_;
};

TEST_F(QuestionsTest, EachAnswerIsThatOfItsOwnSearch) {
  const auto file = home_ / "answers.json";
  const auto finished = Search({"--cluster", "h100-sxm:1x8", "--nodes", "1,2", "--global-batch", "64,128",
                                "--json", "--output", file});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answers = Json::parse(finished.out);
  EXPECT_EQ(answers, Json::parse(ReadWhole(file)));
  ASSERT_EQ(answers["questions"].size(), 4u);
  for (const Json& answer : answers["questions"]) {
    const std::string cluster = "h100-sxm:" + answer["asked"]["nodes"].dump() + "x8";
    const auto alone =
        Search({"--cluster", cluster, "--global-batch", answer["asked"]["global_batch"].dump(), "--json"});
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const Json one = Json::parse(alone.out);
    for (const char* key : {"model", "cluster", "workload", "best", "runners_up", "counts", "notes"})
      EXPECT_EQ(answer[key], one[key]) << cluster << ": " << key;
    EXPECT_EQ(answer["workload"]["seq_len"], answer["asked"]["seq_len"]);
  }
  // A file of several answers is no plan to run.
  const auto train = RunAutocfg(home_, {"train", "--input", file, "--steps", "1"});
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.err, HasSubstr("answers to several questions"));
}

TEST_F(QuestionsTest, GoOnAfterOneWithoutAPlan) {
  const auto finished = Search(
      {"--cluster", "h100-sxm:1x8", "--global-batch", "3,8", "--seq-len", "256,2048", "--space", "dp=8"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("no plan for 1 node, global batch 3, sequence length 256: "));
  EXPECT_THAT(Unwrapped(finished.out), HasSubstr("sequence length 2,048: workload: seq_len is 2048"));
  EXPECT_THAT(finished.out, testing::ContainsRegex("  \\*  1 +8 +256 +8 [^\n]*\n?[^\n]*tp=1,pp=1,dp=8,"));
}

TEST_F(QuestionsTest, EndNegativeIfNoneHasAPlan) {
  const auto finished =
      Search({"--cluster", "h100-sxm:1x8", "--global-batch", "3,5", "--space", "dp=8", "--json"});
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("none of the 2 questions has a plan: "));
  for (const Json& answer : Json::parse(finished.out)["questions"]) EXPECT_EQ(answer["best"], nullptr);
}

TEST_F(QuestionsTest, SayHowLongAWholeRunTakes) {
  const std::vector<std::string> question = {
      "--cluster",    "h100-sxm:2x8", "--global-batch",       "64", "--tokens", "10B",
      "--mtbf-hours", "1000",         "--price-per-gpu-hour", "2"};
  auto args = question;
  args.emplace_back("--json");
  const auto finished = Search(args);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  const Json& training = answer["training"];
  const double steps = 10e9 / (64 * 1024), step_time_s = answer["best"]["predicted"]["step_time_s"];
  EXPECT_EQ(training["tokens"], 10e9);
  EXPECT_EQ(training["steps"], std::ceil(steps));
  EXPECT_NEAR(training["days"], steps * step_time_s / 86400, 1e-9);
  EXPECT_NEAR(training["cost"], training["days"].get<double>() * 24 * 16 * 2, 1e-6);
  EXPECT_NEAR(training["failures"]["job_mtbf_s"], 1000 * 3600 / 2.0, 1e-6);
  EXPECT_GT(training["failures"]["days"], training["days"]);
  const auto text = Search(question);
  EXPECT_THAT(text.out, HasSubstr("training, by the predicted step time: 10B tokens in 152,588 steps: "));
  EXPECT_THAT(text.out, HasSubstr("with a failure every 20.8 days: "));
  const auto without = Search({"--cluster", "h100-sxm:2x8", "--global-batch", "64", "--json"});
  EXPECT_FALSE(Json::parse(without.out).contains("training"));
}

// A measured answer counts the measured time of a step.
TEST_F(QuestionsTest, AWholeRunTakesMeasuredStepsWhereThereAre) {
  const auto finished =
      RunAutocfg(home_, {"search", "--model", "gpt2-tiny", "--cluster", "local:1x1", "--global-batch", "8",
                         "--max-trials", "1", "--tokens", "1e6", "--db", home_ / "search.db", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["training"]["provenance"], "measured");
  EXPECT_EQ(answer["training"]["step_time_s"], answer["best"]["measured"]["step_time_s"]);
}

TEST_F(QuestionsTest, OneNumberOfNodesIsASearchAsEver) {
  const auto file = home_.Write("mine.json", R"({"device": "h100-sxm", "nodes": 1, "gpus_per_node": 8})");
  const auto by_file = Search({"--cluster", file, "--nodes", "2", "--global-batch", "64", "--json"});
  ASSERT_EQ(by_file.exit_code, 0) << by_file.err;
  const auto by_name = Search({"--cluster", "h100-sxm:2x8", "--global-batch", "64", "--json"});
  const Json answer = Json::parse(by_file.out);
  EXPECT_FALSE(answer.contains("asked"));
  EXPECT_EQ(answer["cluster"]["nodes"], 2);
  EXPECT_EQ(answer["best"], Json::parse(by_name.out)["best"]);
}

}  // namespace
}  // namespace autocfg::cli
