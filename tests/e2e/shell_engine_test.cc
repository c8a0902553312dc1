// Searches that measure with an engine whose program is a shell script: plans that do not fit, logs without
// timed steps, and what is said of them afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kShellModel =
    R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";

class ShellEngineTest : public testing::Test {
 protected:
  ShellEngineTest() { std::filesystem::create_directory(home_ / "engines"); }

  void Offer(const std::string& script, const nlohmann::json& version = "1") const {
    const nlohmann::json engine = {{"name", "shell"},
                                   {"version", version},
                                   {"format", "autocfg"},
                                   {"command", {"/bin/sh", "-c", script}},
                                   {"log",
                                    {{"step", {{"pattern", "step (\\d+)"}}},
                                     {"step_time", {{"pattern", "time (\\d+)"}, {"unit", "ms"}}},
                                     {"out_of_memory", {{"pattern", "out of memory"}}}}}};
    home_.Write("engines/shell.json", engine.dump());
  }
  Finished Search(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"search",   "--model", model_,      "--cluster",       "local:1x2",
                                     "--engine", "shell",   "--engines", home_ / "engines", "--global-batch",
                                     "4",        "--db",    database_};
    args.insert(args.end(), more.begin(), more.end());
    return RunAutocfg(home_, args);
  }
  Finished With(std::vector<std::string> args) const {
    args.insert(args.end(), {"--db", database_});
    return RunAutocfg(home_, args);
  }

  const ScratchDirectory home_;
  const std::string model_ = home_.Write("model.json", kShellModel);
  const std::string database_ = home_ / "search.db";
};

TEST_F(ShellEngineTest, PlansThatDidNotFitAreSaidToHaveBeenTried) {
  Offer("echo CUDA out of memory; exit 1");
  const Finished search = Search({"--max-trials", "2"});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const std::string said = Unwrapped(search.err), text = Unwrapped(search.out);
  EXPECT_THAT(said, HasSubstr("nothing was measured: 2 plans were tried (2 did not fit in memory), and "
                              "--max-trials 2 ended the search with "));
  EXPECT_THAT(said, HasSubstr("; see autocfg trials --db " + database_ + " --study 1 --log 1"));
  EXPECT_THAT(text, HasSubstr("; 0 measured, 2 out of memory when tried"));
  const Finished log = With({"trials", "--study", "1", "--log", "1"});
  EXPECT_THAT(log.out, HasSubstr("CUDA out of memory")) << log.err;

  const Finished exported = With({"export", "--study", "1/trials/1", "--to", "autocfg"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.err, HasSubstr("studies/1/trials/1 did not fit in memory: "));
  EXPECT_THAT(exported.err, HasSubstr("; its plan is exported all the same"));
  EXPECT_THAT(exported.out, HasSubstr("\"trial: studies/1/trials/1 did not fit in memory: "));
  EXPECT_THAT(With({"export", "--study", "1", "--to", "autocfg"}).out, Not(HasSubstr("\"trial: ")));

  const Finished explained = With({"explain", "--study", "1"});
  EXPECT_THAT(explained.err,
              HasSubstr("no trial of study 1 was measured (2 infeasible); autocfg trials 1 says why"));
}

TEST_F(ShellEngineTest, ALogOfUntimedStepsAloneSaysHowManyAreNeeded) {
  Offer("echo step 1 time 5");
  const Finished search = Search({"--max-trials", "1", "--space", "tp=2"});
  const std::string said = Unwrapped(search.err);
  EXPECT_THAT(said, AllOf(HasSubstr("its log tells of no timed step: it tells of 1 step, and the first "),
                          HasSubstr("have it take {steps} steps, here ")));
  EXPECT_THAT(said, Not(HasSubstr("--log studies/"))) << "the command is named in one form";
}

TEST_F(ShellEngineTest, AWrongVersionCommandLeavesNoStudy) {
  Offer("echo step 1 time 5", {{"command", {"/bin/sh", "-c", "exit 7"}}});
  const Finished search = Search();
  EXPECT_EQ(search.exit_code, 2) << search.err;
  EXPECT_THAT(search.err, HasSubstr("--engines: engine shell: version: the command failed: "));
  EXPECT_FALSE(std::filesystem::exists(database_)) << "a study would be resumed by the next search";
}

}  // namespace
}  // namespace autocfg::cli
