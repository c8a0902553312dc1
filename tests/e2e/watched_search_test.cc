// A search of this machine that another process follows, and that is killed or stopped meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class WatchedSearch : public testing::Test {
 protected:
  // A search that takes half a minute and more, with a measured trial.
  WatchedSearch() {
    const auto limit = std::chrono::steady_clock::now() + seconds(150);
    while (search_.running() && std::chrono::steady_clock::now() < limit) {
      if (RunAutocfg(home_, {"trials", "--db", database_}).out.find("measured") != std::string::npos) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(search_.running()) << search_.err_so_far();
  }

  std::string State() const {
    const Finished studies = RunAutocfg(home_, {"studies", "--db", database_, "--json"});
    EXPECT_EQ(studies.exit_code, 0) << studies.err;
    return nlohmann::json::parse(studies.out).at(0).at("state");
  }

  const ScratchDirectory home_;
  const std::string database_ = home_ / "search.db";
  ProgramProcess search_{
      home_,
      {"search", "--model",
       home_.Write("model.json",
                   R"({"layers": 4, "hidden": 64, "heads": 2, "vocab": 512, "max_seq_len": 64})"),
       "--cluster", "local:1x2", "--global-batch", "64", "--db", database_, "--exhaustive"}};
};

TEST_F(WatchedSearch, WatchEndsWithASearchThatIsKilled) {
  ProgramProcess watch(home_, {"watch", "--db", database_});
  std::this_thread::sleep_for(seconds(1));
  search_.Signal(SIGKILL);
  search_.Wait();
  const Finished watched = watch.Wait(seconds(60));
  EXPECT_EQ(watched.exit_code, 1);
  EXPECT_THAT(watched.err, HasSubstr("study 1 is interrupted, and no process works on it; run its search"));
  EXPECT_EQ(State(), "interrupted");
}

TEST_F(WatchedSearch, AStoppedSearchIsNotInterrupted) {
  search_.Signal(SIGSTOP);
  EXPECT_EQ(State(), "running");
  const Finished watched = RunAutocfg(home_, {"watch", "--db", database_});
  EXPECT_EQ(watched.exit_code, 1);
  const std::string process = std::to_string(search_.pid());
  EXPECT_THAT(watched.err, AllOf(HasSubstr("study 1 is running, and process " + process),
                                 HasSubstr("kill -CONT " + process)));
  search_.Signal(SIGCONT);
  search_.Signal(SIGINT);
  EXPECT_EQ(search_.Wait(seconds(60)).exit_code, 130);
}

}  // namespace
}  // namespace autocfg::cli
