// What a coordinator counts, and its text for Prometheus.
#include "server/metrics/metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/metrics_text.h"
#include "server/store/sqlite/sqlite_store.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  std::string Text() {
    const auto text = MetricsText(metrics_, *store_, dispatcher_);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  double now_s_ = 100;
  Metrics metrics_;
  std::unique_ptr<Store> store_ = *OpenMemoryStore();
  Dispatcher dispatcher_{*store_, [this] { return now_s_; }, {}};
};

TEST_F(MetricsTest, CountsWhatWritesDid) {
  EXPECT_THAT(Text(), HasSubstr("autocfg_trials_total{outcome=\"timed_out\"} 0\n")) << "from the start";
  StoreCommit commit{.seconds = 0.02, .leases_granted = 3, .reports_rejected = 2};
  commit.leases_ended = {1, 2, 0, 4};
  commit.trials_ended = {v1::TRIAL_STATE_TIMED_OUT, v1::TRIAL_STATE_LOST, v1::TRIAL_STATE_TIMED_OUT};
  metrics_.Committed(commit);
  metrics_.Committed({.failed = true});
  const std::string text = Text();
  for (const char* line :
       {"autocfg_leases_granted_total 3\n", "autocfg_leases_ended_total{end=\"reported\"} 1\n",
        "autocfg_leases_ended_total{end=\"expired\"} 2\n", "autocfg_leases_ended_total{end=\"lost\"} 0\n",
        "autocfg_leases_ended_total{end=\"returned\"} 4\n", "autocfg_trials_total{outcome=\"timed_out\"} 2\n",
        "autocfg_trials_total{outcome=\"lost\"} 1\n", "autocfg_trials_total{outcome=\"measured\"} 0\n",
        "autocfg_reports_rejected_total 2\n", "autocfg_store_failed_writes_total 1\n",
        "autocfg_store_commit_seconds_count 1\n", "autocfg_store_commit_seconds_bucket{le=\"0.01\"} 0\n",
        "autocfg_store_commit_seconds_bucket{le=\"0.025\"} 1\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST_F(MetricsTest, CallsCountByMethodAndStatus) {
  metrics_.Called("/autocfg.v1.StudyService/GetStudy", grpc::StatusCode::OK, 0.5);
  metrics_.Called("/autocfg.v1.StudyService/GetStudy", grpc::StatusCode::NOT_FOUND, 0.001);
  // Callers could else fill the memory of the server with names.
  for (const char* method :
       {"/autocfg.v1.StudyService/Nope\"\n", "/grpc.health.v1.Health/Check", "", "/", "x"})
    metrics_.Called(method, grpc::StatusCode::UNIMPLEMENTED, 0.001);
  metrics_.Called("/autocfg.v1.StudyService/ListStudies", static_cast<grpc::StatusCode>(99), 0.001);
  metrics_.Leased(0.3);
  const std::string text = Text();
  for (const char* line : {"autocfg_rpcs_total{code=\"OK\",method=\"StudyService/GetStudy\"} 1\n",
                           "autocfg_rpcs_total{code=\"NOT_FOUND\",method=\"StudyService/GetStudy\"} 1\n",
                           "autocfg_rpcs_total{code=\"UNIMPLEMENTED\",method=\"other\"} 5\n",
                           "autocfg_rpcs_total{code=\"UNKNOWN\",method=\"StudyService/ListStudies\"} 1\n",
                           "autocfg_rpc_duration_seconds_count{method=\"StudyService/GetStudy\"} 2\n",
                           "autocfg_rpc_duration_seconds_sum{method=\"StudyService/GetStudy\"} 0.501\n",
                           "autocfg_lease_wait_seconds_count 1\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("Nope")));
}

TEST_F(MetricsTest, WorkersAndSlotsFollowTheirStates) {
  v1::RegisterWorkerRequest request;
  request.set_boot_id("b");
  request.mutable_inventory()->set_slots(4);
  request.mutable_inventory()->set_device_kind("cpu");
  for (const char* name : {"workers/a", "workers/b", "workers/c"}) {
    request.set_worker(name);
    const auto epoch = store_->RegisterWorker(request, now_s_);
    ASSERT_TRUE(epoch.ok());
    dispatcher_.Registered({name, *epoch});
  }
  ASSERT_TRUE(store_->DrainWorker("workers/b", "").ok());
  std::string text = Text();
  EXPECT_THAT(text, HasSubstr("autocfg_workers{state=\"active\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("autocfg_workers{state=\"draining\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("autocfg_workers{state=\"silent\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("autocfg_slots{state=\"free\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("autocfg_slots{state=\"used\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("autocfg_build_info{"));
  EXPECT_THAT(text, HasSubstr("autocfg_store_failing 0\n"));
}

}  // namespace
}  // namespace autocfg::server
