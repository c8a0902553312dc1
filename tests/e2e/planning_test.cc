// An interrupted search that still plans: it ends soon.
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

using Json = nlohmann::json;
using std::chrono::seconds;
using std::chrono::steady_clock;

// From Ctrl-C to the end. The contract is 1 s; this leaves room for a machine with much else to do.
constexpr seconds kEndLimit{5};

// Planning this space takes several seconds on a fast machine.
TEST(InterruptedPlanning, EndsSoon) {
  const ScratchDirectory home;
  const std::string database = home / "a.db";
  const std::string model =
      home.Write("m.json", R"({"name": "long", "layers": 1000, "hidden": 128, "heads": 128, "vocab": 512,)"
                           R"( "max_seq_len": 128})");
  ProgramProcess search(home, {"search", "--model", model, "--cluster", "a100-80gb-sxm:128x8",
                               "--global-batch", "1048576", "--predict-only", "--save", "--db", database});
  const auto planned = [&] {
    ProgramProcess studies(home, {"studies", "--db", database, "--json"});
    const Finished listed = studies.Wait(seconds(30));
    if (listed.exit_code != 0) return false;  // the search has not opened the database yet
    // How much is enumerated is shown every few seconds, and planning may end before.
    const Json list = Json::parse(listed.out);
    return !list.empty() && list[0]["state"].get<std::string>() == "running";
  };
  const auto limit = steady_clock::now() + seconds(60);
  while (!planned() && search.running() && steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(search.running()) << search.err_so_far();
  const auto interrupted = steady_clock::now();
  search.Signal(SIGINT);
  const Finished end = search.Wait(seconds(60));
  EXPECT_LT(steady_clock::now() - interrupted, kEndLimit);
  EXPECT_EQ(end.exit_code, 130) << end.err;
  EXPECT_EQ(end.out, "");
  EXPECT_NE(end.err.find("the same command resumes it"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace autocfg::cli
