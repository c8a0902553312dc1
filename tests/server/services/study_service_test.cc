// StudyService over the wire: defaults, fingerprints, idempotency, states, pages and retries.
#include "server/services/study_service.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

TEST_F(StudyServiceTest, ValidateOnlyStoresNothingAndFillsDefaults) {
  v1::CreateStudyRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_workload()->clear_seq_len();
  request.mutable_spec()->mutable_workload()->clear_precision();
  request.set_validate_only(true);
  v1::Study study;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::CreateStudy, request, &study).ok());
  EXPECT_EQ(study.name(), "");
  EXPECT_EQ(study.spec().model().kv_heads(), 4);
  EXPECT_EQ(study.spec().workload().seq_len(), 32);
  EXPECT_EQ(study.spec().workload().precision(), "fp32");
  EXPECT_EQ(study.spec().device(), "cpu");
  EXPECT_EQ(study.fingerprint(), Create(SmallSpec()).fingerprint());
  EXPECT_EQ(study.fingerprint().size(), 16u);
}

TEST_F(StudyServiceTest, FingerprintIdentifiesTheNormalForm) {
  const std::string base = Create(SmallSpec()).fingerprint();
  std::set<std::string> seen = {base};
  const auto differs = [&](const std::function<void(v1::SearchSpec&)>& edit) {
    v1::SearchSpec spec = SmallSpec();
    edit(spec);
    return seen.insert(Create(spec).fingerprint()).second;
  };
  EXPECT_TRUE(differs([](auto& s) { s.mutable_model()->set_layers(8); }));
  EXPECT_TRUE(differs([](auto& s) { s.mutable_workload()->set_global_batch(16); }));
  EXPECT_TRUE(differs([](auto& s) { s.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(2); }));
  EXPECT_TRUE(differs([](auto& s) { s.set_exhaustive(true); }));
  EXPECT_TRUE(differs([](auto& s) { s.set_max_trials(3); }));
  EXPECT_TRUE(differs([](auto& s) { s.set_memory_margin(0.1); }));
  EXPECT_FALSE(differs([](auto& s) { s.set_memory_margin(0); })) << "the default of a local cluster";
  const auto axis = [](v1::SearchSpec& s, const std::string& name, const std::vector<std::string>& values) {
    auto& added = *s.add_space();
    added.set_name(name);
    for (const std::string& value : values) added.add_values(value);
  };
  EXPECT_TRUE(differs([&](auto& s) { axis(s, "tp", {"1", "2"}), axis(s, "recompute", {"none"}); }));
  EXPECT_FALSE(differs([&](auto& s) { axis(s, "recompute", {"none"}), axis(s, "tp", {"2", "1", "2"}); }));
  EXPECT_FALSE(differs([&](auto& s) { axis(s, "tp", {}); }));
}

TEST_F(StudyServiceTest, WritesAreIdempotentByRequestId) {
  v1::CreateStudyRequest create;
  *create.mutable_spec() = SmallSpec();
  create.set_request_id("c1");
  v1::Study first;
  v1::Study second;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::CreateStudy, create, &first).ok());
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::CreateStudy, create, &second).ok());
  EXPECT_EQ(first.name(), second.name());
  create.mutable_spec()->set_max_trials(9);
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::CreateStudy, create, &second).error_code(),
            StatusCode::ALREADY_EXISTS);
  create.set_request_id(std::string(1000, 'x'));
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::CreateStudy, create, &second).error_code(),
            StatusCode::INVALID_ARGUMENT);

  v1::PauseStudyRequest pause;
  pause.set_name(first.name());
  pause.set_request_id("p1");
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::PauseStudy, pause, &second).ok());
  ASSERT_TRUE(Resume(first.name()).ok());
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::PauseStudy, pause, &second).ok());
  EXPECT_EQ(second.state(), v1::STUDY_STATE_RUNNING);  // the repeated request does not pause it again
  // The ID cannot be used for another request either, even of the same study.
  v1::CancelStudyRequest cancel;
  cancel.set_name(first.name());
  cancel.set_request_id("p1");
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::CancelStudy, cancel, &second).error_code(),
            StatusCode::ALREADY_EXISTS);
  v1::StartStudyRequest start;
  start.set_name(first.name());
  start.set_request_id("p1");
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::StartStudy, start, &second).error_code(),
            StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Get(first.name()).state(), v1::STUDY_STATE_RUNNING);

  v1::DeleteStudyRequest remove;
  remove.set_name(first.name());
  remove.set_request_id("d1");
  v1::DeleteStudyResponse deleted;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::DeleteStudy, remove, &deleted).error_code(),
            StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(Cancel(first.name()).ok());
  EXPECT_TRUE(Call(studies_, &v1::StudyService::Stub::DeleteStudy, remove, &deleted).ok());
  EXPECT_TRUE(Call(studies_, &v1::StudyService::Stub::DeleteStudy, remove, &deleted).ok());
}

TEST_F(StudyServiceTest, StatesAllowOnlyTheirMoves) {
  const std::string name = Create(SmallSpec()).name();
  EXPECT_EQ(Resume(name).error_code(), StatusCode::FAILED_PRECONDITION);
  v1::GetRecommendationRequest recommend;
  recommend.set_study(name);
  v1::Recommendation answer;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetRecommendation, recommend, &answer).error_code(),
            StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Start(name).ok());
  EXPECT_TRUE(Start(name).ok());
  EXPECT_TRUE(Pause(name).ok());
  EXPECT_TRUE(Start(name).ok());
  EXPECT_TRUE(Cancel(name).ok());
  const grpc::Status status = Pause(name);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("CANCELLED"));
}

class StudyUpdateTest : public StudyServiceTest {
 protected:
  // Asks for the change; `study_` has the answer.
  grpc::Status Update(const v1::UpdateStudyRequest& request) {
    return Call(studies_, &v1::StudyService::Stub::UpdateStudy, request, &study_);
  }
  static v1::UpdateStudyRequest Weighted(const std::string& name, double weight,
                                         const std::vector<std::string>& paths = {}) {
    v1::UpdateStudyRequest request;
    request.mutable_study()->set_name(name);
    request.mutable_study()->set_weight(weight);
    for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
    return request;
  }
  v1::Study study_;
};

TEST_F(StudyUpdateTest, ChangesTheWeightForGood) {
  const std::string name = Create(SmallSpec()).name();
  for (const std::vector<std::string>& paths : {std::vector<std::string>(), {"weight"}, {"*"}}) {
    const double weight = study_.weight() + 1.5;
    const grpc::Status status = Update(Weighted(name, weight, paths));
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(study_.weight(), weight);
    EXPECT_EQ(Get(name).weight(), weight);
  }
  EXPECT_EQ(study_.name(), name);
  EXPECT_EQ(study_.state(), v1::STUDY_STATE_CREATED);
  v1::UpdateStudyRequest more = Weighted(name, 7);
  more.mutable_study()->set_owner("somebody");
  more.mutable_study()->set_phase("done");
  ASSERT_TRUE(Update(more).ok());
  EXPECT_EQ(study_.owner(), "tester") << "only what an update changes";
  EXPECT_EQ(study_.phase(), "");
  Close();
  Open();
  EXPECT_EQ(Get(name).weight(), 7) << "over a restart";
}

TEST_F(StudyUpdateTest, WatchersSeeTheChange) {
  const std::string name = Create(SmallSpec()).name();
  std::int64_t cursor = 0;
  Watch(name, 0, [&](const v1::StudyEvent& event) {
    cursor = event.cursor();
    return true;
  });
  ASSERT_TRUE(Update(Weighted(name, 3)).ok());
  double seen = 0;
  Watch(name, cursor, [&](const v1::StudyEvent& event) {
    seen = event.study().weight();
    return seen == 3;
  });
  EXPECT_EQ(seen, 3);
}

TEST_F(StudyUpdateTest, RefusesWhatItCannotChange) {
  const std::string name = Create(SmallSpec()).name();
  const auto refused = [&](const v1::UpdateStudyRequest& request, const std::string& words) {
    const grpc::Status status = Update(request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << words;
    EXPECT_EQ(status.error_message(), words);
  };
  refused(Weighted(name, 2, {"weight", "owner"}), "update_mask: 'owner' cannot be changed; give weight");
  refused(Weighted(name, 2, {"spec.model"}), "update_mask: 'spec.model' cannot be changed; give weight");
  refused(Weighted(name, 2, {"wieght\n"}), "update_mask: 'wieght\\x0a' is no field of a study; give weight");
  refused(Weighted(name, 2, {""}), "update_mask: '' is no field of a study; give weight");
  refused(Weighted(name, 0), "study: it sets no field that an update changes; give weight");
  for (const double weight : {0.0, -1.0, 100.5})
    refused(Weighted(name, weight, {"weight"}),
            fmt::format("weight is {:g}; give a number from 0.01 to 100", weight));
  refused(Weighted(name, 101), "weight is 101; give a number from 0.01 to 100");
  EXPECT_EQ(Get(name).weight(), 1);
  EXPECT_EQ(Update(Weighted("7", 2)).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Update(Weighted("studies/99", 2)).error_code(), StatusCode::NOT_FOUND);
  ASSERT_TRUE(Cancel(name).ok());
  const grpc::Status ended = Update(Weighted(name, 2));
  EXPECT_EQ(ended.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(ended.error_message(), HasSubstr("CANCELLED and cannot be updated"));
}

TEST_F(StudyUpdateTest, IsIdempotentByRequestId) {
  const std::string name = Create(SmallSpec()).name();
  v1::UpdateStudyRequest first = Weighted(name, 2);
  first.set_request_id("u1");
  ASSERT_TRUE(Update(first).ok());
  ASSERT_TRUE(Update(Weighted(name, 5)).ok());
  ASSERT_TRUE(Update(first).ok());
  EXPECT_EQ(study_.weight(), 5) << "a repeated request changes nothing";
  v1::UpdateStudyRequest other = Weighted(name, 3);
  other.set_request_id("u1");
  EXPECT_EQ(Update(other).error_code(), StatusCode::ALREADY_EXISTS);
  other.set_request_id(std::string(201, 'x'));
  EXPECT_EQ(Update(other).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(StudyServiceTest, ListsArePaged) {
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) names.push_back(Create(SmallSpec()).name());
  v1::ListStudiesRequest request;
  request.set_page_size(2);
  std::vector<std::string> seen;
  std::vector<int> sizes;
  do {
    v1::ListStudiesResponse response;
    ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::ListStudies, request, &response).ok());
    sizes.push_back(response.studies_size());
    for (const v1::Study& study : response.studies()) seen.push_back(study.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(sizes, (std::vector<int>{2, 2, 1}));
  EXPECT_EQ(seen, std::vector<std::string>(names.rbegin(), names.rend()));
  v1::ListStudiesResponse response;
  for (const std::string token : {"x", "1", ":", "studies:", "studies:-1", "studies:0", "studies:01",
                                  "studies:1x", "studies/1:1", "studies:99999999999999999999"}) {
    request.set_page_token(token);
    EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::ListStudies, request, &response).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::ListStudies, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(StudyServiceTest, ExportsTheBestPlan) {
  v1::ExportConfigRequest request;
  v1::ExportConfigResponse exported;
  const auto call = [&] { return Call(studies_, &v1::StudyService::Stub::ExportConfig, request, &exported); };
  request.set_study(Create(SmallSpec()).name());
  request.set_format("megatron");
  grpc::Status status = call();
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("has no plan yet; wait for it"));
  ASSERT_TRUE(Cancel(request.study()).ok());
  EXPECT_THAT(call().error_message(), HasSubstr("has ended without a plan"));
  request.set_format("megatorn");
  status = call();
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("megatron, megatron-bridge, nemo, deepspeed, torchtitan or autocfg"));

  const std::string name = Create(SmallSpec()).name();
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(name).ok());
  ASSERT_EQ(Finish(name).state(), v1::STUDY_STATE_DONE);
  request.set_study(name);
  request.set_format("autocfg");
  ASSERT_TRUE(call().ok());
  EXPECT_THAT(exported.content(), HasSubstr("\"plan_text\": \"tp="));
  EXPECT_THAT(exported.content(), HasSubstr("study: " + name));
}

TEST_F(StudyServiceTest, AStudyThatFailedBeforeItHadAPlanHasNoRecommendation) {
  const std::string name = Create(SmallSpec()).name();
  const auto id = ParseStudyName(name);
  const auto fail = [&](bool without_plans) {
    return [without_plans](v1::Study& study) {
      study.set_state(v1::STUDY_STATE_FAILED);
      study.set_message("planning took 300 s of a core; name fewer values with --space");
      study.set_without_plans(without_plans);
      return absl::OkStatus();
    };
  };
  ASSERT_TRUE(coordinator_->store().ModifyStudy(*id, fail(true)).ok());
  const std::string why =
      name + " failed before it had a plan: planning took 300 s of a core; name fewer values with --space";
  v1::GetRecommendationRequest recommend;
  recommend.set_study(name);
  v1::Recommendation answer;
  grpc::Status status = Call(studies_, &v1::StudyService::Stub::GetRecommendation, recommend, &answer);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), why);
  v1::GetReportRequest report;
  report.set_study(name);
  v1::GetReportResponse page;
  status = Call(studies_, &v1::StudyService::Stub::GetReport, report, &page);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), why);
  v1::ListRejectedRequest rejected;
  rejected.set_study(name);
  grpc::ClientContext context;
  const auto stream = studies_->ListRejected(&context, rejected);
  v1::RejectedPlans plans;
  EXPECT_FALSE(stream->Read(&plans));
  EXPECT_EQ(stream->Finish().error_message(), why);
  // One that failed later has what it found.
  ASSERT_TRUE(coordinator_->store().ModifyStudy(*id, fail(false)).ok());
  EXPECT_GT(Recommend(name).counts().predicted(), 0);
}

TEST_F(StudyServiceTest, ReportsAStudyOnceItIsStarted) {
  v1::GetReportRequest request;
  v1::GetReportResponse report;
  const auto call = [&] { return Call(studies_, &v1::StudyService::Stub::GetReport, request, &report); };
  request.set_study("1");
  EXPECT_EQ(call().error_code(), StatusCode::INVALID_ARGUMENT);
  request.set_study("studies/99");
  EXPECT_EQ(call().error_code(), StatusCode::NOT_FOUND);
  const std::string name = Create(SmallSpec()).name();
  request.set_study(name);
  EXPECT_EQ(call().error_code(), StatusCode::FAILED_PRECONDITION);
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(name).ok());
  ASSERT_EQ(Finish(name).state(), v1::STUDY_STATE_DONE);
  ASSERT_TRUE(call().ok());
  EXPECT_THAT(report.page(), HasSubstr("\"provenance\":\"measured\""));
  EXPECT_THAT(report.page(), HasSubstr("\"state\":\"done\""));
}

TEST_F(StudyServiceTest, RetriedTrialIsMeasuredAndAffectsTheSearch) {
  const std::string name = Create(SmallSpec()).name();
  const std::string best = "tp=1,pp=1,dp=4,mbs=1,zero=1";  // by the worker's formula
  std::atomic<bool> broken = true;
  std::atomic<bool> retried = false;
  std::atomic<bool> failed = false;
  std::atomic<int> held = 0;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    if (job.has_train() && job.train().plan().dp() == 4 && job.train().plan().micro_batch() == 1 && broken) {
      v1::ReportTrialRequest report;
      report.set_outcome(v1::OUTCOME_FAILED);
      report.set_message("rank 1: a fault that is mended later");
      failed = true;
      return report;
    }
    if (failed && !retried) {  // the study does not end before
      ++held;
      while (!retried) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(name).ok());
  while (held == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::vector<std::string> mended;
  for (const v1::Trial& trial : Trials(name)) {
    if (trial.state() == v1::TRIAL_STATE_FAILED) mended.push_back(trial.name());
  }
  ASSERT_FALSE(mended.empty());
  broken = false;
  for (const std::string& trial : mended) {
    v1::RetryTrialRequest request;
    request.set_name(trial);
    request.set_request_id(fmt::format("retry of {}", trial));
    v1::Trial answer;
    for (int i = 0; i < 2; ++i) {  // idempotent
      const grpc::Status status = Call(studies_, &v1::StudyService::Stub::RetryTrial, request, &answer);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(answer.state(), v1::TRIAL_STATE_QUEUED);
    }
  }
  retried = true;
  EXPECT_EQ(Finish(name).state(), v1::STUDY_STATE_DONE);
  for (const v1::Trial& trial : Trials(name))
    EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED) << trial.name();
  EXPECT_EQ(Recommend(name).best().plan_text(), best);
  // The study has ended.
  v1::RetryTrialRequest late;
  late.set_name(mended.front());
  v1::Trial answer;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::RetryTrial, late, &answer).error_code(),
            StatusCode::FAILED_PRECONDITION);
  late.set_name(fmt::format("{}/trials/9999", name));
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::RetryTrial, late, &answer).error_code(),
            StatusCode::NOT_FOUND);
  late.set_name("trials/1");
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::RetryTrial, late, &answer).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace autocfg::server
