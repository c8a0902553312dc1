// Options that a user says where the file leaves them open.
#include "search/frameworks/said_options.h"

#include <map>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/persons_files.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using test::ReadFile;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::map<std::string, std::string> Said(std::string_view text) {
  const auto said = ParseSaidOptions(text);
  EXPECT_TRUE(said.ok()) << said.status();
  return said.ok() ? *said : std::map<std::string, std::string>();
}

TEST(PersonsFiles, OptionsThatAFileLeavesOpenCanBeSaid) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  options.plan = Said("recompute=full");
  const FrameworkRun full = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_EQ(PlanText(full.plan),
            "tp=1,pp=1,dp=16,mbs=2,recompute=full,zero=3,grad_overlap=1,param_overlap=1");
  EXPECT_THAT(full.notes,
              Contains("attention is your script's: read as fused attention; autocfg import --plan "
                       "attention=unfused says otherwise"));
  options.plan = Said("recompute=selective, attention=unfused");
  const FrameworkRun both = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_THAT(PlanText(both.plan), HasSubstr("recompute=selective,attention=unfused"));
  EXPECT_THAT(both.notes, Not(Contains(HasSubstr("your script's"))));

  // What the file does not say, its lines cannot change.
  const auto changed = ChangePlan(
      both, *ParsePlanText("tp=1,pp=1,dp=16,mbs=1,attention=unfused,zero=3,grad_overlap=1,param_overlap=1"),
      options);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, HasSubstr("\"train_micro_batch_size_per_gpu\": 1"));
  EXPECT_THAT(changed->besides, Contains("in your script, recompute=none in place of recompute=selective"));
  const auto kept = ChangePlan(both,
                               *ParsePlanText("tp=1,pp=1,dp=16,mbs=1,recompute=selective,attention=unfused,"
                                              "zero=3,grad_overlap=1,param_overlap=1"),
                               options);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(kept->besides, Not(Contains(HasSubstr("recompute"))));

  options.plan = Said("recompute=selective:mlp+norm");
  const FrameworkRun parts = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_THAT(PlanText(parts.plan), HasSubstr("recompute=selective:mlp+norm,"));
  const auto fewer = ChangePlan(
      parts,
      *ParsePlanText("tp=1,pp=1,dp=16,mbs=2,recompute=selective:mlp,zero=3,grad_overlap=1,param_overlap=1"),
      options);
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_TRUE(fewer->lines.empty());
  EXPECT_THAT(fewer->besides,
              Contains("in your script, recompute=selective:mlp in place of recompute=selective:mlp+norm"));

  options = {};
  options.ranks = 8;
  const auto read = [&](const std::string& flags, std::string_view said) {
    options.plan = Said(said);
    return ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
  };
  EXPECT_TRUE(IsUnfused(read("--attention-backend auto", "attention=unfused")->plan));
  EXPECT_EQ(read("--tensor-model-parallel-size 2\n--sequence-parallel\n--tp-comm-overlap", "tp_overlap=4")
                ->plan.tp_overlap,
            4);
  EXPECT_TRUE(read("", "tp=1,recompute=none").ok()) << "as the file says";
  EXPECT_EQ(read("--tensor-model-parallel-size 2", "tp=4").status().message(),
            "run.args:8: --tensor-model-parallel-size says tp=2, and --plan tp=4; change one of them");
  EXPECT_EQ(read("--attention-backend unfused", "attention=fused").status().message(),
            "run.args:8: --attention-backend says attention=unfused, and --plan attention=fused; change one "
            "of them");
  EXPECT_EQ(
      read("", "recompute=full").status().message(),
      "run.args: without a setting of it, the file says recompute=none, and --plan recompute=full; add the "
      "setting, or leave the option out of --plan");
  for (const char* wrong : {"recompute", "recompute=all", "recomput=full", "recompute=full,recompute=none"}) {
    const absl::Status status = ParseSaidOptions(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
  }
  EXPECT_TRUE(Said("").empty());
}

}  // namespace
}  // namespace autocfg
