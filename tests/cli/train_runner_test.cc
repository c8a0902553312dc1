// `autocfg train` with scripted ranks (tests/worker/fake_trainer.cc).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/scoped_variable.h"
#include "tests/worker/launch_helpers.h"

namespace autocfg::cli {
namespace {

class ScriptedTrainTest : public testing::Test {
 protected:
  Finished Train(const std::string& mode, const std::vector<std::string>& more) const {
    const ScopedVariable trainer("AUTOCFG_TRAINER", worker::FakeTrainerPath());
    const ScopedVariable behaves("AUTOCFG_FAKE_TRAINER_MODE", mode);
    std::vector<std::string> words = {"train", "--model",  "gpt2-tiny", "--global-batch",
                                      "2",     "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return RunAutocfg(home_, words);
  }

  const ScratchDirectory home_;
};

TEST_F(ScriptedTrainTest, EndsWithEveryProcessThatItsRanksStarted) {
  const Finished finished = Train("daemon", {"--plan", "tp=1", "--steps", "1"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  // The rank reports the daemon's pid as the number of its step.
  const std::size_t row = finished.out.find('\n');
  ASSERT_NE(row, std::string::npos) << finished.out;
  const int daemon = std::atoi(finished.out.c_str() + row);
  ASSERT_GT(daemon, 1) << finished.out;
  EXPECT_EQ(worker::ProcessState(daemon), '\0') << "it outlives the run";
}

TEST_F(ScriptedTrainTest, LongRunsAreReportedWhole) {
  const Finished finished = Train("answer", {"--plan", "dp=2", "--steps", "100000", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto result = nlohmann::json::parse(finished.out);
  for (const char* list : {"losses", "grad_norms", "step_time_s"})
    EXPECT_EQ(result[list].size(), 100'000u) << list;
}

TEST_F(ScriptedTrainTest, RankThatSendsTooMuchIsOneLine) {
  const Finished finished = Train("huge_message", {"--plan", "tp=1", "--steps", "1"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.err,
            "autocfg: the run failed: rank 0: its messages are invalid: a message of 200000000 bytes was "
            "announced, above the limit of 65536\n");
}

}  // namespace
}  // namespace autocfg::cli
