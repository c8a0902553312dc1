// Anchors, aliases and merged mappings of YAML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/settings/settings_forms.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::map<std::string, std::string> ValuesIn(const std::string& text) {
  const auto settings = ReadYamlSettings("a.yaml", text);
  EXPECT_TRUE(settings.ok()) << settings.status();
  std::map<std::string, std::string> values;
  if (!settings.ok()) return values;
  for (const Setting& setting : settings->settings) {
    EXPECT_TRUE(values.emplace(setting.name, absl::StrJoin(setting.values, ",")).second) << setting.name;
  }
  return values;
}

std::string ProblemOf(const std::string& text) {
  return std::string(ReadYamlSettings("a.yaml", text).status().message());
}

TEST(YamlAnchors, AliasesStandForValuesListsAndMappings) {
  EXPECT_THAT(ValuesIn("a: &x 1\nb: *x\n"), ElementsAre(Pair("a", "1"), Pair("b", "1")));
  EXPECT_THAT(ValuesIn("a: &x [1, 2]\nb: *x\nc: [*x, 3]\n"),
              ElementsAre(Pair("a", "1,2"), Pair("b", "1,2"), Pair("c", "1,2,3")));
  EXPECT_THAT(ValuesIn("a: &x\n  k: 1\n  l: &y {m: 2}\nb: *x\nc: *y\n"),
              ElementsAre(Pair("a.k", "1"), Pair("a.l.m", "2"), Pair("b.k", "1"), Pair("b.l.m", "2"),
                          Pair("c.m", "2")));
}

TEST(YamlAnchors, AMergedMappingSaysWhatTheOtherLeavesOpen) {
  const std::string base = "base: &base\n  lr: 1\n  sched: {name: cos, warmup: 5}\n";
  EXPECT_THAT(
      ValuesIn(absl::StrCat(base, "run:\n  <<: *base\n  lr: 2\n")),
      ElementsAre(Pair("base.lr", "1"), Pair("base.sched.name", "cos"), Pair("base.sched.warmup", "5"),
                  Pair("run.lr", "2"), Pair("run.sched.name", "cos"), Pair("run.sched.warmup", "5")));
  // What stands before it counts, too, and a mapping stands in place of the whole other.
  const auto values = ValuesIn(absl::StrCat(base, "run:\n  sched: {name: lin}\n  <<: *base\n"));
  EXPECT_EQ(values.count("run.sched.warmup"), 0);
  EXPECT_EQ(values.at("run.sched.name"), "lin");
  EXPECT_EQ(values.at("run.lr"), "1");
}

TEST(YamlAnchors, OfSeveralMergedTheFirstCounts) {
  const auto values = ValuesIn(
      "a: &a {k: 1}\nb: &b {k: 2, l: 2}\nc: &c\n  <<: *b\n  m: 3\nlist:\n  <<: [*a, *b]\nnested:\n  <<: "
      "*c\n");
  EXPECT_EQ(values.at("list.k"), "1");
  EXPECT_EQ(values.at("list.l"), "2");
  EXPECT_EQ(values.at("nested.k"), "2");
  EXPECT_EQ(values.at("nested.m"), "3");
}

// The anchor's value may be that of other settings, too.
TEST(YamlAnchors, AnAliasIsChangedIntoAValue) {
  std::string text = SmallFile(kNemo, "model.tensor_model_parallel_size", "*tp");
  text = absl::StrCat("base:\n  n: &tp 2\n", text);
  const auto run = ReadFrameworkFile(kNemo, "a.yaml", text);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.tp, 2);
  ParallelPlan plan = run->plan;
  plan.tp = 4;
  plan.dp = 2;
  const auto changed = ChangePlan(*run, plan, {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("n: &tp 2\n"), HasSubstr("  tensor_model_parallel_size: 4\n")));
}

TEST(YamlAnchors, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(ProblemOf("a: *x\nb: &x 1\n"),
              HasSubstr("a.yaml:1: *x is none of the anchors before it; write the"));
  EXPECT_THAT(ProblemOf("a: &x\n  b: *x\n"), HasSubstr("a.yaml:2: *x is none of the anchors before it"));
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = absl::StrCat("*a", i - 1);
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [", alias, ", ", alias, ", ", alias, ", ", alias, ", ", alias,
                    ", ", alias, ", ", alias, ", ", alias, ", ", alias, "]\n");
  }
  EXPECT_THAT(ProblemOf(bomb), HasSubstr("its aliases stand for more than 100000 values; write out those"));
  // An anchor that gets another node, which holds the first.
  EXPECT_THAT(ProblemOf("a: &x 1\nb: &y [*x]\nc: &x [*y]\nd: *x\n"), HasSubstr("nested deeper than 64"));
}

}  // namespace
}  // namespace autocfg
