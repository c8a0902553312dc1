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
#include "search/plan/plan_options.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// What is known to be harmless is left out.
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
    EXPECT_FALSE(named.empty());
    for (const auto& [pattern, harmless] : named) {
      const bool prefix = pattern.ends_with('*');
      std::string name = pattern.substr(0, pattern.size() - (prefix ? 1 : 0));
      if (prefix) name += name.ends_with('.') || name.ends_with('_') ? "some_offload" : "some-offload";
      options.plan.clear();
      if (framework == kAccelerate) options.plan["mbs"] = "1";
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
  EXPECT_THAT(
      notes("--bf16\n--recompute-activations\n--recompute-modules core_attn mlp"),
      Contains("run.args:9: --recompute-activations is selective, and fused attention keeps no scores to "
               "recompute: read as recompute=selective:mlp"));
}

TEST(PersonsFiles, ReadsTheModulesOfASelectiveRecomputation) {
  ReadingOptions options;
  options.ranks = 8;
  struct Case {
    const char* flags;
    const char* recompute;
    const char* notes;  // a part of one; empty: none says anything of modules
  };
  const std::string selective = "--bf16\n--recompute-granularity selective\n";
  for (const Case& c : {
           Case{"--recompute-modules mlp", "selective:mlp",
                "run.args:10: --recompute-modules names mlp, which"},
           Case{"--recompute-modules=mlp", "selective:mlp", "names mlp"},
           Case{"--recompute-modules mlp mlp", "selective:mlp", "names mlp"},
           Case{"--recompute-modules mlp core_attn\n--attention-backend unfused", "selective:core_attn+mlp",
                "names mlp"},
           Case{"--recompute-modules core_attn\n--attention-backend unfused", "selective", ""},
           Case{"--recompute-modules core_attn", "none", ""},
           Case{"--recompute-modules", "none", "names no module: read as recompute=none"},
           Case{"--recompute-modules layernorm mlp", "selective:mlp",
                "names layernorm, which has nothing to act on: in dense layers of Transformer Engine"},
           Case{"--recompute-modules layernorm", "none", "names layernorm, which has nothing to act on"},
           Case{"--recompute-modules layernorm mlp\n--transformer-impl local", "selective:mlp+norm",
                "names mlp"},
           Case{"--recompute-modules layernorm\n--transformer-impl transformer_engine", "none",
                "names layernorm, which has nothing to act on"},
           Case{"--recompute-modules moe_act mlp moe shared_experts", "selective:mlp",
                "names shared_experts, which has nothing to act on without experts"},
       }) {
    const auto run = ReadFrameworkFile(kMegatron, "run.args", FlagsWith(selective + c.flags), options);
    ASSERT_TRUE(run.ok()) << c.flags << ": " << run.status();
    EXPECT_EQ(RecomputeText(run->plan), c.recompute) << c.flags;
    if (*c.notes == '\0') {
      EXPECT_THAT(run->notes, Not(Contains(HasSubstr("--recompute-modules")))) << c.flags;
    } else {
      EXPECT_THAT(run->notes, Contains(HasSubstr(c.notes))) << c.flags;
    }
  }
  for (const auto& [flags, recompute] :
       {std::pair("--recompute-modules mlp", "none"),
        {"--recompute-granularity full\n--recompute-method uniform\n--recompute-modules mlp xyz", "full"}}) {
    const auto run = ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
    ASSERT_TRUE(run.ok()) << flags << ": " << run.status();
    EXPECT_EQ(RecomputeText(run->plan), recompute) << flags;
    EXPECT_THAT(run->notes, Contains(HasSubstr("--recompute-modules has no effect without "
                                               "--recompute-granularity selective")));
  }
}

}  // namespace
}  // namespace autocfg
