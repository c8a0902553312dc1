// The data and the page of a report. tests/browser opens such pages.
#include "server/report/report_page.h"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "proto/convert/step_timeline.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "server/names/names.h"
#include "server/report/report_json.h"
#include "server/report/study_reports.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/search_problem.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/fake_worker.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

v1::SearchSpec PredictedSpec(const char* cluster, std::int64_t batch) {
  v1::SearchSpec spec;
  *spec.mutable_model() = ToProto(*ModelPreset("llama3-8b"));
  *spec.mutable_cluster() = ToProto(*PresetCluster(cluster));
  spec.mutable_workload()->set_global_batch(batch);
  spec.mutable_workload()->set_seq_len(4096);
  spec.set_predict_only(true);
  return spec;
}

class StudyReportTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  std::int64_t Study(const v1::SearchSpec& spec, bool started = true) {
    v1::Study study;
    *study.mutable_spec() = ToProto(*ParseSearchSpec(spec));
    const std::int64_t id = *ParseStudyName(store_->CreateStudy("", study, 1)->name());
    if (started) {
      EXPECT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_RUNNING).ok());
    }
    return id;
  }
  StudyReport Report(std::int64_t study, std::size_t most = kMostReportPlans) {
    auto report = GatherReport(*store_, study, {}, most);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : StudyReport();
  }
  std::unique_ptr<Store> store_;
};

// Returns the text of a plan as the page makes it of the columns.
std::string TextOf(const json& plans, std::size_t plan) {
  std::string text;
  for (const json& option : plans["options"]) {
    const std::size_t value = option.contains("index") ? option["index"][plan].get<std::size_t>() : 0;
    if (option["named"].get<std::string>()[value] != 'y') continue;
    text += (text.empty() ? "" : ",") + option["name"].get<std::string>() + "=" +
            option["values"][value].get<std::string>();
  }
  return text;
}

TEST_F(StudyReportTest, ColumnsHoldThePlansOfTheRanking) {
  const StudyReport report = Report(Study(PredictedSpec("h100-sxm:1x8", 64)));
  const json data = json::parse(*ReportJson(report));
  const json& plans = data["plans"];
  ASSERT_EQ(plans["count"], report.plans.size());
  ASSERT_GT(report.plans.size(), 1000u);
  std::set<std::string> texts;
  for (std::size_t i = 0; i < report.plans.size(); ++i) {
    const std::string text = TextOf(plans, i);
    EXPECT_EQ(text, WithShortSplit(PlanText(report.plans[i].plan)));
    EXPECT_TRUE(texts.insert(text).second) << text << " is shown twice";
    EXPECT_NEAR(plans["seconds"][i], report.plans[i].predicted.step_time_s,
                1e-4 * report.plans[i].predicted.step_time_s);
    int parts = 0;
    for (const json& part : plans["time_permille"]) parts += part[i].get<int>();
    EXPECT_NEAR(parts, 1000, 5);
  }
  EXPECT_EQ(data["answer"]["best"]["plan_text"], TextOf(plans, 0));
  EXPECT_EQ(plans["kinds"], std::string(report.plans.size(), 'p'));
  EXPECT_EQ(data["title"], "Study 1: llama3-8b on h100-sxm, 8 ranks");
  EXPECT_EQ(data["answer"]["counts"]["predicted"], report.plans_in_all);
}

TEST_F(StudyReportTest, TimelinesAreThoseOfTheTwoBestPlans) {
  v1::SearchSpec spec = PredictedSpec("h100-sxm:1x8", 64);
  v1::SpaceAxis& axis = *spec.add_space();
  axis.set_name("pp");
  axis.add_values("4");
  const json data = json::parse(*ReportJson(Report(Study(spec))));
  ASSERT_EQ(data["timelines"].size(), 2u);
  EXPECT_EQ(data["timelines"][0]["plan"], data["answer"]["best"]["plan_text"]);
  EXPECT_EQ(data["timelines"][1]["plan"], data["answer"]["runners_up"][0]["plan_text"]);
  for (const json& timeline : data["timelines"]) {
    ASSERT_EQ(timeline["ranks"].size(), 4u);
    for (const json& rank : timeline["ranks"]) {
      const auto kinds = rank["kinds"].get<std::string>();
      EXPECT_THAT(kinds, HasSubstr("F"));
      ASSERT_EQ(rank["numbers"].size(), 4 * kinds.size());
      std::int64_t end = 0;
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        EXPECT_GE(rank["numbers"][4 * i + 2], 0) << "bars do not overlap";
        end +=
            rank["numbers"][4 * i + 2].get<std::int64_t>() + rank["numbers"][4 * i + 3].get<std::int64_t>();
      }
      EXPECT_LE(end, 1.001 * data["timeline_ticks"].get<double>());
    }
  }
}

// A space of far more plans than a page shows.
TEST_F(StudyReportTest, TenThousandPlansStayBelowThreeMegabytes) {
  const StudyReport report = Report(Study(PredictedSpec("h100-sxm:64x8", 1536)));
  ASSERT_GE(report.plans.size(), kMostReportPlans);
  EXPECT_LE(report.plans.size(), kMostReportPlans + 200);
  EXPECT_GT(report.plans_in_all, static_cast<std::int64_t>(report.plans.size()));
  EXPECT_LT(PageOf(report)->size(), 3'000'000u);
}

TEST_F(StudyReportTest, FewerPlansAreTheFastestAndTheFront) {
  const std::int64_t study = Study(PredictedSpec("h100-sxm:1x8", 64));
  const StudyReport all = Report(study);
  const StudyReport some = Report(study, 20);
  ASSERT_GE(some.plans.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(some.plans[i].plan, all.plans[i].plan);
  const auto memory = [](const RankedPlan& ranked) { return ranked.predicted.memory.Total(); };
  std::int64_t least = memory(all.plans.front()), least_shown = least;
  for (const RankedPlan& ranked : all.plans) least = std::min(least, memory(ranked));
  for (const RankedPlan& ranked : some.plans) least_shown = std::min(least_shown, memory(ranked));
  EXPECT_LE(least_shown, least + 1024) << "the end of the front";
  EXPECT_EQ(some.plans_in_all, all.plans_in_all);
}

TEST_F(StudyReportTest, IsTheSameEachTime) {
  const std::int64_t study = Study(PredictedSpec("h100-sxm:1x8", 64));
  EXPECT_EQ(*ReportJson(Report(study)), *ReportJson(Report(study)));
}

TEST_F(StudyReportTest, BeforeTheCalibrationThereIsNoPlan) {
  const json data = json::parse(*ReportJson(Report(Study(SmallSpec()))));
  EXPECT_TRUE(data["answer"]["best"].is_null());
  EXPECT_EQ(data["plans"]["count"], 0);
  EXPECT_TRUE(data["timelines"].empty());
  EXPECT_GT(data["answer"]["counts"]["enumerated"], 0);
}

TEST_F(StudyReportTest, RefusesAStudyThatWasNotStarted) {
  EXPECT_TRUE(absl::IsFailedPrecondition(GatherReport(*store_, Study(SmallSpec(), false)).status()));
  EXPECT_TRUE(absl::IsNotFound(GatherReport(*store_, 99).status()));
  const auto stop = [](const PlanningProgress&) { return false; };
  EXPECT_TRUE(absl::IsCancelled(GatherReport(*store_, Study(SmallSpec()), stop).status()));
}

TEST_F(StudyReportTest, AreMadeOncePerChangeOfTheStudy) {
  const auto go_on = [](const PlanningProgress&) { return true; };
  const auto stop = [](const PlanningProgress&) { return false; };
  const std::int64_t study = Study(SmallSpec());
  StudyReports reports(*store_);
  EXPECT_TRUE(absl::IsCancelled(reports.Get(study, stop).status()));
  const auto first = reports.Get(study, go_on);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*reports.Get(study, stop), *first) << "nothing is planned again";
  ASSERT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_PAUSED).ok());
  EXPECT_TRUE(absl::IsCancelled(reports.Get(study, stop).status())) << "it has changed";
  const auto second = reports.Get(study, go_on);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT((*second)->json, HasSubstr("\"state\":\"paused\""));
}

// A worker whose trials of plans with pp=2 record a step of one forward a rank, one after the other.
v1::ReportTrialRequest Recorded(const v1::Job& job) {
  v1::ReportTrialRequest report = FakeWorker::ByFormula(job);
  if (job.train().plan().pp() != 2) return report;
  for (int rank = 0; rank < 2; ++rank) {
    TimelineRow row{.pipeline = rank,
                    .action = {.kind = ActionKind::kForward, .stage = rank, .microbatch = 0},
                    .start_s = 0.25 * rank,
                    .end_s = 0.25 * rank + 0.25};
    *report.mutable_timeline()->add_rows() = ToProto(row);
    row.action = {.kind = ActionKind::kRecvActivation, .lane = Lane::kPipelineRecv, .stage = rank};
    *report.mutable_timeline()->add_rows() = ToProto(row);
  }
  return report;
}

class MeasuredReportTest : public CoordinatorFixture {
 protected:
  // Searches with this one value of pp. Returns the data of the report.
  json Search(const char* pp, const FakeWorker::Measure& measure = Recorded, std::int64_t max_trials = 0) {
    if (coordinator_ == nullptr) Open();
    v1::SearchSpec spec = SmallSpec();
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name("pp");
    axis.add_values(pp);
    spec.set_max_trials(max_trials);
    const v1::Study study = Create(spec);
    {
      FakeWorker worker(coordinator_->address(), measure);
      EXPECT_TRUE(Start(study.name()).ok());
      EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
    }
    v1::GetReportRequest request;
    request.set_study(study.name());
    v1::GetReportResponse response;
    const grpc::Status status = Call(studies_, &v1::StudyService::Stub::GetReport, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const std::size_t at = response.page().find(begin) + begin.size();
    return json::parse(response.page().substr(at, response.page().find("</script>", at) - at));
  }
};

TEST_F(MeasuredReportTest, HasTheTimelinesThatTrialsRecorded) {
  const json data = Search("2");
  ASSERT_EQ(data["timelines"].size(), 2u);
  for (const json& timeline : data["timelines"]) {
    EXPECT_EQ(timeline["ranks"].size(), 2u) << "predicted";
    const json& measured = timeline["measured"];
    EXPECT_EQ(measured["note"], "");
    EXPECT_GT(measured["trial"], 0);
    EXPECT_EQ(measured["step_s"], 0.5);
    ASSERT_EQ(measured["ranks"].size(), 2u);
    const int half = data["timeline_ticks"].get<int>() / 2;
    EXPECT_EQ(measured["ranks"][0]["kinds"], "F") << "messages are no bars";
    EXPECT_EQ(measured["ranks"][0]["numbers"], json({0, 0, 0, half}));
    EXPECT_EQ(measured["ranks"][1]["numbers"], json({0, 1, half, half}));
  }
}

// Both plans take the same time, so that the search repeats them; repeats are too fast to be believed.
TEST_F(MeasuredReportTest, ADoubtedTrialHasNoTimelineAndIsCountedApart) {
  std::map<std::string, int> trials;  // by plan
  const json data = Search(
      "2",
      [&](const v1::Job& job) {
        v1::ReportTrialRequest report = Recorded(job);
        if (job.has_calibrate()) return report;
        const double step_s = trials[job.train().plan().SerializeAsString()]++ == 0 ? 0.02 : 1e-6;
        for (double& seconds : *report.mutable_measurement()->mutable_step_time_s()) seconds = step_s;
        return report;
      },
      2);
  ASSERT_FALSE(data["timelines"].empty());
  const json& measured = data["timelines"][0]["measured"];
  EXPECT_EQ(measured["note"], "trial " + std::to_string(measured["trial"].get<int>()) + " is doubted");
  EXPECT_TRUE(measured["ranks"].empty());
  int doubted = 0;
  for (const json& row : data["measurements"]) {
    EXPECT_EQ(row["trials"], 1);
    EXPECT_EQ(row["measured_s"], 0.02);
    doubted += row["doubted"].get<int>();
    if (row["plan"] == data["answer"]["best"]["plan_text"]) {
      EXPECT_GT(row["doubted"], 0);
    }
  }
  EXPECT_EQ(data["trials"]["doubted"], doubted);
}

TEST_F(MeasuredReportTest, SaysWhyThereIsNoTimeline) {
  const json data = Search("1");
  ASSERT_FALSE(data["timelines"].empty());
  const json& measured = data["timelines"][0]["measured"];
  EXPECT_EQ(measured["note"],
            "none is kept: its worker recorded none, the study was imported, or 8 other plans are as fast");
  EXPECT_TRUE(measured["ranks"].empty());
}

TEST_F(StudyReportTest, APredictedPlanHasNoMeasuredTimeline) {
  const json data = json::parse(*ReportJson(Report(Study(PredictedSpec("h100-sxm:1x8", 64)))));
  ASSERT_FALSE(data["timelines"].empty());
  EXPECT_TRUE(data["timelines"][0]["measured"].is_null());
}

// Three trials of one plan: one is doubted, and one tells other parts of a step.
TEST(ReportJson, MeasuredTimesAreThoseOfAllTrialsThatCount) {
  StudyReport report;
  RankedPlan& ranked = report.plans.emplace_back();
  ranked.plan = *ParsePlanText("tp=1,pp=1,dp=2,mbs=1");
  ranked.predicted.step_time_s = 0.25;
  ranked.predicted.breakdown.compute = 0.25;
  ranked.trials = {0, 2};
  for (const double seconds : {0.2, 0.001, 0.4}) {
    v1::Trial& trial = report.trials.emplace_back();
    trial.set_name("studies/1/trials/" + std::to_string(report.trials.size()));
    trial.set_plan_text(PlanText(ranked.plan));
    trial.set_repeat(static_cast<std::int64_t>(report.trials.size()) - 1);
    trial.mutable_predicted()->set_step_time_s(0.1);
    v1::Measurement& measured = *trial.mutable_measured();
    for (int step = 0; step < 3; ++step) measured.add_step_time_s(seconds);
    measured.set_median_step_time_s(seconds);
    measured.set_ci95_s(0.001);
    measured.mutable_breakdown_s()->set_compute(seconds / 4);
  }
  ranked.median_step_time_s = 0.3;
  const json data = json::parse(*ReportJson(report));
  ASSERT_EQ(data["measurements"].size(), 1u);
  const json& row = data["measurements"][0];
  EXPECT_EQ(row["measured_s"], 0.3);
  EXPECT_GT(row["ci95_s"], 0.05) << "of both trials together, not of the first";
  EXPECT_EQ(row["predicted_s"], 0.1) << "before the first trial";
  EXPECT_EQ(row["trials"], 2);
  EXPECT_EQ(row["doubted"], 1);
  EXPECT_EQ(data["trials"]["doubted"], 1);
  EXPECT_EQ(data["trials"]["count"], 3);
  const json& known = data["plans"]["measured"];
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0]["plan"], 0);
  EXPECT_EQ(known[0]["predicted_s"], 0.25);
  EXPECT_EQ(known[0]["time_parts"][0], 0.1);
}

TEST(ReportJson, TheBillHasReusedTrials) {
  StudyReport report;
  EXPECT_EQ(json::parse(*ReportJson(report))["answer"]["search"]["reused_trials"], 0);
  report.answer.found.set_reused_trials(3);
  EXPECT_EQ(json::parse(*ReportJson(report))["answer"]["search"]["reused_trials"], 3);
}

// All trials of the plan are doubted, so that it is not in the ranking.
TEST(ReportJson, APlanOfWhichNoTrialCountsIsNotMeasured) {
  StudyReport report;
  v1::Trial& trial = report.trials.emplace_back();
  trial.set_plan_text("tp=1,pp=1,dp=2,mbs=1");
  trial.mutable_measured()->add_step_time_s(1e-6);
  const json data = json::parse(*ReportJson(report));
  EXPECT_TRUE(data["measurements"].empty());
  EXPECT_EQ(data["trials"]["doubted"], 1);
}

TEST(ReportJson, TiesAreThoseOfTheCommandLine) {
  StudyReport report;
  const auto candidate = [](double seconds, v1::Candidate& measured) {
    measured.mutable_measured()->set_median_step_time_s(seconds);
    measured.mutable_measured()->set_ci95_s(0.1);
  };
  candidate(0.3, *report.answer.found.mutable_best());
  candidate(0.45, *report.answer.found.add_runners_up());
  candidate(0.6, *report.answer.found.add_runners_up());
  EXPECT_EQ(json::parse(*ReportJson(report))["answer"]["why"]["tied"], 1);
}

TEST(ReportPage, TextOfAStudyCannotLeaveItsPlace) {
  const std::string hostile = "</script><script>alert(1)</script><!-- & \xe2\x80\xa8 @STYLE@ @DATA@";
  const std::string page = ReportPage(hostile, json{{"title", hostile}}.dump());
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_EQ(EscapeJson("\"<\xe2\x80\xa8>\xe2\x80\xa9&\xe2\x80\xa6\""),
            "\"\\u003c\\u2028\\u003e\\u2029\\u0026\xe2\x80\xa6\"");
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
  // What is filled in is not searched for places.
  EXPECT_THAT(page, HasSubstr("@STYLE@ @DATA@</title>"));
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  EXPECT_EQ(json::parse(page.substr(at, page.find("</script>", at) - at))["title"], hostile);
}

TEST(ReportPage, OpensWithoutANetwork) {
  const std::string page = ReportPage("title", "{}");
  for (const char* outside : {" src=\"", "<link", "@import", "url(", "fetch(", "XMLHttpRequest"})
    EXPECT_THAT(
        std::string(EmbeddedPage("report.html")) + std::string(EmbeddedPage("report.css")) + ReportCode(),
        Not(HasSubstr(outside)));
  EXPECT_THAT(page, HasSubstr("Chart.js Contributors\n"));
  EXPECT_THAT(page, HasSubstr("Permission is hereby granted"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

}  // namespace
}  // namespace autocfg::server
