#include "server/store/attempt_verdict.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/store.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

// The store's suite tests the verdict for reports. These tests cover ends without a report, and more than two
// shares.
TEST(AttemptVerdict, FirstShareWithDecidingEndIsDecisive) {
  const std::vector<ShareEnd> ends = {ShareEnd::kMeasured, ShareEnd::kFailedByPeer, ShareEnd::kLost,
                                      ShareEnd::kCancelled, ShareEnd::kLost};
  const AttemptVerdict verdict = VerdictOf(ends);
  EXPECT_EQ(verdict.decisive, 2u);
  EXPECT_EQ(verdict.end, ShareEnd::kLost);
  EXPECT_TRUE(verdict.again);
  EXPECT_TRUE(verdict.costs);
}

TEST(AttemptVerdict, WithdrawnShareOutranksPeerFailures) {
  const std::vector<ShareEnd> peer = {ShareEnd::kFailedByPeer, ShareEnd::kWithdrawn};
  EXPECT_EQ(VerdictOf(peer).end, ShareEnd::kWithdrawn);
  EXPECT_TRUE(VerdictOf(peer).again);
  EXPECT_FALSE(VerdictOf(peer).costs);
  const std::vector<ShareEnd> own = {ShareEnd::kWithdrawn, ShareEnd::kFailed};
  EXPECT_EQ(VerdictOf(own).end, ShareEnd::kFailed);
  EXPECT_FALSE(VerdictOf(own).again);
}

// A job whose ranks only ever fail because of their peers must not be retried forever.
TEST(AttemptVerdict, ReturnedShareOutranksPeerFailureUnlessTold) {
  const std::vector<ShareEnd> unasked = {ShareEnd::kFailedByPeer, ShareEnd::kCancelled};
  EXPECT_EQ(VerdictOf(unasked).decisive, 1u);
  EXPECT_TRUE(VerdictOf(unasked).again);
  EXPECT_TRUE(VerdictOf(unasked).costs) << "or it could be given back for ever";
  const std::vector<ShareEnd> told = {ShareEnd::kStopped, ShareEnd::kFailedByPeer};
  EXPECT_EQ(VerdictOf(told).end, ShareEnd::kFailedByPeer);
  EXPECT_TRUE(VerdictOf(told).again);
  EXPECT_TRUE(VerdictOf(told).costs);
  EXPECT_EQ(EndOf(v1::OUTCOME_CANCELLED, v1::FAILURE_KIND_UNSPECIFIED, false), ShareEnd::kCancelled);
  EXPECT_EQ(EndOf(v1::OUTCOME_CANCELLED, v1::FAILURE_KIND_UNSPECIFIED, true), ShareEnd::kStopped);
}

TEST(AttemptVerdict, ValidAnswerIsNotRetried) {
  for (const ShareEnd end :
       {ShareEnd::kMeasured, ShareEnd::kOutOfMemory, ShareEnd::kFailed, ShareEnd::kTimedOut}) {
    const std::vector<ShareEnd> ends = {end, ShareEnd::kMeasured};
    EXPECT_EQ(VerdictOf(ends).end, end);
    EXPECT_FALSE(VerdictOf(ends).again);
    EXPECT_FALSE(VerdictOf(ends).costs);
  }
}

TEST(AttemptVerdict, FailureWithoutKindIsOwnAndUnknownOutcomeIsNoEnd) {
  EXPECT_EQ(EndOf(v1::OUTCOME_FAILED, v1::FAILURE_KIND_UNSPECIFIED, false), ShareEnd::kFailed);
  EXPECT_EQ(EndOf(v1::OUTCOME_FAILED, static_cast<v1::FailureKind>(77), false), ShareEnd::kFailed);
  EXPECT_EQ(EndOf(v1::OUTCOME_TIMED_OUT, v1::FAILURE_KIND_PEER, true), ShareEnd::kTimedOut);
  EXPECT_EQ(EndOf(v1::OUTCOME_UNSPECIFIED, v1::FAILURE_KIND_OWN, true), ShareEnd::kRuns);
  EXPECT_EQ(EndOf(static_cast<v1::Outcome>(77), v1::FAILURE_KIND_OWN, false), ShareEnd::kRuns);
}

// Every report that the API allows leads to an end state; docs/architecture.md has the table.
TEST(AttemptVerdict, EveryReportEndsItsAttempt) {
  const std::map<v1::Outcome, v1::TrialState> states = {
      {v1::OUTCOME_MEASURED, v1::TRIAL_STATE_MEASURED},
      {v1::OUTCOME_OUT_OF_MEMORY, v1::TRIAL_STATE_INFEASIBLE},
      {v1::OUTCOME_FAILED, v1::TRIAL_STATE_FAILED},
      {v1::OUTCOME_TIMED_OUT, v1::TRIAL_STATE_TIMED_OUT},
      {v1::OUTCOME_CANCELLED, v1::TRIAL_STATE_CANCELLED},
      {v1::OUTCOME_REFUSED, v1::TRIAL_STATE_LOST}};
  for (int number = v1::Outcome_MIN; number <= v1::Outcome_MAX; ++number) {
    const auto outcome = static_cast<v1::Outcome>(number);
    if (outcome == v1::OUTCOME_UNSPECIFIED) continue;
    ASSERT_TRUE(states.contains(outcome)) << v1::Outcome_Name(outcome);
    for (int kind = v1::FailureKind_MIN; kind <= v1::FailureKind_MAX; ++kind) {
      for (const bool stopping : {false, true}) {
        const ShareEnd end = EndOf(outcome, static_cast<v1::FailureKind>(kind), stopping);
        EXPECT_EQ(StateOf(end), states.at(outcome)) << v1::Outcome_Name(outcome) << ' ' << kind;
        EXPECT_TRUE(IsEnd(StateOf(end)));
        EXPECT_TRUE(IsEnd(LastStateOf(end)));
      }
    }
  }
}

TEST(IsEnd, NamesTheEndStates) {
  for (int number = v1::TrialState_MIN; number <= v1::TrialState_MAX; ++number) {
    const bool open = number <= v1::TRIAL_STATE_RUNNING;
    EXPECT_EQ(IsEnd(static_cast<v1::TrialState>(number)), !open) << number;
  }
}

// Whether each state of a study is an end. A new state needs a row.
TEST(IsEnd, NamesEachStudyState) {
  const std::map<v1::StudyState, bool> ended = {
      {v1::STUDY_STATE_UNSPECIFIED, false}, {v1::STUDY_STATE_CREATED, false},
      {v1::STUDY_STATE_RUNNING, false},     {v1::STUDY_STATE_PAUSED, false},
      {v1::STUDY_STATE_DONE, true},         {v1::STUDY_STATE_FAILED, true},
      {v1::STUDY_STATE_CANCELLED, true}};
  const auto& states = *v1::StudyState_descriptor();
  for (int i = 0; i < states.value_count(); ++i) {
    const auto state = static_cast<v1::StudyState>(states.value(i)->number());
    const auto row = ended.find(state);
    ASSERT_NE(row, ended.end()) << states.value(i)->name();
    EXPECT_EQ(IsEnd(state), row->second) << states.value(i)->name();
  }
}

TEST(AttemptVerdict, StoredNumbersAreStable) {
  const std::vector<std::pair<ShareEnd, v1::TrialState>> ends = {
      {ShareEnd::kRuns, v1::TRIAL_STATE_RUNNING},
      {ShareEnd::kOutOfMemory, v1::TRIAL_STATE_INFEASIBLE},
      {ShareEnd::kFailed, v1::TRIAL_STATE_FAILED},
      {ShareEnd::kTimedOut, v1::TRIAL_STATE_TIMED_OUT},
      {ShareEnd::kFailedByProcess, v1::TRIAL_STATE_FAILED},
      {ShareEnd::kRefused, v1::TRIAL_STATE_LOST},
      {ShareEnd::kLost, v1::TRIAL_STATE_LOST},
      {ShareEnd::kWithdrawn, v1::TRIAL_STATE_LOST},
      {ShareEnd::kCancelled, v1::TRIAL_STATE_CANCELLED},
      {ShareEnd::kFailedByPeer, v1::TRIAL_STATE_FAILED},
      {ShareEnd::kStopped, v1::TRIAL_STATE_CANCELLED},
      {ShareEnd::kMeasured, v1::TRIAL_STATE_MEASURED}};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(ends[i].first), i);
    EXPECT_EQ(StateOf(ends[i].first), ends[i].second) << i;
    EXPECT_EQ(Breaks(ends[i].first), i != 0 && i != 11) << i;
    const bool given_back = ends[i].first == ShareEnd::kCancelled;
    EXPECT_EQ(LastStateOf(ends[i].first), given_back ? v1::TRIAL_STATE_LOST : ends[i].second) << i;
  }
}

TEST(AttemptVerdict, PrecedenceHasEachEndOnce) {
  for (int number = 0; number < 100; ++number) {
    const auto end = static_cast<ShareEnd>(number);
    const bool known = StateOf(end) != v1::TRIAL_STATE_UNSPECIFIED;
    EXPECT_EQ(std::count(kPrecedence.begin(), kPrecedence.end(), end), known ? 1 : 0) << number;
  }
}

v1::OpDesc Op(const std::string& kind, int size) {
  v1::OpDesc op;
  op.set_kind(kind);
  op.add_dims(size);
  return op;
}

// Expects a rejection in one line and returns its message.
std::string Refusal(const v1::Job& asked, const v1::ReportTrialRequest& report) {
  const absl::Status status = CheckFits(asked, report);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  return std::string(status.message());
}

TEST(ReportFit, MeasurementHasATimeForEachTimedStep) {
  v1::Job job;
  job.mutable_train()->set_steps(5);
  job.mutable_train()->set_warmup_steps_untimed(2);
  v1::ReportTrialRequest report;
  EXPECT_THAT(Refusal(job, report), HasSubstr("measurement is missing"));
  report.mutable_calibration();
  EXPECT_THAT(Refusal(job, report), HasSubstr("measurement is missing"));
  report.mutable_measurement();
  EXPECT_THAT(Refusal(job, report), HasSubstr("step_time_s is empty"));
  for (int times = 1; times <= 6; ++times) {
    report.mutable_measurement()->add_step_time_s(0.5);
    if (times == 3) {
      EXPECT_TRUE(CheckFits(job, report).ok()) << CheckFits(job, report);
    } else {
      EXPECT_THAT(Refusal(job, report), HasSubstr("but the job times 3 steps")) << times;
    }
  }
}

TEST(ReportFit, SliceMustMatchTheJob) {
  v1::Job job;
  job.mutable_train()->set_steps(1);
  v1::ReportTrialRequest report;
  report.mutable_measurement()->add_step_time_s(0.5);
  report.mutable_measurement()->set_slice(true);
  EXPECT_EQ(Refusal(job, report), "measurement.slice is true, but the job runs all ranks of the plan");
  job.mutable_train()->mutable_slice();
  EXPECT_TRUE(CheckFits(job, report).ok());
  report.mutable_measurement()->set_slice(false);
  EXPECT_EQ(Refusal(job, report), "measurement.slice is false, but the job runs one rank of the plan alone");
}

// Its ranks may be too few for some groups.
TEST(ReportFit, CalibrationOfFewerRanksMayLackGroups) {
  v1::Job job;
  *job.mutable_calibrate()->add_ops() = Op("gelu", 1);
  for (const int size : {2, 4}) {
    v1::OpDesc op = Op("all_reduce_sum", 64);
    op.set_group_size(size);
    *job.mutable_calibrate()->add_ops() = op;
  }
  v1::ReportTrialRequest report;
  for (const int i : {0, 1}) *report.mutable_calibration()->add_ops()->mutable_op() = job.calibrate().ops(i);
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 1 of the 3 ops that the job asks for");
  job.set_fewer_ranks(true);
  EXPECT_TRUE(CheckFits(job, report).ok());
  report.mutable_calibration()->mutable_ops()->DeleteSubrange(0, 1);
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 1 of the 1 ops that the job asks for");
}

TEST(ReportFit, CalibrationWithALimitMayLackOps) {
  v1::Job job;
  for (const int size : {1, 2, 3}) *job.mutable_calibrate()->add_ops() = Op("gelu", size);
  job.mutable_calibrate()->set_limit_s(1);
  v1::ReportTrialRequest report;
  report.mutable_calibration();
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 3 of the 3 ops that the job asks for");
  *report.mutable_calibration()->add_ops()->mutable_op() = Op("gelu", 2);
  EXPECT_TRUE(CheckFits(job, report).ok()) << CheckFits(job, report);
  *report.mutable_calibration()->add_ops()->mutable_op() = Op("gelu", 2);
  EXPECT_THAT(Refusal(job, report), HasSubstr("is a duplicate"));
}

TEST(ReportFit, CalibrationHasEachOpOnceInAnyOrder) {
  v1::Job job;
  for (const int size : {1, 2, 3}) *job.mutable_calibrate()->add_ops() = Op("gelu", size);
  v1::ReportTrialRequest report;
  report.mutable_measurement()->add_step_time_s(0.5);
  EXPECT_THAT(Refusal(job, report), HasSubstr("calibration is missing"));
  report.mutable_calibration();
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 3 of the 3 ops that the job asks for");
  for (const int size : {3, 1}) *report.mutable_calibration()->add_ops()->mutable_op() = Op("gelu", size);
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 1 of the 3 ops that the job asks for");
  const v1::CalibrateResult two = report.calibration();
  for (const v1::OpDesc& wrong : {Op("gelu", 3), Op("gelu", 4), Op("frob\n\x1b[2J", 2)}) {
    *report.mutable_calibration() = two;
    *report.mutable_calibration()->add_ops()->mutable_op() = wrong;
    EXPECT_THAT(Refusal(job, report), HasSubstr("is a duplicate, or the job does not ask for it"));
  }
  *report.mutable_calibration() = two;
  *report.mutable_calibration()->add_ops()->mutable_op() = Op("gelu", 2);
  EXPECT_TRUE(CheckFits(job, report).ok()) << CheckFits(job, report);
}

TEST(CheckFits, ATimelineIsAskedForAndOfThePlansRanks) {
  v1::Job job;
  job.mutable_train()->set_steps(1);
  job.mutable_train()->mutable_plan()->set_pp(2);
  job.mutable_train()->mutable_plan()->set_virtual_stages(2);
  v1::ReportTrialRequest report;
  report.mutable_measurement()->add_step_time_s(0.5);
  v1::TimelineRow& row = *report.mutable_timeline()->add_rows();
  EXPECT_EQ(Refusal(job, report), "timeline is set, but the job records no step");
  job.mutable_train()->set_record_breakdown(true);
  row.set_pipeline(1);
  row.set_stage(3);
  EXPECT_TRUE(CheckFits(job, report).ok()) << CheckFits(job, report);
  row.set_stage(4);
  EXPECT_EQ(Refusal(job, report), "timeline.rows: rank 1 and stage 4 are not among the plan's 2 and 4");
  row.set_stage(3);
  row.set_pipeline(2);
  EXPECT_THAT(Refusal(job, report), HasSubstr("rank 2 and stage 3"));
}

TEST(CheckFits, AMeasurementOfAnEngineIsOfTheJobs) {
  v1::Job job;
  job.set_engine("megatron");
  job.mutable_train()->set_steps(5);
  job.mutable_train()->set_warmup_steps_untimed(2);
  v1::ReportTrialRequest report;
  v1::Measurement& measured = *report.mutable_measurement();
  EXPECT_THAT(std::string(CheckFits(job, report).message()), HasSubstr("measurement.engine is ''"));
  measured.set_engine("megatron");
  EXPECT_TRUE(CheckFits(job, report).ok()) << "another worker's log may tell of the steps";
  for (int step = 0; step < 3; ++step) measured.add_step_time_s(1);
  EXPECT_TRUE(CheckFits(job, report).ok());
  measured.add_step_time_s(1);
  EXPECT_THAT(std::string(CheckFits(job, report).message()), HasSubstr("has 4 step times"));
  measured.mutable_step_time_s()->RemoveLast();
  measured.set_slice(true);
  EXPECT_FALSE(CheckFits(job, report).ok());
  measured.set_slice(false);
  job.clear_engine();
  EXPECT_THAT(std::string(CheckFits(job, report).message()), HasSubstr("measurement.engine is set"));
}

}  // namespace
}  // namespace autocfg::server
