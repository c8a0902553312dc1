// `autocfg report` as a user runs it. tests/browser opens the pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace autocfg::cli
