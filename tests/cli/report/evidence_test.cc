// Measured against predicted parts of a step, as texts and as JSON.
#include "cli/report/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "proto/answer/answer_file.h"
#include "proto/answer/answer_json.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "tests/proto/answer/sample_answer.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr BarStyle kEightyColumns = {.columns = 80, .unicode = false, .color = false};

v1::Breakdown Parts(double compute, double pp_comm, double bubble) {
  return ToProto(Breakdown{.compute = compute, .pp_comm = pp_comm, .bubble = bubble, .optimizer = 0.05});
}

v1::Trial MeasuredTrial(std::int64_t number, double seconds) {
  v1::Trial trial;
  trial.set_name("studies/3/trials/" + std::to_string(number));
  trial.set_plan_text("tp=1,pp=2,dp=1,mbs=1");
  *trial.mutable_plan() = ToProto(*ParsePlanText(trial.plan_text()));
  trial.set_state(v1::TRIAL_STATE_MEASURED);
  trial.mutable_predicted()->set_step_time_s(0.45);
  trial.mutable_predicted()->set_step_time_low_s(0.4);
  trial.mutable_predicted()->set_step_time_high_s(0.5);
  *trial.mutable_predicted()->mutable_breakdown_s() = Parts(0.3, 0.05, 0.05);
  trial.mutable_measured()->set_median_step_time_s(seconds);
  trial.mutable_measured()->set_ci95_s(seconds / 100);
  trial.mutable_measured()->add_step_time_s(seconds);
  v1::Breakdown measured = Parts(0.25, 0.1, 0.1);
  measured.set_hidden_comm(0.02);
  *trial.mutable_measured()->mutable_breakdown_s() = measured;
  return trial;
}

TEST(Evidence, TextHasEveryPartOfBothAndTheDifference) {
  const std::string text = EvidenceText(*EvidenceOf(MeasuredTrial(1, 0.48)), kEightyColumns);
  EXPECT_EQ(text,
            "plan: tp=1,pp=2,dp=1,mbs=1  (measured)\n"
            "\n"
            "measured:  480 ms +- 4.8 ms\n"
            "predicted: 450 ms (400 ms to 500 ms, 90% interval)\n"
            "\n"
            "parts of a step: measured, predicted, difference\n"
            "  compute         #######           250 ms  ########          300 ms  -50 ms\n"
            "  recompute                            0 s                       0 s\n"
            "  tensor comm.                         0 s                       0 s\n"
            "  pipeline comm.  ###               100 ms  #                  50 ms  +50 ms\n"
            "  data comm.                           0 s                       0 s\n"
            "  bubble          ###               100 ms  #                  50 ms  +50 ms\n"
            "  optimizer       #                  50 ms  #                  50 ms\n"
            "  overhead                             0 s                       0 s\n"
            "  in all          #############     500 ms  ############      450 ms  +50 ms\n"
            "  exposed comm.   ###               100 ms  #                  50 ms  +50 ms\n"
            "  hidden comm.    #                  20 ms                         -\n"
            "\n"
            "The measured parts are of one more step, which was recorded, on the rank\n"
            "that worked longest. Exposed communication is what the rank waits for, hidden\n"
            "communication runs while it computes.\n");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.find("  ") != 0 || line.size() <= 80) << line;
  }
}

TEST(Evidence, SaysWhyThereAreNoParts) {
  v1::Trial trial = MeasuredTrial(1, 0.48);
  trial.mutable_measured()->clear_breakdown_s();
  EXPECT_THAT(EvidenceText(*EvidenceOf(trial), kEightyColumns),
              HasSubstr("\n\nThe parts of this measurement were not recorded; a worker of this version\n"
                        "records them.\n"));
  trial.mutable_measured()->set_slice(true);
  const std::string slice = EvidenceText(*EvidenceOf(trial), kEightyColumns);
  EXPECT_THAT(slice, HasSubstr("measured:  480 ms +- 4.8 ms (the slice)\n"));
  EXPECT_THAT(slice, HasSubstr("The parts of a slice are not recorded: its rank waits for no other.\n"));
  EXPECT_THAT(slice, Not(HasSubstr("compute")));
  trial.clear_measured();
  EXPECT_EQ(EvidenceOf(trial).status().message(),
            "studies/3/trials/1 has no measurement to show; name a plan that was measured");
}

TEST(Evidence, OfAStudyIsOfItsFastestPlanWithoutSlices) {
  std::vector<v1::Trial> trials = {MeasuredTrial(1, 0.5), MeasuredTrial(2, 0.4), MeasuredTrial(3, 0.1),
                                   MeasuredTrial(4, 0.2)};
  trials[2].mutable_measured()->set_slice(true);
  trials[3].clear_measured();
  trials[1].mutable_predicted()->set_step_time_s(7);
  trials.push_back(MeasuredTrial(5, 0.43));
  trials.back().set_plan_text("tp=2,pp=1,dp=1,mbs=1");
  const auto best = EvidenceOfBest({}, trials);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->plan_text(), "tp=2,pp=1,dp=1,mbs=1") << "0.4 s is one trial of a plan of 0.45 s";
  trials.pop_back();
  const auto pooled = EvidenceOfBest({}, trials);
  ASSERT_TRUE(pooled.ok()) << pooled.status();
  EXPECT_DOUBLE_EQ(pooled->measured().median_step_time_s(), 0.45);
  EXPECT_EQ(pooled->predicted().step_time_s(), 0.45) << "before the first trial";
  EXPECT_EQ(EvidenceOfBest({}, std::vector{trials[2], trials[3]}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Evidence, OfAStudyWithoutMeasurementsSaysHowItsTrialsEnded) {
  v1::Study study;
  study.set_name("studies/9");
  EXPECT_EQ(EvidenceOfBest(study, {}).status().message(),
            "study 9 has no trial, so there is no measurement to show; name another study");
  std::vector<v1::Trial> trials(3);
  trials[0].set_state(v1::TRIAL_STATE_FAILED);
  trials[1].set_state(v1::TRIAL_STATE_INFEASIBLE);
  trials[2].set_state(v1::TRIAL_STATE_FAILED);
  EXPECT_EQ(EvidenceOfBest(study, trials).status().message(),
            "no trial of study 9 was measured (2 failed, 1 infeasible); autocfg trials 9 says why");
}

TEST(Evidence, OfAStudyIsTheMeasurementOfItsBestPlan) {
  const std::vector<v1::Trial> trials = {MeasuredTrial(1, 0.5), MeasuredTrial(2, 0.4)};
  v1::Study study;
  v1::Candidate& best = *study.mutable_best();
  best.set_plan_text("tp=1,pp=2,dp=1,mbs=1");
  best.mutable_predicted()->set_step_time_s(0.3);
  best.mutable_measured()->set_median_step_time_s(0.47);
  best.mutable_measured()->set_ci95_s(0.08);
  const auto evidence = EvidenceOfBest(study, trials);
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_THAT(EvidenceText(*evidence, kEightyColumns), HasSubstr("measured:  470 ms +- 80 ms\n"));
  EXPECT_EQ(evidence->predicted().step_time_s(), 0.3);
  best.mutable_measured()->set_slice(true);
  EXPECT_DOUBLE_EQ(EvidenceOfBest(study, trials)->measured().median_step_time_s(), 0.45);
}

TEST(Evidence, TableOfTrialsHasTheColumnsThatAreNotZero) {
  std::vector<v1::Trial> trials = {MeasuredTrial(1, 0.5), MeasuredTrial(2, 0.4), MeasuredTrial(12, 0.3)};
  trials[1].mutable_measured()->clear_breakdown_s();
  trials[2].mutable_measured()->mutable_breakdown_s()->set_dp_comm(0.025);
  trials[2].mutable_measured()->mutable_breakdown_s()->clear_hidden_comm();
  EXPECT_EQ(PartsOfTrials(trials),
            "                             pipeline  data                      exposed  hidden\n"
            "  trial  parts      compute  comm.     comm.  bubble  optimizer  comm.    comm.\n"
            "  1      measured   250 ms   100 ms    0 s    100 ms  50 ms      100 ms   20 ms\n"
            "         predicted  300 ms   50 ms     0 s    50 ms   50 ms      50 ms    -\n"
            "  12     measured   250 ms   100 ms    25 ms  100 ms  50 ms      125 ms   -\n"
            "         predicted  300 ms   50 ms     0 s    50 ms   50 ms      50 ms    -\n");
  EXPECT_EQ(PartsOfTrials(std::vector{trials[1]}), "");
}

nlohmann::ordered_json BestJson(const v1::Trial& trial) {
  v1::Recommendation answer;
  answer.mutable_best()->set_plan_text(trial.plan_text());
  *answer.mutable_best()->mutable_plan() = trial.plan();
  *answer.mutable_best()->mutable_predicted() = trial.predicted();
  if (trial.has_measured()) *answer.mutable_best()->mutable_measured() = trial.measured();
  const auto json = AnswerJson({test::Question(), answer});
  EXPECT_TRUE(json.ok()) << json.status();
  return *json;
}

TEST(AnswerJson, HasThePartsOfBothTimes) {
  const nlohmann::ordered_json best = BestJson(MeasuredTrial(1, 0.48))["best"];
  for (const char* side : {"measured", "predicted"}) {
    ASSERT_EQ(best[side]["breakdown_s"].size(), kBreakdownParts.size()) << side;
    for (const BreakdownPart& part : kBreakdownParts)
      EXPECT_TRUE(best[side]["breakdown_s"].contains(std::string(part.name))) << part.name;
  }
  EXPECT_EQ(best["measured"]["breakdown_s"]["compute"], 0.25);
  EXPECT_EQ(best["predicted"]["breakdown_s"]["compute"], 0.3);
  EXPECT_EQ(best["measured"]["exposed_comm_s"], 0.1);
  EXPECT_EQ(best["predicted"]["exposed_comm_s"], 0.05);
  EXPECT_EQ(best["measured"]["hidden_comm_s"], 0.02);
  EXPECT_TRUE(best["predicted"]["hidden_comm_s"].is_null());
  v1::Trial old = MeasuredTrial(1, 0.48);
  old.mutable_measured()->clear_breakdown_s();
  const nlohmann::ordered_json without = BestJson(old)["best"];
  for (const char* key : {"breakdown_s", "exposed_comm_s", "hidden_comm_s"}) {
    ASSERT_TRUE(without["measured"].contains(key)) << key;
    EXPECT_TRUE(without["measured"][key].is_null()) << key;
  }
}

TEST(Evidence, OfAFileIsThatOfTheTrial) {
  v1::Trial trial = MeasuredTrial(1, 0.48);
  for (const bool recorded : {true, false}) {
    if (!recorded) trial.mutable_measured()->clear_breakdown_s();
    const auto read = EvidenceOf(*ReadAnswerFile(BestJson(trial).dump()));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(EvidenceText(*read, kEightyColumns), EvidenceText(*EvidenceOf(trial), kEightyColumns));
  }
}

TEST(Evidence, NamesWhatIsWrongInAFile) {
  const auto refusal = [](const auto& change) {
    nlohmann::ordered_json json = BestJson(MeasuredTrial(1, 0.48));
    change(json);
    const auto file = ReadAnswerFile(json.dump());
    return std::string((file.ok() ? EvidenceOf(*file).status() : file.status()).message());
  };
  EXPECT_THAT(refusal([](auto& j) { j.erase("best"); }), HasSubstr("'best' is missing"));
  EXPECT_THAT(refusal([](auto& j) { j = 3; }), HasSubstr("is missing"));
  EXPECT_THAT(refusal([](auto& j) { j["best"] = nullptr; }), HasSubstr("found no plan that fits"));
  EXPECT_THAT(refusal([](auto& j) { j["best"] = 3; }), HasSubstr("best: it is not an object"));
  EXPECT_THAT(refusal([](auto& j) { j["best"]["measured"] = nullptr; }),
              HasSubstr("the best plan has no measurement to show"));
  EXPECT_THAT(refusal([](auto& j) { j["best"].erase("plan"); }), HasSubstr("'plan' is missing"));
  EXPECT_THAT(refusal([](auto& j) { j["best"].erase("predicted"); }),
              HasSubstr("best: predicted: it is not an object"));
  EXPECT_THAT(refusal([](auto& j) { j["best"]["measured"]["step_time_s"] = "fast"; }),
              HasSubstr("best: measured: 'step_time_s' is \"fast\", not a number >= 0"));
  EXPECT_THAT(refusal([](auto& j) { j["best"]["measured"]["breakdown_s"]["bubble"] = -1; }),
              HasSubstr("best: measured: breakdown_s: 'bubble' is -1, not a number >= 0"));
  EXPECT_THAT(refusal([](auto& j) { j["best"]["measured"]["breakdown_s"] = 1; }),
              HasSubstr("best: measured: breakdown_s: it is not an object"));
  EXPECT_THAT(refusal([](auto& j) { j["best"]["measured"]["hidden_comm_s"] = "x"; }),
              HasSubstr("best: measured: 'hidden_comm_s' is \"x\", not a number >= 0"));
}

}  // namespace
}  // namespace autocfg::cli
