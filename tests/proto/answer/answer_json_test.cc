// The JSON of an answer, read back: as what a run needs, and as a whole.
#include "proto/answer/answer_json.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer_file.h"
#include "search/plan/plan_text.h"
#include "tests/proto/answer/sample_answer.h"

namespace autocfg {
namespace {

using test::Answer;
using test::Question;

TEST(AnswerJson, RoundTrips) {
  const auto question = Question();
  const auto json = AnswerJson({question, Answer()});
  ASSERT_TRUE(json.ok());
  auto run = ReadAnswerFile(json->dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->best.model, question.model);
  EXPECT_EQ(run->best.workload, question.workload);
  EXPECT_EQ(PlanText(run->best.plan), "tp=1,pp=2,dp=1,mbs=2,recompute=full");
}

// Returns an answer with every field that its JSON has, apart from what contradicts another.
SearchAnswer FullAnswer() {
  SearchAnswer answer{Question(), Answer()};
  answer.question.coordinator = "host:1";
  answer.question.notes = {"assumed"};
  answer.question.not_considered = {"cp"};
  v1::Recommendation& found = answer.found;
  found.set_provenance("measured");
  found.set_memory_margin(0.05);
  found.set_plan_cpu_s(0.5);
  found.set_device_s(20);
  found.set_exhaustive_device_s(400);
  found.set_chance_of_better(0.25);
  found.set_stopped("max_trials");
  found.set_plans_left(3);
  found.set_measured_op_times(7);
  found.set_reused_op_times(6);
  found.set_estimated_op_times(5);
  found.set_reused_trials(4);
  found.set_measured_not_shown(9);
  found.set_tied_not_shown(8);
  for (v1::Candidate* candidate :
       {found.mutable_best(), found.mutable_runners_up(0), found.mutable_runners_up(1)}) {
    v1::Prediction& predicted = *candidate->mutable_predicted();
    predicted.set_reason("because");
    predicted.set_step_time_low_s(0.4);
    predicted.set_step_time_high_s(0.6);
    predicted.mutable_breakdown_s()->set_compute(0.375);
    predicted.mutable_breakdown_s()->set_pp_comm(0.125);
    predicted.mutable_memory_bytes()->set_parameters(600);
    predicted.mutable_memory_bytes()->set_device_overhead(400);
    predicted.mutable_memory_bytes()->set_capacity(1 << 30);
  }
  v1::Candidate& best = *found.mutable_best();
  *best.mutable_corrected() = best.predicted();
  best.mutable_corrected()->set_step_time_s(0.26);
  best.mutable_corrected()->mutable_breakdown_s()->set_hidden_comm(0.01);
  v1::Measurement& measured = *best.mutable_measured();
  measured.add_step_time_s(0.25);
  measured.set_build_id("0.1.0+abc");
  measured.set_device_fingerprint("cpu");
  measured.set_planned_memory_bytes(950);
  measured.set_device_overhead_bytes(50);
  measured.set_ranks_per_core(0.5);
  measured.set_ranks_per_device(2);
  measured.set_engine("megatron");
  measured.set_engine_version("1");
  measured.mutable_breakdown_s()->set_bubble(0.25);
  found.mutable_runners_up(0)->mutable_measured()->set_slice(true);
  *found.add_pareto_memory() = best;
  *found.add_pareto_memory() = found.runners_up(1);
  v1::OptionEffect& effect = *found.mutable_matters_most();
  effect.set_option("pp");
  effect.set_chosen("2");
  effect.set_instead("1");
  effect.set_costs(-0.125);
  effect.set_because("of the bubble");
  effect.set_only_this_changed(true);
  *effect.mutable_plan() = found.runners_up(1).plan();
  effect.set_costs_alone(0.5);
  *effect.mutable_plan_alone() = best.plan();
  return answer;
}

TEST(AnswerJson, IsReadBackAsAWhole) {
  for (const bool predict_only : {false, true}) {
    SearchAnswer answer = FullAnswer();
    answer.question.predict_only = predict_only;
    answer.question.kept = !predict_only;
    if (predict_only) {  // so that predictions decide
      answer.found.mutable_best()->clear_measured();
      answer.found.clear_chance_of_better();
      answer.found.clear_stopped();
    }
    const auto written = AnswerJson(answer);
    ASSERT_TRUE(written.ok()) << written.status();
    const auto file = ReadAnswerFile(written->dump());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->lacks.ok()) << file->lacks;
    const auto again = AnswerJson(file->answer);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->dump(2), written->dump(2));
  }
}

// Files of earlier versions, and files of people, are read as far as they go.
TEST(ReadAnswerFile, NamesWhatAWholeAnswerLacks) {
  const auto whole = *AnswerJson(FullAnswer());
  nlohmann::ordered_json cut;
  for (const char* part : {"model", "workload"}) cut[part] = whole[part];
  cut["best"]["plan"] = whole["best"]["plan"];
  auto file = ReadAnswerFile(cut.dump());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(PlanText(file->best.plan), "tp=1,pp=2,dp=1,mbs=2,recompute=full");
  EXPECT_EQ(file->best_lacks.message(),
            "best: predicted: it is not an object; give a file that autocfg search --output wrote");
  EXPECT_EQ(file->lacks.message(),
            "the file does not hold the answer of a search; give a file that autocfg search --output wrote");
  cut["best"]["predicted"]["step_time_s"] = 0.5;
  file = ReadAnswerFile(cut.dump());
  EXPECT_EQ(file->answer.found.best().predicted().step_time_s(), 0.5) << "although the rest is missing";

  auto old = whole;
  for (const char* part : {"measured_not_shown", "notes", "not_considered", "versions"}) old.erase(part);
  for (const char* part : {"feasible", "reason", "hidden_comm_s"}) old["best"]["predicted"].erase(part);
  for (const char* part : {"ranks_per_core", "ranks_per_gpu", "engine", "engine_version", "emulated"})
    old["best"]["measured"].erase(part);
  for (const char* part : {"only_this_changed", "plan", "costs_alone", "plan_alone"})
    old["why"]["matters_most"].erase(part);
  old["search"].erase("reused_trials");
  old["counts"].erase("evaluated");
  file = ReadAnswerFile(old.dump());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->lacks.ok()) << file->lacks;
}

TEST(AnswerJson, DescribedClusterIsReadBack) {
  auto question = Question();
  EXPECT_EQ(ReadAnswerFile(AnswerJson({question, Answer()})->dump())->best.cluster, std::nullopt)
      << "this machine";
  question.cluster.local = false;
  question.cluster.groups[0].device.kind = DeviceKind::kCpu;
  const auto run = ReadAnswerFile(AnswerJson({question, Answer()})->dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->best.cluster, question.cluster);
}

TEST(ReadAnswerFile, ReadsTheMemoryMargin) {
  v1::Recommendation answer = Answer();
  answer.set_memory_margin(0.125);
  auto json = *AnswerJson({Question(), answer});
  EXPECT_EQ(ReadAnswerFile(json.dump())->best.memory_margin, 0.125);
  json["memory_margin"] = "much";
  auto status = ReadAnswerFile(json.dump()).status();
  EXPECT_EQ(status.message().substr(0, 46), "'memory_margin' is \"much\", not a number >= 0; ");
  json["memory_margin"] = 7;
  status = ReadAnswerFile(json.dump()).status();
  EXPECT_EQ(status.message().substr(0, 18), "memory_margin is 7");
  json.erase("memory_margin");
  EXPECT_EQ(ReadAnswerFile(json.dump())->best.memory_margin, std::nullopt);
}

TEST(ReadAnswerFile, ReadsEngineAndLayout) {
  auto json = *AnswerJson({Question(), Answer()});
  json["engine"] = "megatron";
  auto run = ReadAnswerFile(json.dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->best.engine, "megatron");
  EXPECT_TRUE(run->best.local);
  EXPECT_EQ(run->best.ranks_per_node, 0);
  json.erase("cluster");
  json["layout"] = {{"nodes", 2}, {"ranks_per_node", 1}};  // of two ranks
  run = ReadAnswerFile(json.dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->best.local);
  EXPECT_EQ(run->best.ranks_per_node, 1);
  for (const nlohmann::ordered_json& wrong : {nlohmann::ordered_json(3), nlohmann::ordered_json(-1),
                                              nlohmann::ordered_json("1"), nlohmann::ordered_json(0)}) {
    json["layout"]["ranks_per_node"] = wrong;
    const auto status = ReadAnswerFile(json.dump()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("layout: 'ranks_per_node' "), std::string::npos) << status;
  }
}

TEST(ReadAnswerFile, ErrorsNameTheField) {
  const auto good = *AnswerJson({Question(), Answer()});
  const auto says = [](const nlohmann::ordered_json& json, const std::string& part) {
    const auto status = ReadAnswerFile(json.dump()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in: " << status;
  };
  says("text", "model");
  says({{"losses", {1, 2}}}, "model");
  auto json = good;
  json["model"]["layers"] = -1;
  says(json, "layers");
  json = good;
  json["workload"]["global_batch"] = 0;
  says(json, "global_batch");
  json = good;
  json["workload"]["precision"] = "fp5";
  says(json, "unknown precision 'fp5'; expected fp64");
  json = good;
  json["best"]["plan"]["tp"] = "many";
  says(json, "plan");
  json = good;
  json["best"]["plan"] = nlohmann::ordered_json::object();
  says(json, "best: 'plan' is empty");
  json = good;
  json["best"] = 3;
  says(json, "best");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadAnswerFile(good.dump().substr(0, 100)).status()))
      << "a truncated file";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadAnswerFile(R"({"best": 1, "best": 2})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadAnswerFile("").status()));
}

}  // namespace
}  // namespace autocfg
