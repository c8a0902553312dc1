// One row more in a copy of the table of plan options: every consumer knows the option. And: two plans that
// differ in one option share no cached cost that depends on it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/cost/cost_model.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "search/planner/plans/plan_table.h"
#include "search/predict/predict_plan.h"
#include "search/schedule/program.h"
#include "search/space/search_space.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "tests/proto/convert/wire.h"

namespace autocfg {
namespace {

using test::FormatsPage;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kProbeValues[] = {"1", "2", "4", "8"};

// The table with a new option, "probe" in text and "probe_chunks" in JSON, predicted, run and searched. It is
// stored in the field of tp_overlap, whose own row is left out.
std::vector<PlanOption> TableWithProbe() {
  std::vector<PlanOption> table;
  for (const PlanOption& option : PlanOptions()) {
    if (option.name != "tp_overlap") {
      table.push_back(option);
      continue;
    }
    PlanOption probe = option;
    probe.name = "probe";
    probe.json_name = "probe_chunks";
    probe.summary = "chunks of a probe";
    probe.choices = kProbeValues;
    probe.predicted = {};
    probe.run = {};
    probe.searched = true;
    probe.needs_hiding = false;
    table.push_back(probe);
  }
  return table;
}

ParallelPlan ProbePlan() {
  ParallelPlan plan{{.tp = 2}};
  plan.tp_overlap = 4;
  return plan;
}

TEST(AddedOption, IsParsedAndPrintedAsText) {
  const std::vector<PlanOption> table = TableWithProbe();
  EXPECT_EQ(PlanText(ProbePlan(), table), "tp=2,pp=1,dp=1,mbs=1,probe=4");
  EXPECT_EQ(*ParsePlanText("tp=2,probe=4", table), ProbePlan());
  EXPECT_THAT(std::string(ParsePlanText("probe=3", table).status().message()),
              HasSubstr("probe=3 is not valid; it must be one of 1, 2, 4, 8"));
  EXPECT_THAT(std::string(ParsePlanText("prob=4", table).status().message()),
              HasSubstr("did you mean probe?"));
  EXPECT_FALSE(ParsePlanText("probe=4").ok()) << "the table of the program has no such row";
}

TEST(AddedOption, IsParsedAndPrintedAsJson) {
  const std::vector<PlanOption> table = TableWithProbe();
  EXPECT_EQ(PlanJson(ProbePlan(), table)["probe_chunks"], 4);
  EXPECT_EQ(*ParsePlanJson(PlanJson(ProbePlan(), table), table), ProbePlan());
  EXPECT_THAT(std::string(ParsePlanJson({{"probe", 4}}, table).status().message()),
              HasSubstr("did you mean probe_chunks?"));
}

TEST(AddedOption, IsConvertedToAndFromProtobuf) {
  google::protobuf::FileDescriptorProto file;
  file.set_name("probe.proto");
  file.set_syntax("proto3");
  v1::ParallelPlan::descriptor()->CopyTo(file.add_message_type());
  auto* field = file.mutable_message_type(0)->add_field();
  field->set_name("probe_chunks");
  field->set_number(1000);
  field->set_type(google::protobuf::FieldDescriptorProto::TYPE_INT64);
  field->set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
  google::protobuf::DescriptorPool pool;
  const auto* built = pool.BuildFile(file);
  ASSERT_NE(built, nullptr);
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> message(
      factory.GetPrototype(built->message_type(0))->New());

  const std::vector<PlanOption> table = TableWithProbe();
  PlanToMessage(ProbePlan(), *message, table);
  EXPECT_THAT(message->ShortDebugString(), HasSubstr("probe_chunks: 4"));
  EXPECT_EQ(*PlanFromMessage(*message, table), ProbePlan());
}

TEST(AddedOption, NeedsAFieldOfTheMessage) {
  v1::ParallelPlan message;
  EXPECT_THROW(PlanToMessage(ProbePlan(), message, TableWithProbe()), std::logic_error);
}

TEST(AddedOption, IsNotedAndCanonicalWithoutEffect) {
  const std::vector<PlanOption> table = TableWithProbe();
  ParallelPlan plan = ProbePlan();
  EXPECT_TRUE(Notes(plan, table).empty());
  plan.tp = 1;
  EXPECT_THAT(Notes(plan, table), Contains("probe=4 has nothing to act on at tp=1"));
  EXPECT_EQ(Canonical(plan, table), ParallelPlan());
}

TEST(AddedOption, IsRefusedUntilItIsPredictedAndRun) {
  std::vector<PlanOption> table = TableWithProbe();
  EXPECT_TRUE(CheckEngineSupports(ProbePlan(), table).ok());
  auto& probe = *std::find_if(table.begin(), table.end(), [](const auto& o) { return o.name == "probe"; });
  probe.run = probe.choices.first(1);
  EXPECT_TRUE(CheckPredictable(ProbePlan(), table).ok());
  EXPECT_EQ(std::string(CheckEngineSupports(ProbePlan(), table).message()),
            "plan: probe=4 can be predicted, but running it is not supported yet; use probe=1");
  probe.predicted = probe.choices.first(1);
  EXPECT_EQ(std::string(CheckPredictable(ProbePlan(), table).message()),
            "plan: probe=4 is not supported yet; use probe=1");
}

TEST(AddedOption, IsSearchedAndNarrowed) {
  const std::vector<PlanOption> table = TableWithProbe();
  const ModelSpec model = *ModelPreset("gpt2-tiny");
  const Workload workload{.global_batch = 2, .seq_len = 64};
  const auto values = [&](const AxisValues& axes) {
    std::vector<std::int64_t> seen;
    const auto space = SearchSpace::Create(model, workload, 2, axes, {.table = table});
    EXPECT_TRUE(space.ok()) << space.status();
    if (!space.ok()) return seen;
    space->ForEachLegal([&](const ParallelPlan& plan) {
      if (plan.tp == 1) {
        EXPECT_EQ(plan.tp_overlap, 1) << "redundant values stand for the default";
      } else {
        seen.push_back(plan.tp_overlap);
      }
      return true;
    });
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    return seen;
  };
  EXPECT_EQ(values({}), (std::vector<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(values({{"probe", {"8", "2"}}}), (std::vector<std::int64_t>{2, 8}));
  EXPECT_EQ(values({{"probe_chunks", {"2"}}}), (std::vector<std::int64_t>{2}));
}

TEST(AddedOption, IsKeptByTheCompactTable) {
  PlanTable table;
  const CompactPlan packed = table.Pack(ProbePlan());
  EXPECT_EQ(table.Unpack(packed), ProbePlan());
  EXPECT_FALSE(table.Pack(ParallelPlan{{.tp = 2}}) == packed);
}

TEST(AddedOption, IsInHelpAndDocs) {
  const std::vector<PlanOption> table = TableWithProbe();
  EXPECT_THAT(PlanOptionsHelp(table), HasSubstr("probe           chunks of a probe (1, 2, 4, 8; default 1)"));
  EXPECT_THAT(PlanOptionsMarkdown(table),
              HasSubstr("| probe | probe_chunks | chunks of a probe | 1, 2, 4, 8 | 1 | all | all |"));
}

TEST(PlanOptions, EveryMessageFieldIsAnOption) {
  const auto* message = v1::ParallelPlan::descriptor();
  for (int i = 0; i < message->field_count(); ++i) {
    const std::string& name = message->field(i)->name();
    EXPECT_TRUE(std::any_of(PlanOptions().begin(), PlanOptions().end(), [&](const PlanOption& option) {
      return option.json_name == name;
    })) << name;
  }
}

TEST(PlanOptions, StandInTheDocumentationAsInTheTable) {
  EXPECT_THAT(FormatsPage(), HasSubstr(PlanOptionsMarkdown()));
}

TEST(IllegalReasons, StandInTheDocumentation) {
  const std::string text = FormatsPage();
  for (int i = 0; i < kIllegalReasonCount; ++i)
    EXPECT_THAT(text, HasSubstr(fmt::format("`{}`", Name(static_cast<IllegalReason>(i)))));
}

// Values of every option beside its default, in a plan in which each acts.
std::vector<ParallelPlan> PlansThatDifferInOneOption(const ParallelPlan& base) {
  std::vector<ParallelPlan> plans;
  for (const PlanOption& option : PlanOptions()) {
    std::vector<std::string> values(option.choices.begin(), option.choices.end());
    if (option.form == OptionForm::kSize) values = {"1", "2", "4"};
    if (option.name == "split") values = {"even", "3+1+2+2"};
    if (option.name == "recompute") values = {"none", "selective", "full", "full:1"};
    for (const std::string& value : values) {
      ParallelPlan plan = base;
      EXPECT_TRUE(option.parse(option, value, plan).ok()) << option.name << "=" << value;
      if (!option.equal(plan, base)) plans.push_back(plan);
    }
  }
  return plans;
}

TEST(PlanOptions, PlansThatDifferInOneShareNoCachedCostThatDependsOnIt) {
  ModelSpec model{.layers = 8, .hidden = 256, .heads = 8, .vocab = 1024, .max_seq_len = 128};
  FillDefaults(model);
  const Workload workload{.global_batch = 64, .seq_len = 128, .precision = *ParsePrecision("bf16")};
  const ClusterSpec cluster = *PresetCluster("a100-80gb-sxm:4x8");
  ParallelPlan base{{.tp = 2, .pp = 4, .dp = 2}, {.attention = Attention::kUnfused}};
  int compared = 0;
  for (const ParallelPlan& plan : PlansThatDifferInOneOption(base)) {
    if (!CheckLegal({model, workload, plan}, 32).ok() || !CheckPredictable(plan).ok()) continue;
    for (const auto& [first, second] : {std::pair(base, plan), std::pair(plan, base)}) {
      auto warm = Predictor::Create({model, workload, cluster});
      auto cold = Predictor::Create({model, workload, cluster});
      ASSERT_TRUE(warm.ok()) << warm.status();
      ASSERT_TRUE(warm->Predict(first).ok());
      const auto after = warm->Predict(second);
      const auto alone = cold->Predict(second);
      ASSERT_TRUE(after.ok() && alone.ok());
      EXPECT_EQ(after->prediction.step_time_s, alone->prediction.step_time_s)
          << PlanText(second) << " after " << PlanText(first);
      EXPECT_EQ(after->prediction.breakdown.Total(), alone->prediction.breakdown.Total());
      EXPECT_EQ(after->prediction.memory.Total(), alone->prediction.memory.Total());
    }
    ++compared;
  }
  EXPECT_GE(compared, 9);
}

// What a plan is predicted as: what memory, ops and messages it needs, in which order, and how long it takes.
struct Effect {
  std::uint64_t program = 0;  // its fingerprint
  double step_time_s = 0;
  MemoryBytes memory;
  bool operator==(const Effect&) const = default;
};

// A value that the table declares predicted, and that nothing reads, is in no such effect.
TEST(PlanOptions, EveryPredictedValueHasAnEffect) {
  ModelSpec model{.layers = 8, .hidden = 256, .heads = 8, .vocab = 1024, .max_seq_len = 128};
  FillDefaults(model);
  const Workload workload{.global_batch = 64, .seq_len = 128, .precision = *ParsePrecision("bf16")};
  const ClusterSpec cluster = *PresetCluster("a100-80gb-sxm:4x8");
  auto predictor = Predictor::Create({model, workload, cluster});
  ASSERT_TRUE(predictor.ok()) << predictor.status();
  const auto effect = [&](const ParallelPlan& plan) {
    const auto predicted = predictor->Predict(plan);
    EXPECT_TRUE(predicted.ok()) << PlanText(plan) << ": " << predicted.status();
    if (!predicted.ok()) return Effect();
    return Effect{.program = Fingerprint(Lower({model, workload, predicted->plan})),
                  .step_time_s = predicted->prediction.step_time_s,
                  .memory = predicted->prediction.memory};
  };
  // Scores that are stored give selective recompute something to act on.
  const ParallelPlan base{{.tp = 2, .pp = 4, .dp = 2}, {.attention = Attention::kUnfused}};
  for (const PlanOption& option : PlanOptions()) {
    std::vector<std::string> values(option.choices.begin(), option.choices.end());
    if (option.form == OptionForm::kSize) values = {"1", "2", "4"};
    if (option.name == "split") values = {"even", "3+1+2+2"};
    if (option.name == "recompute") values = {"none", "selective", "full", "full:1"};
    std::vector<std::pair<std::string, Effect>> effects;
    for (const std::string& value : values) {
      ParallelPlan plan = base;
      ASSERT_TRUE(option.parse(option, value, plan).ok()) << option.name << "=" << value;
      if (option.name == "vpp") SetDependentDefaults(plan);
      if (option.name == "schedule" && plan.schedule == Schedule::kInterleaved) plan.virtual_stages = 2;
      if (!CheckPredictable(plan).ok() || !CheckLegal({model, workload, plan}, 32).ok()) continue;
      effects.emplace_back(value, effect(plan));
    }
    EXPECT_FALSE(effects.empty()) << option.name;
    for (std::size_t i = 0; i < effects.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(effects[i].second == effects[j].second)
            << option.name << "=" << effects[j].first << " and " << effects[i].first;
      }
    }
  }
}

}  // namespace
}  // namespace autocfg
