// The lists of all options of the frameworks (options/, by bench/framework_options.py): each option is read,
// refused by name, or known to be harmless.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "search/frameworks/adapter.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"
#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

class OptionLists : public testing::TestWithParam<std::string_view> {};

// Returns why the option is in no class; empty if it is in one.
std::string WhyUnclassified(std::string_view framework, const std::string& name, bool flag) {
  ReadingOptions options;
  options.ranks = 8;
  if (framework == kDeepSpeed) options.model = *ModelPreset("llama3-8b");
  const std::string text = framework == kMegatron && flag
                               ? FlagsWith(name)
                               : SmallFile(framework, name, flag ? nlohmann::json(true) : nlohmann::json(7));
  const auto run = ReadFrameworkFile(framework, "f", text, options);
  if (!run.ok()) {
    const std::string message(run.status().message());
    return message.find("is unknown to autocfg") == std::string::npos ? "" : message;
  }
  if (std::ranges::find(run->ignored, name, &IgnoredSetting::name) == run->ignored.end()) return "";
  const bool harmless =
      std::ranges::any_of(FindFrameworkAdapter(framework)->harmless,
                          [&](const HarmlessSetting& known) { return IsNamedBy(known.names, name); });
  return harmless ? "" : "it is left out, and no table says why";
}

TEST_P(OptionLists, LeaveNoneUnclassified) {
  std::ifstream file(SourcePath("tests/search/frameworks/options/" + std::string(GetParam()) + ".txt"));
  int options = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, kind;
    words >> name >> kind;
    EXPECT_TRUE(kind == "flag" || kind == "value" || kind == "list") << line;
    EXPECT_EQ(WhyUnclassified(GetParam(), name, kind == "flag"), "") << name;
    ++options;
  }
  EXPECT_GT(options, 100);
}

INSTANTIATE_TEST_SUITE_P(Each, OptionLists, testing::Values(kMegatron, kNemo, kDeepSpeed, kTorchtitan),
                         [](const auto& framework) { return std::string(framework.param); });

}  // namespace
}  // namespace autocfg
