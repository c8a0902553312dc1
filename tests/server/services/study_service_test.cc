// StudyService over the wire: malformed requests, pages, idempotency, retries, predictions, and the stream of
// WatchStudy.
#include "server/services/study_service.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "proto/convert/cluster_convert.h"
#include "proto/convert/model_convert.h"
#include "proto/convert/plan_convert.h"
#include "proto/convert/workload_convert.h"
#include "search/text/prediction_json.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

class StudyServiceTest : public CoordinatorFixture {
 protected:
  void SetUp() override { Open(); }

  void ExpectRefused(const v1::SearchSpec& spec, StatusCode code, const std::string& words) {
    const grpc::Status status = CreateStatus(spec);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(words));
    EXPECT_THAT(status.error_message(), testing::Not(HasSubstr("\n")));
  }
};

TEST_F(StudyServiceTest, MalformedSpecsNameTheField) {
  const auto with = [](const std::function<void(v1::SearchSpec&)>& edit) {
    v1::SearchSpec spec = SmallSpec();
    edit(spec);
    return spec;
  };
  const StatusCode invalid = StatusCode::INVALID_ARGUMENT;
  ExpectRefused(with([](auto& s) { s.clear_model(); }), invalid, "spec.model");
  ExpectRefused(with([](auto& s) { s.clear_cluster(); }), invalid, "spec.cluster");
  ExpectRefused(with([](auto& s) { s.clear_workload(); }), invalid, "spec.workload");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_layers(0); }), invalid, "layers");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_hidden(-64); }), invalid, "hidden");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_vocab(std::numeric_limits<std::int64_t>::max()); }),
                invalid, "vocab");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_activation("tanh"); }), invalid, "activation");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_global_batch(0); }), invalid, "global_batch");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_global_batch(1 << 20); }), invalid,
                "global_batch");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_seq_len(-1); }), invalid, "seq_len");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_seq_len(33); }), invalid, "seq_len");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_precision("fp12"); }), invalid, "precision");
  ExpectRefused(with([](auto& s) { s.mutable_cluster()->clear_groups(); }), invalid, "spec.cluster");
  ExpectRefused(with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(0); }), invalid,
                "gpus_per_node");
  ExpectRefused(with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(5000); }),
                invalid, "ranks");
  ExpectRefused(
      with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_kind("tpu"); }),
      invalid, "kind");
  ExpectRefused(with([](auto& s) { s.set_max_trials(-1); }), invalid, "max_trials");
  ExpectRefused(with([](auto& s) { s.set_time_budget_s(-1); }), invalid, "time_budget_s");
  ExpectRefused(with([](auto& s) { s.set_time_budget_s(std::nan("")); }), invalid, "time_budget_s");
  ExpectRefused(with([](auto& s) {
                  auto& axis = *s.add_space();
                  axis.set_name("mbz");
                  axis.add_values(std::string("1"));
                }),
                invalid, "mbz");
  ExpectRefused(with([](auto& s) {
                  for (int i = 0; i < 2; ++i) {
                    auto& axis = *s.add_space();
                    axis.set_name("tp");
                    axis.add_values(std::string("1"));
                  }
                }),
                invalid, "twice");
  const StatusCode later = StatusCode::UNIMPLEMENTED;
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_position("alibi"); }), later, "not supported yet");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_precision("bf16"); }), later,
                "bf16 on the CPU is not supported yet");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->set_local(false);
                  s.mutable_cluster()->mutable_groups(0)->set_nodes(2);
                }),
                invalid, "intra_node_bytes_per_s is missing");
  ExpectRefused(with([](auto& s) { s.set_device("paced"); }), invalid, "paced emulates a described cluster");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->set_local(false);
                  s.set_device("paced");
                }),
                invalid, "flops_per_s");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->set_local(false);
                  s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_kind("cuda");
                  s.mutable_workload()->set_precision("bf16");
                }),
                invalid, "predict_only");
  ExpectRefused(with([](auto& s) { s.set_device("cuda"); }), invalid, "the cluster's devices are CPUs");
  ExpectRefused(with([](auto& s) { s.set_device("tpu"); }), invalid, "give cpu, cuda or paced");
  ExpectRefused(with([](auto& s) { s.set_machine_ranks(-1); }), invalid, "machine_ranks");
  const auto axis = [&](const std::string& name, int values, std::size_t bytes) {
    return with([&](auto& s) {
      v1::SpaceAxis& axis = *s.add_space();
      axis.set_name(name);
      for (int i = 1; i <= values; ++i) axis.add_values(fmt::format("{:0>{}}", i, bytes));
    });
  };
  ExpectRefused(axis("tp", 1001, 4), invalid, "axis tp has 1001 values; 1000 are the most");
  ExpectRefused(axis("tp", 100, 1000), invalid,
                "the values of axis tp have 100000 bytes; 64000 are the most");
  ExpectRefused(with([](auto& s) {
                  for (int i = 0; i <= 100; ++i) s.add_space()->set_name(fmt::format("axis{}", i));
                }),
                invalid, "spec.space has 101 axes");
  const std::string long_name(201, 'n');
  ExpectRefused(with([&](auto& s) { s.mutable_model()->set_name(long_name); }), invalid,
                "spec.model.name has 201 bytes");
  ExpectRefused(with([&](auto& s) { s.mutable_cluster()->set_name(long_name); }), invalid,
                "spec.cluster.name");
  ExpectRefused(
      with([&](auto& s) { s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_name(long_name); }),
      invalid, "device.name");
  const auto on_gpus = [&](const char* precision) {
    return with([precision](auto& s) {
      s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_kind("cuda");
      s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_memory_bytes(std::int64_t{80} << 30);
      s.set_device("cuda");
      s.mutable_workload()->set_precision(precision);
    });
  };
  ExpectRefused(on_gpus("fp64"), invalid, "fp64 is for CPUs only");
  ExpectRefused(on_gpus("fp16"), later, "fp16 on a GPU is not supported yet");
  v1::ListStudiesResponse list;
  EXPECT_TRUE(Call(studies_, &v1::StudyService::Stub::ListStudies, v1::ListStudiesRequest(), &list).ok());
  EXPECT_EQ(list.studies_size(), 0);  // nothing was stored
  v1::Study study;
  EXPECT_EQ(
      Call(studies_, &v1::StudyService::Stub::CreateStudy, v1::CreateStudyRequest(), &study).error_code(),
      invalid);
}

TEST_F(StudyServiceTest, MalformedNamesAreInvalid) {
  for (const std::string name :
       {"", "studies/", "studies/x", "studies/-1", "studies/0", "studies/01", "studies/1/", "study/1",
        "studies/99999999999999999999999", "studies/1/trials/1\n"}) {
    v1::GetStudyRequest get;
    get.set_name(name);
    v1::Study study;
    EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetStudy, get, &study).error_code(),
              StatusCode::INVALID_ARGUMENT)
        << name;
    EXPECT_EQ(Start(name).error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Cancel(name).error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Watch(name).status.error_code(), StatusCode::INVALID_ARGUMENT);
    v1::GetTrialRequest trial;
    trial.set_name(name);
    v1::Trial answer;
    EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetTrial, trial, &answer).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(StudyServiceTest, WhatIsNotThereIsNotFound) {
  v1::GetStudyRequest get;
  get.set_name("studies/7");
  v1::Study study;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetStudy, get, &study).error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_EQ(Start("studies/7").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Pause("studies/7").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Watch("studies/7").status.error_code(), StatusCode::NOT_FOUND);
  v1::ListTrialsRequest list;
  list.set_parent("studies/7");
  v1::ListTrialsResponse trials;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::ListTrials, list, &trials).error_code(),
            StatusCode::NOT_FOUND);
  v1::GetRecommendationRequest recommend;
  recommend.set_study("studies/7");
  v1::Recommendation answer;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetRecommendation, recommend, &answer).error_code(),
            StatusCode::NOT_FOUND);
  v1::GetTrialRequest trial;
  trial.set_name("studies/7/trials/1");
  v1::Trial one;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetTrial, trial, &one).error_code(),
            StatusCode::NOT_FOUND);
}

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

TEST_F(StudyServiceTest, TheFingerprintIsOfTheQuestion) {
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
  EXPECT_EQ(second.state(), v1::STUDY_STATE_RUNNING);  // the same request once more is no new pause

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

TEST_F(StudyServiceTest, StatesAllowWhatTheyAllow) {
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

TEST_F(StudyServiceTest, ListsPage) {
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
  for (const std::string token : {"x", "-1", "0", "1x"}) {
    request.set_page_token(token);
    EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::ListStudies, request, &response).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::ListStudies, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(StudyServiceTest, WhatIsNotSupportedYetSaysSo) {
  v1::ExportConfigResponse exported;
  const grpc::Status status =
      Call(studies_, &v1::StudyService::Stub::ExportConfig, v1::ExportConfigRequest(), &exported);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("not supported yet"));
}

// --- RetryTrial ---

TEST_F(StudyServiceTest, ARetriedTrialIsMeasuredAndTheSearchTakesItIntoAccount) {
  const std::string name = Create(SmallSpec()).name();
  const std::string best = "tp=1,pp=1,dp=4,mbs=1";  // by the worker's formula
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
    for (int i = 0; i < 2; ++i) {  // once is as good as twice
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
  // It has ended.
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

// --- Predict ---

// The question of `line` as a message.
v1::PredictRequest PredictionMessage(const std::string& id, const std::string& line) {
  const auto question = ParsePredictionRequest(nlohmann::ordered_json::parse(line));
  EXPECT_TRUE(question.ok()) << question.status();
  v1::PredictRequest request;
  request.set_id(id);
  *request.mutable_model() = ToProto(question->model);
  *request.mutable_cluster() = ToProto(question->cluster);
  *request.mutable_workload() = ToProto(question->workload);
  *request.mutable_plan() = ToProto(question->plan);
  return request;
}

TEST_F(StudyServiceTest, PredictionsAreThoseOfTheCommandLineInOrder) {
  const auto line = [](const std::string& plan) {
    return fmt::format(
        R"({{"model": "gpt3-175b", "cluster": "a100-80gb-sxm:8x8", "global_batch": 64, "plan": {{{}}}}})",
        plan);
  };
  const std::vector<std::string> plans = {R"("tp": 8, "pp": 8, "dp": 1, "micro_batch": 1)",
                                          R"("tp": 8, "pp": 4, "dp": 2, "micro_batch": 1)",
                                          R"("tp": 4, "pp": 8, "dp": 2, "micro_batch": 2)"};
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stream = studies_->Predict(&context);
  PredictorCache predictors;
  v1::PredictResponse response;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const AnsweredLine expected = AnswerPredictionLine(line(plans[i]), predictors);
    ASSERT_TRUE(expected.ok) << expected.text;
    const auto json = nlohmann::json::parse(expected.text);
    ASSERT_TRUE(stream->Write(PredictionMessage(std::to_string(i), line(plans[i]))));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.id(), std::to_string(i));
    EXPECT_EQ(response.error(), "");
    EXPECT_EQ(response.prediction().step_time_s(), json.at("step_time_s").get<double>());
    EXPECT_EQ(response.prediction().feasible(), json.at("feasible").get<bool>());
    EXPECT_EQ(response.prediction().memory_bytes().total(),
              json.at("memory_bytes").at("total").get<std::int64_t>());
  }
  // What is left out has the same defaults.
  v1::PredictRequest defaults = PredictionMessage("d", line(plans[0]));
  defaults.mutable_workload()->clear_seq_len();
  defaults.mutable_workload()->clear_precision();
  ASSERT_TRUE(stream->Write(defaults) && stream->Read(&response));
  EXPECT_EQ(response.prediction().step_time_s(),
            nlohmann::json::parse(AnswerPredictionLine(line(plans[0]), predictors).text).at("step_time_s"));

  // Wrong ones get their error, and the rest go on.
  const auto wrong = [&](const std::function<void(v1::PredictRequest&)>& edit, const std::string& words) {
    v1::PredictRequest request = PredictionMessage("w", line(plans[0]));
    edit(request);
    ASSERT_TRUE(stream->Write(request) && stream->Read(&response)) << words;
    EXPECT_THAT(response.error(), HasSubstr(words));
    EXPECT_THAT(response.error(), testing::Not(HasSubstr("\n")));
    EXPECT_FALSE(response.has_prediction());
  };
  wrong([](auto& r) { r.clear_model(); }, "model is missing");
  wrong([](auto& r) { r.clear_plan(); }, "plan is missing");
  wrong([](auto& r) { r.clear_workload(); }, "workload is missing");
  wrong([](auto& r) { r.mutable_model()->set_layers(-1); }, "layers");
  wrong([](auto& r) { r.mutable_workload()->set_seq_len(-1); }, "seq_len");
  wrong([](auto& r) { r.mutable_workload()->set_global_batch(-1); }, "global_batch");
  wrong([](auto& r) { r.mutable_workload()->set_precision("fp12"); }, "fp12");
  wrong([](auto& r) { r.mutable_cluster()->set_local(true); }, "local has no figures");
  wrong([](auto& r) { r.mutable_plan()->set_tp(7); }, "tp");
  wrong([](auto& r) { r.set_id(std::string(2 << 20, 'x')); }, "longer than");
  ASSERT_TRUE(stream->Write(PredictionMessage("last", line(plans[1]))) && stream->Read(&response));
  EXPECT_EQ(response.id(), "last");
  EXPECT_TRUE(response.has_prediction());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

// --- WatchStudy ---

TEST_F(StudyServiceTest, AWatcherHearsThatWorkWaitsAndThatItDoesNoLonger) {
  const std::string name = Create(SmallSpec()).name();
  ASSERT_TRUE(Start(name).ok());
  std::unique_ptr<FakeWorker> worker;
  std::string waited;
  const Stream stream = Watch(name, 0, [&](const v1::StudyEvent& event) {
    if (!event.study().waiting().empty() && worker == nullptr) {
      waited = event.study().waiting();
      EXPECT_EQ(Get(name).waiting(), waited);
      v1::ListStudiesResponse list;
      EXPECT_TRUE(Call(studies_, &v1::StudyService::Stub::ListStudies, v1::ListStudiesRequest(), &list).ok());
      EXPECT_EQ(list.studies(0).waiting(), waited);
      worker = std::make_unique<FakeWorker>(coordinator_->address());
    }
    return false;
  });
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  EXPECT_THAT(waited, HasSubstr("worker"));
  EXPECT_EQ(stream.events.back().study().state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(stream.events.back().study().waiting(), "");
}

int Threads() {
  int threads = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++threads;
  return threads;
}

TEST_F(StudyServiceTest, WatchersThatDisconnectAreForgotten) {
  const std::string name = Create(SmallSpec()).name();
  EXPECT_EQ(Watch(name, 0, [](const v1::StudyEvent&) { return true; }).status.error_code(),
            StatusCode::CANCELLED);
  const int before = Threads();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<v1::StudyEvent>>> readers;
    v1::WatchStudyRequest request;
    request.set_name(name);
    for (int i = 0; i < 30; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      readers.push_back(studies_->WatchStudy(contexts.back().get(), request));
      v1::StudyEvent event;
      EXPECT_TRUE(readers.back()->Read(&event));  // it is being watched
    }
    for (int i = 0; i < 30; ++i) {
      contexts[static_cast<std::size_t>(i)]->TryCancel();
      readers[static_cast<std::size_t>(i)]->Finish();
    }
  }
  // Each held a thread: they are free again.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Threads() > before + 10 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(Threads(), before + 10);
  EXPECT_EQ(Get(name).name(), name);
}

TEST_F(StudyServiceTest, WatchersAreBoundedAndLeaveRoomForCalls) {
  const std::string name = Create(SmallSpec()).name();
  struct Parked {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::StudyEvent>> reader;
  };
  const auto watch = [&](Parked& parked) {
    v1::WatchStudyRequest request;
    request.set_name(name);
    parked.context.set_wait_for_ready(true);
    parked.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    parked.reader = studies_->WatchStudy(&parked.context, request);
    v1::StudyEvent event;
    return parked.reader->Read(&event);
  };
  std::vector<Parked> parked(kMaxWatchers);
  for (Parked& one : parked) ASSERT_TRUE(watch(one));
  Parked refused;
  EXPECT_FALSE(watch(refused));
  const grpc::Status status = refused.reader->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("128 calls watch studies already"));
  EXPECT_THAT(status.error_message(), HasSubstr("end one of them"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Get(name).name(), name);
  for (Parked& one : parked) {
    one.context.TryCancel();
    one.reader->Finish();
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool taken = false;
  while (!taken && std::chrono::steady_clock::now() < limit) {
    Parked next;
    taken = watch(next);
    next.context.TryCancel();
    next.reader->Finish();
  }
  EXPECT_TRUE(taken);
}

TEST_F(StudyServiceTest, AWatcherSeesEveryTrialAndTheEnd) {
  const std::string name = Create(SmallSpec()).name();
  FakeWorker worker(coordinator_->address());
  Stream stream;
  std::thread watching([&] { stream = Watch(name); });
  ASSERT_TRUE(Start(name).ok());
  watching.join();
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  std::int64_t cursor = 0;
  std::map<std::string, v1::TrialState> last;
  std::set<std::string> phases;
  for (const v1::StudyEvent& event : stream.events) {
    EXPECT_GT(event.cursor(), cursor);
    cursor = event.cursor();
    EXPECT_EQ(event.study().name(), name);
    phases.insert(event.study().phase());
    if (event.has_trial()) last[event.trial().name()] = event.trial().state();
  }
  const std::vector<v1::Trial> trials = Trials(name);
  EXPECT_EQ(last.size(), trials.size());
  for (const v1::Trial& trial : trials) EXPECT_EQ(last[trial.name()], trial.state());
  EXPECT_EQ(stream.events.back().study().state(), v1::STUDY_STATE_DONE);
  EXPECT_TRUE(stream.events.back().study().has_best());
  EXPECT_TRUE(phases.contains("calibrating"));
  EXPECT_TRUE(phases.contains("measuring"));
  EXPECT_TRUE(phases.contains("done"));
}

TEST_F(StudyServiceTest, AStreamResumesAfterItsCursor) {
  const std::string name = Create(SmallSpec()).name();
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(name).ok());
  std::int64_t cursor = 0;
  std::map<std::string, v1::TrialState> last;
  // Broken off after every third event.
  v1::StudyState state = v1::STUDY_STATE_RUNNING;
  int streams = 0;
  while (state != v1::STUDY_STATE_DONE && ++streams < 1000) {
    int seen = 0;
    for (const v1::StudyEvent& event :
         Watch(name, cursor, [&](const v1::StudyEvent&) { return ++seen == 3; }).events) {
      EXPECT_GT(event.cursor(), cursor);
      cursor = event.cursor();
      state = event.study().state();
      if (event.has_trial()) last[event.trial().name()] = event.trial().state();
    }
  }
  EXPECT_GT(streams, 2);
  // The last events may have been those of trials; what is left comes with the next stream.
  for (const v1::StudyEvent& event : Watch(name, cursor).events) {
    if (event.has_trial()) last[event.trial().name()] = event.trial().state();
  }
  for (const v1::Trial& trial : Trials(name)) EXPECT_EQ(last[trial.name()], trial.state()) << trial.name();
  // At the end there is nothing left, and a cursor from nowhere is refused.
  const Stream rest = Watch(name, Watch(name).events.back().cursor());
  EXPECT_TRUE(rest.status.ok());
  EXPECT_TRUE(rest.events.empty());
  EXPECT_EQ(Watch(name, 1 << 30).status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Watch(name, -1).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(StudyServiceTest, AWatcherHearsOfShutdownAndOfDeletion) {
  const std::string name = Create(SmallSpec()).name();
  Stream stream;
  std::thread watching([&] { stream = Watch(name); });
  v1::DeleteStudyRequest remove;
  remove.set_name(name);
  v1::DeleteStudyResponse deleted;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::DeleteStudy, remove, &deleted).ok());
  watching.join();
  EXPECT_EQ(stream.status.error_code(), StatusCode::NOT_FOUND);

  const std::string other = Create(SmallSpec()).name();
  std::atomic<bool> began = false;
  std::thread waiting([&] {
    stream = Watch(other, 0, [&](const v1::StudyEvent&) {
      began = true;
      return false;
    });
  });
  while (!began) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  coordinator_->Shutdown();
  waiting.join();
  EXPECT_EQ(stream.status.error_code(), StatusCode::UNAVAILABLE) << stream.status.error_message();
}

TEST_F(StudyServiceTest, AtShutdownStreamsAndParkedCallsEndAsUnavailable) {
  const std::string name = Create(SmallSpec()).name();
  v1::RegisterWorkerRequest worker;
  worker.set_worker("workers/a");
  worker.set_boot_id("boot");
  worker.mutable_inventory()->set_slots(1);
  v1::RegisterWorkerResponse session;
  ASSERT_TRUE(Call(workers_, &v1::WorkerService::Stub::RegisterWorker, worker, &session).ok());
  constexpr int kWatchers = 16;
  std::atomic<int> began = 0;
  std::vector<grpc::Status> ends(kWatchers + 1);
  std::vector<std::thread> callers;
  for (int i = 0; i < kWatchers; ++i) {
    callers.emplace_back([&, i] {
      ends[static_cast<std::size_t>(i)] = Watch(name, 0, [&](const v1::StudyEvent&) {
                                            ++began;
                                            return false;
                                          }).status;
    });
  }
  callers.emplace_back([&] {
    v1::LeaseWorkRequest request;
    request.set_worker("workers/a");
    request.set_session_epoch(session.session_epoch());
    request.set_wait_s(15);
    v1::LeaseWorkResponse response;
    ends.back() = Call(workers_, &v1::WorkerService::Stub::LeaseWork, request, &response);
  });
  const auto seen = [&] {
    v1::ListWorkersResponse list;
    EXPECT_TRUE(Call(workers_, &v1::WorkerService::Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
    // a parked call is seen all the time
    return list.workers(0).last_seen_s() > list.workers(0).register_time_s() + 0.05;
  };
  while (began < kWatchers || !seen()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  coordinator_->Shutdown();
  for (std::thread& caller : callers) caller.join();
  for (const grpc::Status& end : ends)
    EXPECT_EQ(end.error_code(), StatusCode::UNAVAILABLE) << end.error_message();
}

}  // namespace
}  // namespace autocfg
