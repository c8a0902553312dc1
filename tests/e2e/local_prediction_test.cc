// Predictions of this machine from the op times that an earlier search has kept, as a user sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/os/process.h"
#include "nlohmann/json.hpp"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class LocalPredictionTest : public testing::Test {
 protected:
  Finished Run(const std::string& verb, const std::vector<std::string>& more) const {
    std::vector<std::string> args = {verb,        "--db",      database_,        "--model", model_,
                                     "--cluster", "local:1x2", "--global-batch", "4"};
    args.insert(args.end(), more.begin(), more.end());
    return RunAutocfg(home_, args);
  }
  std::size_t Studies() const {
    return (*server::OpenSqliteStoreReadOnly(database_))->ListStudies(0, 100)->size();
  }

  const ScratchDirectory home_;
  const std::string database_ = home_ / "a.db";
  const std::string model_ = home_.Write(
      "model.json",
      R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})");
};

TEST_F(LocalPredictionTest, WithoutOpTimesNamesTheCommandThatMeasuresThem) {
  for (const char* verb : {"predict", "explain"}) {
    const Finished finished = Run(verb, {"--plan", "dp=2"});
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_THAT(finished.err, HasSubstr("; autocfg search --predict-only --model " + model_));
    EXPECT_THAT(finished.err, HasSubstr(" --db " + database_ + " measures them"));
    EXPECT_FALSE(std::filesystem::exists(database_));
  }
}

// The command must take a model that is no preset, which is "smallest" here.
TEST_F(LocalPredictionTest, TheCommandNamesAFileWithTheModelOfTheQuestion) {
  const std::string found = home_ / "best.json";
  const Finished searched = Run("search", {"--predict-only", "--save", "--output", found});
  ASSERT_EQ(searched.exit_code, 0) << searched.err;
  ASSERT_EQ(RunAutocfg(home_, {"search", "--predict-only", "--save", "--db", database_, "--model",
                               "gpt2-tiny", "--cluster", "local:1x1", "--global-batch", "2"})
                .exit_code,
            0);
  const auto error_of = [&](const std::vector<std::string>& question) {
    // Nobody has timed ops in fp64.
    std::vector<std::string> args = {"predict", "--db", database_, "--precision", "fp64"};
    args.insert(args.end(), question.begin(), question.end());
    const Finished finished = RunAutocfg(home_, args);
    EXPECT_EQ(finished.exit_code, 2) << finished.err;
    return finished.err;
  };
  const std::string of_study = error_of({"--study", "1"});
  EXPECT_THAT(of_study, HasSubstr("; autocfg search --predict-only --model MODEL.json --cluster local:1x"));
  EXPECT_THAT(of_study, HasSubstr(" measures them, where MODEL.json has the study's model: autocfg export "
                                  "--study 1 --db " +
                                  database_ + " --to autocfg --output MODEL.json writes it"));
  EXPECT_THAT(error_of({"--input", found}), HasSubstr(" --predict-only --model " + found + " --cluster"));
  EXPECT_THAT(error_of({"--study", "2"}), HasSubstr(" --predict-only --model gpt2-tiny --cluster"));

  // As it says.
  const std::string model = home_ / "MODEL.json";
  const Finished exported =
      RunAutocfg(home_, {"export", "--study", "1", "--db", database_, "--to", "autocfg", "--output", model});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(RunAutocfg(home_, {"search", "--predict-only", "--db", database_, "--model", model, "--cluster",
                               "local:1x2", "--global-batch", "4"})
                .exit_code,
            0);
}

TEST_F(LocalPredictionTest, KeptOpTimesAnswerWithoutAStudy) {
  const std::string build = base::BuildId();
  if (build.ends_with("-dirty") || build.ends_with("+unknown"))
    GTEST_SKIP() << "op times are not kept for build " << build;
  const std::string found = home_ / "best.json";
  const Finished first = Run("search", {"--predict-only", "--json", "--output", found});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const Json measured = Json::parse(first.out);
  ASSERT_EQ(Studies(), 1u);
  const Finished second = Run("search", {"--predict-only", "--json"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const Json kept = Json::parse(second.out);
  EXPECT_EQ(kept["study"], nullptr);
  EXPECT_EQ(kept["best"], measured["best"]);
  EXPECT_EQ(kept["counts"], measured["counts"]);
  EXPECT_EQ(Studies(), 1u);

  const std::string plan = kept["best"]["plan_text"];
  const Finished predicted = Run("predict", {"--plan", plan, "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_THAT(predicted.err, HasSubstr("predicted from op times measured on this machine"));
  const Json answer = Json::parse(predicted.out);
  for (const char* part : {"step_time_s", "step_time_low_s", "step_time_high_s"}) {
    const double searched = kept["best"]["predicted"][part];
    EXPECT_NEAR(answer[part].get<double>(), searched, 1e-9 * searched) << part;
  }
  // What the search found says model, cluster, batch and plan.
  for (const std::vector<std::string>& args : {std::vector<std::string>{"predict", "--input", found},
                                               {"predict", "--study", "1"},
                                               {"explain", "--study", "1"}}) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--db", database_, "--json"});
    const Finished again = RunAutocfg(home_, all);
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(Json::parse(again.out)["step_time_s"], answer["step_time_s"]) << args[0] << " " << args[1];
  }
  // And the memory margin.
  Json careful = Json::parse(ReadWhole(found));
  careful["memory_margin"] = 0.999999;
  EXPECT_EQ(RunAutocfg(home_,
                       {"predict", "--input", home_.Write("careful.json", careful.dump()), "--db", database_})
                .exit_code,
            1);
  // Also its precision: no op was timed in fp64 yet.
  const std::string doubles = home_ / "doubles.json";
  std::string text = ReadWhole(found);
  text.replace(text.find("\"fp32\""), 6, "\"fp64\"");
  home_.Write("doubles.json", text);
  const Finished in_fp64 = RunAutocfg(home_, {"predict", "--input", doubles, "--db", database_});
  EXPECT_EQ(in_fp64.exit_code, 2);
  EXPECT_THAT(in_fp64.err, HasSubstr("--precision fp64"));
  // Not where workers of a coordinator ran it: their machine is another.
  Json remote = Json::parse(ReadWhole(found));
  remote["coordinator"] = "head:5000";
  const Finished elsewhere =
      RunAutocfg(home_, {"predict", "--input", home_.Write("remote.json", remote.dump())});
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("--cluster is missing: the search was of the coordinator's workers"));
  const Finished explained = Run("explain", {"--plan", plan});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("cluster: local"));

  // Another process has the database open for writing.
  {
    const auto held = server::OpenSqliteStore(database_);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(Run("predict", {"--plan", plan}).exit_code, 0);
    EXPECT_EQ(Run("search", {"--predict-only"}).exit_code, 0);
  }
  EXPECT_EQ(Run("search", {"--predict-only", "--save"}).exit_code, 0);
  EXPECT_EQ(Studies(), 2u);

  // Of another model, no op was timed.
  const std::string other = home_.Write(
      "other.json", R"({"layers": 2, "hidden": 96, "heads": 2, "vocab": 640, "max_seq_len": 48})");
  const Finished unknown = RunAutocfg(home_, {"predict", "--db", database_, "--model", other, "--cluster",
                                              "local:1x2", "--global-batch", "4", "--plan", "dp=2"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err,
              HasSubstr("no search here has timed an op like the one that takes most of this plan"));
}

// As in the search that a time budget ended: it predicts plans whose largest op was not timed.
TEST_F(LocalPredictionTest, EstimatesWhatIsLikeATimedOp) {
  const std::string build = base::BuildId();
  if (build.ends_with("-dirty") || build.ends_with("+unknown"))
    GTEST_SKIP() << "op times are not kept for build " << build;
  const Finished searched = Run("search", {"--predict-only", "--space", "mbs=1"});
  ASSERT_EQ(searched.exit_code, 0) << searched.err;
  const Finished predicted = Run("predict", {"--plan", "dp=2,mbs=2"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_THAT(predicted.err, HasSubstr(", from which the others are estimated"));
}

// A calibration that is stopped keeps what it has timed: the next one goes on from there.
TEST_F(LocalPredictionTest, AStoppedCalibrationIsContinued) {
  const std::string build = base::BuildId();
  if (build.ends_with("-dirty") || build.ends_with("+unknown"))
    GTEST_SKIP() << "op times are not kept for build " << build;
  const auto newest = [&]() -> v1::Study {
    const auto store = server::OpenSqliteStoreReadOnly(database_);
    if (!store.ok()) return {};
    const auto studies = (*store)->ListStudies(0, 1);
    return studies.ok() && !studies->empty() ? studies->front() : v1::Study();
  };
  ProgramProcess stopped(home_, {"search", "--predict-only", "--db", database_, "--model", model_,
                                 "--cluster", "local:1x2", "--global-batch", "64"});
  for (int i = 0; i < 4000 && stopped.running() && newest().calibration_ops_passed() < 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  stopped.Signal(SIGINT);
  EXPECT_EQ(stopped.Wait().exit_code, 130);
  const Finished early = RunAutocfg(home_, {"export", "--db", database_, "--study", "1", "--to", "megatron"});
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_THAT(early.err, HasSubstr("study 1 was interrupted before it had a plan; give its command again"));
  const std::int64_t all = newest().calibration_ops();
  ASSERT_GT(newest().calibration_ops_passed(), 0);
  ASSERT_LT(newest().calibration_ops_passed(), all) << "it was stopped too late";
  const Finished finished =
      RunAutocfg(home_, {"search", "--predict-only", "--db", database_, "--model", model_, "--cluster",
                         "local:1x2", "--global-batch", "64", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_LT(newest().calibration_ops(), all);
  EXPECT_GT(Json::parse(finished.out)["search"]["reused_op_times"], 0);
}

}  // namespace
}  // namespace autocfg::cli
