// `autocfg report` as a user runs it. tests/browser opens the pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string WholePage(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(ReportVerb, WritesAPageAboutAStudy) {
  const ScratchDirectory home;
  const std::string page = home / "report.html";
  const Finished none = RunAutocfg(home, {"report", "--output", page});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no studies found"));
  const Finished search =
      RunAutocfg(home, {"search", "--model", "llama3-8b", "--cluster", "h100-sxm:1x8", "--global-batch", "64",
                        "--seq-len", "4096", "--predict-only", "--save"});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const Finished newest = RunAutocfg(home, {"report", "--output", page});
  ASSERT_EQ(newest.exit_code, 0) << newest.err;
  EXPECT_EQ(newest.out, "wrote " + page + "\n");
  const std::string text = WholePage(page);
  EXPECT_THAT(text, AllOf(HasSubstr("<title>Study 1: llama3-8b on h100-sxm, 8 ranks</title>"),
                          HasSubstr("\"provenance\":\"predicted\"")));
  const Finished named = RunAutocfg(home, {"report", "--study", "1", "--output", page});
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(WholePage(page), text);
  const Finished missing = RunAutocfg(home, {"report", "--study", "7", "--output", page});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("--study"), HasSubstr("autocfg studies lists what there is")));
  EXPECT_EQ(WholePage(page), text) << "an error leaves the file";
}

// The data of a page.
nlohmann::json DataOf(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(ReportVerb, ASearchOnCpusHasPredictedAndMeasuredTimelines) {
  const ScratchDirectory home;
  const std::string page = home / "report.html";
  const Finished search =
      RunAutocfg(home, {"search",        "--model",      "gpt2-tiny", "--global-batch", "8",
                        "--seq-len",     "32",           "--space",   "pp=2",           "--space",
                        "dp=1",          "--space",      "mbs=2",     "--space",        "schedule=1f1b,gpipe",
                        "--space",       "split=even",   "--space",   "recompute=none", "--space",
                        "p2p_overlap=0", "--max-trials", "2"});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const Finished made = RunAutocfg(home, {"report", "--output", page});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const nlohmann::json data = DataOf(WholePage(page));
  ASSERT_EQ(data["timelines"].size(), 2u);
  int measured = 0;
  for (const nlohmann::json& timeline : data["timelines"]) {
    ASSERT_EQ(timeline["ranks"].size(), 2u);
    if (timeline["measured"].is_null()) continue;
    ++measured;
    ASSERT_EQ(timeline["measured"]["note"], "");
    ASSERT_EQ(timeline["measured"]["ranks"].size(), 2u);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::string predicted = timeline["ranks"][rank]["kinds"];
      std::string recorded = timeline["measured"]["ranks"][rank]["kinds"];
      std::sort(predicted.begin(), predicted.end());
      std::sort(recorded.begin(), recorded.end());
      EXPECT_EQ(recorded, predicted) << "the same actions";
    }
    EXPECT_GT(timeline["measured"]["step_s"], 0);
  }
  EXPECT_EQ(measured, 2);
}

}  // namespace
}  // namespace autocfg::cli
