// The whole coordinator over a Unix socket: small studies from end to end with a fake worker.
#include "server/coordinator/coordinator.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;
using CoordinatorTest = CoordinatorFixture;

TEST_F(CoordinatorTest, SmallStudyRunsEndToEnd) {
  Open();
  const v1::Study created = Create(SmallSpec());
  EXPECT_EQ(created.state(), v1::STUDY_STATE_CREATED);
  EXPECT_EQ(created.owner(), "tester");
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(created.name()).ok());
  const v1::Study done = Finish(created.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message();
  EXPECT_EQ(done.message(), "");
  EXPECT_EQ(done.phase(), "done");
  EXPECT_GE(done.end_time_s(), done.create_time_s());

  const v1::Recommendation answer = Recommend(created.name());
  EXPECT_EQ(answer.study(), created.name());
  EXPECT_EQ(answer.provenance(), "measured");
  // The formula's optimum: data parallelism only, with the smallest micro-batch.
  EXPECT_EQ(answer.best().plan_text(), "tp=1,pp=1,dp=4,mbs=1,zero=1");
  EXPECT_TRUE(answer.best().has_predicted());
  EXPECT_GE(answer.best().measured().step_time_s_size(), 3);
  EXPECT_NEAR(answer.best().measured().median_step_time_s(), FakeWorker::StepSeconds(answer.best().plan()),
              1e-4);
  EXPECT_EQ(answer.best().measured().peak_memory_bytes(), 12345);
  EXPECT_EQ(done.best().SerializeAsString(), answer.best().SerializeAsString());
  ASSERT_GT(answer.runners_up_size(), 0);
  const v1::Counts& counts = answer.counts();
  EXPECT_GT(counts.measured(), 0);
  EXPECT_EQ(counts.enumerated(), counts.illegal() + counts.out_of_memory() + counts.predicted());
  EXPECT_EQ(counts.evaluated(), counts.predicted());
  EXPECT_LT(counts.measured(), counts.predicted());
  EXPECT_EQ(done.counts().SerializeAsString().size(), counts.SerializeAsString().size());
  EXPECT_GT(answer.wall_s(), 0);
  EXPECT_GT(answer.plan_cpu_s(), 0);
  EXPECT_GT(answer.exhaustive_device_s(), answer.device_s()) << "a search costs less than measuring all";

  const std::vector<v1::Trial> trials = Trials(created.name());
  double device_s = 4;  // the calibration's
  std::set<std::string> plans;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(trials[i].name(), fmt::format("{}/trials/{}", created.name(), i + 1));
    EXPECT_EQ(trials[i].state(), v1::TRIAL_STATE_MEASURED);
    EXPECT_TRUE(trials[i].has_predicted());
    EXPECT_EQ(trials[i].attempts_size(), 1);
    EXPECT_TRUE(plans.insert(fmt::format("{} {}", trials[i].plan_text(), trials[i].repeat())).second);
    device_s += trials[i].measured().device_s();
  }
  EXPECT_EQ(worker.jobs_done(), static_cast<int>(trials.size()) + 1);
  EXPECT_NEAR(answer.device_s(), device_s, 1e-9);
}

// Beside a measurement stands what was predicted before it. What all measurements make of the prediction
// stands apart, and only where the plan was measured.
TEST_F(CoordinatorTest, PredictionsBesideMeasurementsAreOlder) {
  Open();
  FakeWorker worker(coordinator_->address());
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  ASSERT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  std::map<std::string, v1::Prediction> first;
  for (const v1::Trial& trial : Trials(study.name())) {
    if (trial.repeat() == 0) first[trial.plan_text()] = trial.predicted();
  }
  const v1::Recommendation answer = Recommend(study.name());
  std::vector<v1::Candidate> candidates(answer.runners_up().begin(), answer.runners_up().end());
  candidates.push_back(answer.best());
  int measured = 0;
  for (const v1::Candidate& candidate : candidates) {
    EXPECT_EQ(candidate.has_corrected(), candidate.has_measured()) << candidate.plan_text();
    if (!candidate.has_measured()) continue;
    ++measured;
    EXPECT_EQ(candidate.predicted().step_time_s(), first.at(candidate.plan_text()).step_time_s());
    // Its own measurement is among those that correct it.
    const double seconds = candidate.measured().median_step_time_s();
    EXPECT_LE(std::abs(std::log(candidate.corrected().step_time_s() / seconds)),
              std::abs(std::log(candidate.predicted().step_time_s() / seconds)) + 0.02)
        << candidate.plan_text();
  }
  EXPECT_GT(measured, 1);
}

TEST_F(CoordinatorTest, JobsAreComplete) {
  Open();
  const v1::Study study = Create(SmallSpec());
  std::vector<v1::Job> jobs;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    jobs.push_back(job);
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(study.name()).ok());
  Finish(study.name());
  worker.Stop();
  ASSERT_GT(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].name(), study.name() + "/calibration");
  EXPECT_EQ(jobs[0].ranks(), 4);
  EXPECT_EQ(jobs[0].calibrate().time_budget_s(), 10);
  EXPECT_GT(jobs[0].calibrate().ops_size(), 10);
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const v1::TrainSpec& train = jobs[i].train();
    EXPECT_EQ(jobs[i].device(), "cpu");
    EXPECT_EQ(jobs[i].ranks(), train.plan().tp() * train.plan().pp() * train.plan().dp());
    EXPECT_GE(jobs[i].time_limit_s(), 30);
    EXPECT_GE(train.steps() - train.warmup_steps_untimed(), 3);
    EXPECT_LE(train.steps() - train.warmup_steps_untimed(), 20);
    EXPECT_GE(train.warmup_steps_untimed(), 1);
    EXPECT_NE(train.program_fingerprint(), 0u);
    EXPECT_EQ(train.memory_capacity_bytes(), std::int64_t{1} << 30);
    EXPECT_EQ(train.model().ffn_hidden(), 256);  // defaults are filled
    EXPECT_EQ(train.optimizer().lr(), 3e-4);
    EXPECT_EQ(train.optimizer().clip_norm(), 1);
  }
}

TEST_F(CoordinatorTest, ExhaustiveMeasuresEveryPlanThatFits) {
  Open();
  const v1::Study study = Create(ExhaustiveSpec());
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  Finish(study.name());
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.counts().measured(), answer.counts().predicted());
  EXPECT_EQ(answer.best().plan_text(), "tp=1,pp=1,dp=4,mbs=1,zero=3");
  EXPECT_EQ(answer.stopped(), "") << "nothing was left";
}

TEST_F(CoordinatorTest, MaxTrialsBoundsTheTrials) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_max_trials(2);
  const v1::Study study = Create(spec);
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(done.message(),
            fmt::format("max_trials of 2 is reached; {} plans are left unmeasured", answer.plans_left()));
  EXPECT_EQ(answer.counts().measured(), 2);
  EXPECT_EQ(answer.stopped(), "max_trials");
  EXPECT_GT(answer.plans_left(), 0);
  EXPECT_EQ(Cancel(study.name()).error_message(),
            study.name() + " is DONE and cannot be cancelled; it has ended, so there is nothing to stop");
}

TEST_F(CoordinatorTest, NothingFitsEndsTheStudyWithAReason) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.mutable_cluster()->mutable_groups(0)->mutable_device()->set_memory_bytes(1000);
  const v1::Study study = Create(spec);
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());  // without a worker, so nothing is measured
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE);
  EXPECT_THAT(done.message(), HasSubstr("fits"));
  EXPECT_THAT(done.message(), HasSubstr("the smallest is tp="));
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.nothing_fits(), done.message());
  EXPECT_FALSE(answer.has_best());
  EXPECT_GT(answer.counts().out_of_memory(), 0);
  Close();
  Open();
  EXPECT_EQ(Recommend(study.name()).nothing_fits(), done.message());
}

TEST_F(CoordinatorTest, WhereNoPlanIsLegalAnExampleSaysWhatToDo) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(3);
  v1::SpaceAxis& axis = *spec.add_space();
  axis.set_name("tp");
  axis.add_values("3");
  const v1::Study study = Create(spec);
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE);
  EXPECT_THAT(done.message(), HasSubstr(" plans is legal: heads_not_divisible "));
  EXPECT_THAT(done.message(), HasSubstr("; of tp=3"));
  EXPECT_THAT(done.message(), HasSubstr("4 heads are not divisible by tp=3; give a tp that divides 4"));
}

TEST_F(CoordinatorTest, EqualSearchJoinsTheUnfinishedStudy) {
  Open();
  const v1::Study study = Create(SmallSpec());
  v1::SearchSpec same = SmallSpec();
  same.mutable_model()->set_ffn_hidden(256);  // equals its default
  same.set_device("cpu");
  EXPECT_EQ(Create(same, /*reuse=*/true).name(), study.name());
  EXPECT_NE(Create(same, /*reuse=*/false).name(), study.name());
  v1::SearchSpec other = SmallSpec();
  other.mutable_workload()->set_global_batch(16);
  EXPECT_NE(Create(other, /*reuse=*/true).fingerprint(), study.fingerprint());
}

TEST_F(CoordinatorTest, HealthAndReflectionAnswer) {
  Open();
  // Uses the wire format of both requests, because this project does not contain their messages.
  grpc::GenericStub generic(channel_);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer response;
  grpc::Status status;
  grpc::Slice slice;
  void* tag = nullptr;
  bool ok = false;
  // For the server and for each service: field 1, a string.
  for (const std::string service : {"",
                                    "\x0a\x17"
                                    "autocfg.v1.StudyService",
                                    "\x0a\x18"
                                    "autocfg.v1.WorkerService"}) {
    grpc::ClientContext context;
    const grpc::Slice bytes(service);
    const grpc::ByteBuffer check(&bytes, 1);
    auto call = generic.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", check, &queue);
    call->StartCall();
    call->Finish(&response, &status, &response);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
    // SERVING
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()), "\x08\x01") << service;
  }

  grpc::ClientContext stream_context;
  auto stream = generic.PrepareCall(&stream_context,
                                    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  stream->StartCall(&queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const std::string list_services = "\x3a\x01*";  // field 7, a string
  grpc::Slice request(list_services);
  stream->Write(grpc::ByteBuffer(&request, 1), &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  stream->Read(&response, &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
  const std::string services(reinterpret_cast<const char*>(slice.begin()), slice.size());
  EXPECT_THAT(services, HasSubstr("autocfg.v1.StudyService"));
  EXPECT_THAT(services, HasSubstr("autocfg.v1.WorkerService"));
  stream_context.TryCancel();
  stream->Finish(&status, &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok));
}

}  // namespace
}  // namespace autocfg::server
