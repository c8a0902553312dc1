// What a run says of its file: settings that are left out, defaults that it takes, and values that count
// otherwise than written.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/adapter.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// What is known to be harmless is left out, and each is of a word that would refuse it.
TEST(PersonsFiles, HarmlessSettingsAreLeftOut) {
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  for (const FrameworkAdapter* adapter : FrameworkAdapters()) {
    const std::string_view framework = adapter->target.name;
    std::vector<std::pair<std::string, HarmlessSetting>> named;
    for (const HarmlessSetting& harmless : adapter->harmless) {
      const std::vector<std::string> names = absl::StrSplit(harmless.names, ' ');
      for (const std::string& name : names) named.emplace_back(name, harmless);
    }
    EXPECT_GT(named.size(), 9u);
    for (const auto& [pattern, harmless] : named) {
      const bool prefix = pattern.ends_with('*');
      std::string name = pattern.substr(0, pattern.size() - (prefix ? 1 : 0));
      if (prefix) name += name.ends_with('.') || name.ends_with('_') ? "some_offload" : "some-offload";
      EXPECT_TRUE(SpeaksOfSplitting(name)) << name;
      const std::string section = name.substr(0, name.rfind('.'));
      if (framework == kNemo && section != "model" && section != "model.optim") continue;  // no small file
      const auto run = ReadFrameworkFile(framework, "f", SmallFile(framework, name, 7), options);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_THAT(run->ignored, Contains(testing::Field(&IgnoredSetting::name, name)));
      const auto note = HasSubstr(absl::StrCat(name, " ", std::string(harmless.why)));
      EXPECT_EQ(testing::Matches(Contains(note))(run->notes), harmless.noted) << name;
    }
  }
}

TEST(PersonsFiles, ListsWhatIsLeftOut) {
  ReadingOptions options;
  options.ranks = 8;
  const auto run = ReadFrameworkFile(kMegatron, "run.args", FlagsWith("--lr 1\n--bf16\n--seed 2"), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->ignored, testing::ElementsAre(IgnoredSetting{"--lr", 8}, IgnoredSetting{"--seed", 10}));
}

TEST(PersonsFiles, SaysWhichBatchAFileThatNamesNoneHas) {
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  for (const auto& [framework, words] :
       {std::pair(kMegatron, "--global-batch-size is missing: the framework then takes 8 sequences a step"),
        {kNemo, "model.global_batch_size is missing: the framework then takes 8 sequences a step"},
        {kTorchtitan, "training.global_batch_size is missing: the framework then takes 64 sequences"}}) {
    const auto run = ReadFrameworkFile(framework, "f", SmallFile(framework, "x", 1), options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_THAT(run->notes, Contains(HasSubstr(words)));
  }
}

TEST(PersonsFiles, NotesWhatCountsOtherwiseThanWritten) {
  ReadingOptions options;
  options.ranks = 8;
  const auto notes = [&](const std::string& flags) {
    const auto run = ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->notes : std::vector<std::string>();
  };
  EXPECT_THAT(
      notes("--global-batch-size 16\n--global-batch-size 32"),
      Contains("run.args:9: --global-batch-size is 32 in place of 16 of line 8: the last one counts"));
  EXPECT_THAT(notes("--global-batch-size 16\n--global-batch-size 16\n--lr 1\n--lr 2"),
              Not(Contains(HasSubstr("the last one counts"))));
  const std::string vanishes = "fused attention keeps no scores to recompute";
  EXPECT_THAT(notes("--bf16\n--recompute-activations"), Contains(HasSubstr(vanishes)));
  EXPECT_THAT(notes("--bf16\n--recompute-granularity selective"), Contains(HasSubstr(vanishes)));
  EXPECT_THAT(notes("--bf16\n--recompute-activations\n--attention-backend unfused"),
              Not(Contains(HasSubstr(vanishes))));
}

}  // namespace
}  // namespace autocfg
