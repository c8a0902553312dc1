// Part of the contract of Store: attempts that span workers, from their leases to their end.
#pragma once

#include <algorithm>

#include "base/statistics.h"
#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

class StoreGangSuite : public StoreSuite {
 protected:
  // Starts a running study with one trial, on workers a, b, ... with these slots.
  void Start(const std::vector<int>& slots, std::int64_t max_attempts = 2) {
    id_ = NewRunning(fmt::format("gang{}", ++studies_));
    int ranks = 0;
    workers_.clear();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      workers_.push_back(Join(std::string(1, static_cast<char>('a' + i)), slots[i]));
      ranks += slots[i];
    }
    v1::Job job = TrainJob(ranks);
    job.mutable_train()->set_steps(job.train().warmup_steps_untimed() + steps_);
    EnqueueJob(id_, "tp=1", job, max_attempts);
    Again();
  }
  void Again(double now = 200) {
    gang_ = GiveOut(workers_, {}, now).leases;
    ASSERT_EQ(gang_.size(), workers_.size());
  }
  v1::TrialState State() { return Trial(id_, 1).state(); }
  absl::Status Send(std::size_t share, v1::Outcome outcome, const std::string& message = "",
                    v1::FailureKind failure = v1::FAILURE_KIND_UNSPECIFIED, double now = 205) {
    return store_->Report(ReportOf(gang_[share], outcome, message, failure), now);
  }
  std::vector<std::string> Ids(const std::vector<std::size_t>& shares) {
    std::vector<std::string> ids;
    for (const std::size_t share : shares) ids.push_back(gang_[share].lease_id);
    return ids;
  }

  std::int64_t id_ = 0;
  int steps_ = 1;  // that the next job times
  int studies_ = 0;
  std::vector<WorkerSession> workers_;
  std::vector<Lease> gang_;
};

TEST_P(StoreGangSuite, AttemptEndsWithItsLastShare) {
  Start({2, 2});
  ASSERT_TRUE(Send(1, v1::OUTCOME_MEASURED).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_RUNNING);
  EXPECT_FALSE(Trial(id_, 1).has_measured());
  EXPECT_TRUE(store_->LeasesToStop()->empty()) << "a share that was measured stops nobody";
  EXPECT_EQ(Renew(gang_[0]), v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(
      store_->RenewLease("workers/b", 1, gang_[1].lease_id, gang_[1].fencing_token, 206, 10).status().code(),
      absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Send(0, v1::OUTCOME_MEASURED, "", {}, 209).ok());
  const v1::Trial trial = Trial(id_, 1);
  EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED);
  ASSERT_EQ(trial.attempts_size(), 1);
  EXPECT_EQ(trial.attempts(0).state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.attempts(0).end_time_s(), 209);
  EXPECT_EQ(store_->Usage(id_)->device_s, 6);
}

TEST_P(StoreGangSuite, TimelinesOfTheSharesAreOne) {
  Start({2, 2});
  for (const std::size_t share : {1u, 0u}) {
    v1::ReportTrialRequest report = ReportOf(gang_[share], v1::OUTCOME_MEASURED);
    *report.mutable_timeline() = TimelineFrom(static_cast<int>(share), share == 0 ? 2 : 1);
    EXPECT_FALSE(store_->FindTimeline(id_, "tp=1")->has_value()) << "half a pipeline is none";
    ASSERT_TRUE(store_->Report(report, 205).ok());
  }
  const auto found = *store_->FindTimeline(id_, "tp=1");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->timeline.rows_size(), 2);
  EXPECT_EQ(found->timeline.rows(0).pipeline(), 1) << "in order of time";
  EXPECT_EQ(found->timeline.rows(1).pipeline(), 0);
}

// Tests which end of two decides, and the final state of a trial that has one attempt.
TEST_P(StoreGangSuite, EveryPairOfEndsInBothOrders) {
  struct End {
    const char* name;
    v1::Outcome outcome;  // UNSPECIFIED: the lease expires
    v1::FailureKind failure;
    v1::TrialState attempt;
    v1::TrialState trial;
  };
  const auto none = v1::FAILURE_KIND_UNSPECIFIED;
  const std::vector<End> ends = {
      {"memory", v1::OUTCOME_OUT_OF_MEMORY, none, v1::TRIAL_STATE_INFEASIBLE, v1::TRIAL_STATE_INFEASIBLE},
      {"own", v1::OUTCOME_FAILED, v1::FAILURE_KIND_OWN, v1::TRIAL_STATE_FAILED, v1::TRIAL_STATE_FAILED},
      {"time", v1::OUTCOME_TIMED_OUT, none, v1::TRIAL_STATE_TIMED_OUT, v1::TRIAL_STATE_TIMED_OUT},
      {"process", v1::OUTCOME_FAILED, v1::FAILURE_KIND_PROCESS, v1::TRIAL_STATE_FAILED,
       v1::TRIAL_STATE_FAILED},
      {"refused", v1::OUTCOME_REFUSED, none, v1::TRIAL_STATE_LOST, v1::TRIAL_STATE_LOST},
      {"lost", v1::OUTCOME_UNSPECIFIED, none, v1::TRIAL_STATE_LOST, v1::TRIAL_STATE_LOST},
      {"cancelled", v1::OUTCOME_CANCELLED, none, v1::TRIAL_STATE_CANCELLED, v1::TRIAL_STATE_LOST},
      {"peer", v1::OUTCOME_FAILED, v1::FAILURE_KIND_PEER, v1::TRIAL_STATE_FAILED, v1::TRIAL_STATE_FAILED},
      {"measured", v1::OUTCOME_MEASURED, none, v1::TRIAL_STATE_MEASURED, v1::TRIAL_STATE_MEASURED}};
  const std::size_t unasked = 6;
  const std::size_t measured = 8;
  Start({1, 1});
  ASSERT_TRUE(store_->CancelJobs(id_).ok());
  for (const std::size_t share : {0u, 1u}) ASSERT_TRUE(Send(share, v1::OUTCOME_CANCELLED).ok());
  std::int64_t number = 1;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (std::size_t j = 0; j < ends.size(); ++j) {
      for (const std::size_t first : {0u, 1u}) {
        const std::size_t by_share[] = {i, j};
        SCOPED_TRACE(fmt::format("{} and {}, {} first", ends[i].name, ends[j].name, first));
        ++number;
        Enqueue(id_, fmt::format("mbs={}", number), 0, 2, /*max_attempts=*/1);
        Again();
        for (const std::size_t share : {first, 1 - first}) {
          const End& end = ends[by_share[share]];
          if (end.outcome == v1::OUTCOME_UNSPECIFIED) {
            if (share == first) Renew(gang_[1 - first], 1000);
            EXPECT_EQ(store_->ExpireLeases(share == first ? 500 : 2000)->size(), 1u);
          } else {
            ASSERT_TRUE(Send(share, end.outcome, end.name, end.failure).ok());
          }
          if (share != first) break;
          EXPECT_EQ(Trial(id_, number).state(), v1::TRIAL_STATE_RUNNING);
          const bool breaks = end.outcome != v1::OUTCOME_MEASURED;
          EXPECT_EQ(Renew(gang_[1 - first], 1000),
                    breaks ? v1::LEASE_COMMAND_CANCEL : v1::LEASE_COMMAND_CONTINUE);
        }
        // A share that was told to stop, and stops, does not decide.
        std::size_t order[] = {i, j};
        if (order[1 - first] == unasked && order[first] != measured) order[1 - first] = measured;
        const End& decisive = ends[std::min(order[0], order[1])];
        const v1::Trial trial = Trial(id_, number);
        EXPECT_EQ(trial.state(), decisive.trial);
        ASSERT_EQ(trial.attempts_size(), 1);
        EXPECT_EQ(trial.attempts(0).state(), decisive.attempt);
        EXPECT_EQ(trial.has_measured(), decisive.attempt == v1::TRIAL_STATE_MEASURED);
        if (decisive.outcome != v1::OUTCOME_UNSPECIFIED && decisive.outcome != v1::OUTCOME_MEASURED) {
          // If both end the same way, the first rank's message is kept.
          EXPECT_EQ(trial.attempts(0).message(),
                    fmt::format("workers/{}: {}", order[0] <= order[1] ? 'a' : 'b', decisive.name));
        }
        if (trial.state() == v1::TRIAL_STATE_QUEUED) {
          ASSERT_TRUE(store_->CancelJobs(id_).ok());
        }
      }
    }
  }
}

TEST_P(StoreGangSuite, MeasurementMergesAllShares) {
  steps_ = 7;
  Start({3, 1});
  const std::vector<double> steps[] = {{0.5, 0.9, 0.4, 0.7, 0.6, 0.8, 0.3},
                                       {0.6, 0.2, 0.5, 0.1, 0.9, 0.7, 0.4}};
  v1::ReportTrialRequest reports[] = {ReportOf(gang_[0], v1::OUTCOME_MEASURED),
                                      ReportOf(gang_[1], v1::OUTCOME_MEASURED)};
  for (int i = 0; i < 2; ++i) {
    v1::Measurement& m = *reports[i].mutable_measurement();
    m.mutable_step_time_s()->Assign(steps[i].begin(), steps[i].end());
    m.set_median_step_time_s(99);
    m.set_ci95_s(99);
    m.set_planned_memory_bytes(i == 0 ? 100 : 200);
    m.set_peak_memory_bytes(i == 0 ? 400 : 300);
    m.set_device_overhead_bytes(i == 0 ? 7 : 9);
    m.set_first_loss(i == 0 ? 5 : 0);
    m.set_last_loss(i == 0 ? 4 : 0);
    m.set_build_id("build");
    m.set_device_fingerprint(i == 0 ? "this cpu" : "that cpu");
    m.set_ranks_per_core(i == 0 ? 1 : 2);
    m.set_device_s(i == 0 ? 30 : 10);
  }
  ASSERT_TRUE(store_->Report(reports[1], 205).ok());
  ASSERT_TRUE(store_->Report(reports[0], 206).ok());
  const v1::Measurement merged = Trial(id_, 1).measured();
  const std::vector<double> slowest = {0.6, 0.9, 0.5, 0.7, 0.9, 0.8, 0.4};
  EXPECT_THAT(merged.step_time_s(), testing::ElementsAreArray(slowest));
  EXPECT_EQ(merged.median_step_time_s(), 0.7);
  EXPECT_EQ(merged.ci95_s(), *base::MedianCi95(slowest));
  EXPECT_EQ(merged.planned_memory_bytes(), 200);
  EXPECT_EQ(merged.peak_memory_bytes(), 400);
  EXPECT_EQ(merged.device_overhead_bytes(), 9);
  EXPECT_EQ(merged.first_loss(), 5);
  EXPECT_EQ(merged.last_loss(), 4);
  EXPECT_EQ(merged.build_id(), "build");
  EXPECT_EQ(merged.device_fingerprint(), "this cpu + that cpu");
  EXPECT_EQ(merged.ranks_per_core(), 2);
  EXPECT_EQ(merged.device_s(), 40);
  EXPECT_FALSE(merged.slice());
  EXPECT_EQ(store_->Usage(id_)->device_s, 40);
}

TEST_P(StoreGangSuite, ShareWithOtherStepsIsInvalidAndCorrectable) {
  Start({1, 1});
  ASSERT_TRUE(Send(0, v1::OUTCOME_MEASURED).ok());
  EXPECT_TRUE(store_->FindShare(gang_[1].lease_id, gang_[1].fencing_token)->others_ended);
  v1::ReportTrialRequest longer = ReportOf(gang_[1], v1::OUTCOME_MEASURED);
  longer.mutable_measurement()->add_step_time_s(0.5);
  EXPECT_EQ(store_->Report(longer, 206).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Held(gang_[1]));
  ASSERT_TRUE(Send(1, v1::OUTCOME_MEASURED).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_MEASURED);
}

TEST_P(StoreGangSuite, LastGatheringIsKeptUntilTheAttemptEnds) {
  Start({2, 1}, /*max_attempts=*/2);
  const auto share = [&] { return *store_->FindShare(gang_[0].lease_id, gang_[0].fencing_token); };
  EXPECT_FALSE(store_->FindGathering(share())->has_value());
  ASSERT_TRUE(
      store_->KeepGathering(share(), {"addresses", 3, {{0, {"a", ""}}, {2, {std::string("\0\xff", 2)}}}})
          .ok());
  ASSERT_TRUE(store_->KeepGathering(share(), {"end", 4, {{0, {"", ""}}, {2, {"z"}}}}).ok());
  const auto kept = *store_->FindGathering(share());
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->name, "end");
  EXPECT_EQ(kept->sequence, 4);
  EXPECT_EQ(kept->values, (std::map<std::int32_t, std::vector<std::string>>{{0, {"", ""}}, {2, {"z"}}}));

  const ShareOfAttempt before = share();
  ASSERT_TRUE(Send(0, v1::OUTCOME_FAILED, "killed", v1::FAILURE_KIND_PROCESS).ok());
  EXPECT_TRUE(store_->FindGathering(before)->has_value()) << "the other share runs";
  ASSERT_TRUE(Send(1, v1::OUTCOME_CANCELLED, "as told").ok());
  EXPECT_FALSE(store_->FindGathering(before)->has_value());
  ASSERT_TRUE(store_->KeepGathering(before, {"late", 5, {{0, {"", ""}}, {2, {"z"}}}}).ok());
  EXPECT_FALSE(store_->FindGathering(before)->has_value()) << "the attempt has ended";
  Again(210);
  EXPECT_FALSE(store_->FindGathering(share())->has_value()) << "of another attempt";
}

TEST_P(StoreGangSuite, CalibrationsAreMergedOpByOp) {
  const std::int64_t id = NewRunning();
  v1::OpDesc matmul;
  matmul.set_kind("matmul");
  v1::OpDesc reduce;
  reduce.set_kind("all_reduce_sum");
  v1::Job job = CalibrateJob();
  job.set_ranks(4);
  job.mutable_calibrate()->clear_ops();
  for (const v1::OpDesc& op : {matmul, reduce}) *job.mutable_calibrate()->add_ops() = op;
  ASSERT_TRUE(store_->EnqueueCalibration(id, job, 2, {}).ok());
  gang_ = GiveOut({Join("a", 3), Join("b", 1)}).leases;
  ASSERT_EQ(gang_.size(), 2u);
  const auto send = [&](std::size_t share, double computing, double communicating, std::int64_t overhead) {
    v1::ReportTrialRequest report = ReportOf(gang_[share], v1::OUTCOME_MEASURED);
    report.clear_measurement();
    v1::CalibrateResult& result = *report.mutable_calibration();
    for (const auto& [op, seconds] : {std::pair(reduce, communicating), std::pair(matmul, computing)}) {
      *result.add_ops()->mutable_op() = op;
      result.mutable_ops(result.ops_size() - 1)->set_seconds(seconds);
    }
    result.set_device_overhead_bytes(overhead);
    return store_->Report(report, 205);
  };
  ASSERT_TRUE(send(1, 8, 0.25, 4096).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_RUNNING);
  EXPECT_FALSE(store_->GetCalibration(id)->has_value());
  ASSERT_TRUE(send(0, 4, 0.5, 1024).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_MEASURED);
  const Store::Calibration kept = **store_->GetCalibration(id);
  EXPECT_EQ(kept.result.device_overhead_bytes(), 4096);
  ASSERT_EQ(kept.result.ops_size(), 2);
  EXPECT_EQ(kept.result.ops(0).op().kind(), "all_reduce_sum");
  EXPECT_EQ(kept.result.ops(0).seconds(), 0.5);
  EXPECT_EQ(kept.result.ops(1).op().kind(), "matmul");
  EXPECT_EQ(kept.result.ops(1).seconds(), 5) << "three ranks at 4, one at 8";
}

TEST_P(StoreGangSuite, LostMemberStopsTheOthersAndCostsOneAttempt) {
  Start({1, 1, 1}, /*max_attempts=*/2);
  int heard = 0;
  store_->OnChange([&](const StoreChange&) { ++heard; });
  EXPECT_EQ(store_->LoseGangShares({"workers/b", workers_[1].epoch + 1}, "gone", 201)->size(), 0u);
  EXPECT_EQ(store_->LoseGangShares(workers_[1], "its connection broke", 201)->size(), 1u);
  EXPECT_EQ(heard, 1) << "who waits to renew hears of it";
  EXPECT_EQ(store_->LoseGangShares(workers_[1], "its connection broke", 201)->size(), 0u);
  EXPECT_EQ(*store_->LeasesToStop(), Ids({0, 2}));
  EXPECT_EQ(Renew(gang_[0]), v1::LEASE_COMMAND_CANCEL);
  EXPECT_TRUE(store_->FindShare(gang_[2].lease_id, gang_[2].fencing_token)->stopping);
  EXPECT_FALSE(Held(gang_[1]));
  EXPECT_EQ(State(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(GiveOut(workers_).leases.empty()) << "not before all have stopped";
  ASSERT_TRUE(Send(0, v1::OUTCOME_CANCELLED, "as told").ok());
  EXPECT_EQ(*store_->LeasesToStop(), Ids({2}));
  // The late report of the lost share is rejected and recorded.
  EXPECT_EQ(Send(1, v1::OUTCOME_MEASURED).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Rejected(), 1);
  ASSERT_TRUE(Send(2, v1::OUTCOME_FAILED, "peer", v1::FAILURE_KIND_PEER).ok());
  EXPECT_TRUE(store_->LeasesToStop()->empty());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id_, 1).message(), "workers/b: its connection broke");
  EXPECT_EQ(Trial(id_, 1).attempts(0).state(), v1::TRIAL_STATE_LOST);
  Again();
  EXPECT_EQ(gang_[0].attempt, 2);
  EXPECT_EQ(store_->ExpireLeases(400)->size(), 3u);
  EXPECT_EQ(State(), v1::TRIAL_STATE_LOST);
}

TEST_P(StoreGangSuite, ExpiredLeaseStopsTheOthers) {
  Start({2, 2});
  EXPECT_EQ(Renew(gang_[0], 215), v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(store_->ExpireLeases(212)->size(), 1u);
  EXPECT_EQ(*store_->LeasesToStop(), Ids({0}));
  EXPECT_EQ(Renew(gang_[0], 216), v1::LEASE_COMMAND_CANCEL);
  // A complete measurement of one share does not complete the attempt.
  ASSERT_TRUE(Send(0, v1::OUTCOME_MEASURED).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED);
  EXPECT_FALSE(Trial(id_, 1).has_measured());
}

// A worker that keeps renewing, and neither stops nor reports, loses the lease that it was told to stop.
TEST_P(StoreGangSuite, CancelledLeaseIsNotProlonged) {
  Start({1, 1});
  EXPECT_EQ(Renew(gang_[0], 203), v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(store_->LoseGangShares(workers_[1], "its connection broke", 204)->size(), 1u);
  for (const double now : {205.0, 208.0, 212.0}) EXPECT_EQ(Renew(gang_[0], now), v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(store_->ExpireLeases(212)->size(), 0u) << "it was renewed at 203";
  EXPECT_EQ(store_->ExpireLeases(213)->size(), 1u);
  EXPECT_FALSE(Held(gang_[0]));
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED);
  Again(214);
  ASSERT_TRUE(store_->CancelJobs(id_).ok());
  for (const std::size_t share : {0u, 1u}) EXPECT_EQ(Renew(gang_[share], 223), v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(store_->ExpireLeases(224)->size(), 2u);
}

// If the ranks of a job fail only because of each other, as over a broken link, the failures use up its
// attempts.
TEST_P(StoreGangSuite, CommandedStopIsNotTheCauseOfAPeersFailure) {
  Start({1, 1}, /*max_attempts=*/2);
  for (const v1::TrialState state : {v1::TRIAL_STATE_QUEUED, v1::TRIAL_STATE_FAILED}) {
    ASSERT_TRUE(Send(0, v1::OUTCOME_FAILED, "peer", v1::FAILURE_KIND_PEER).ok());
    EXPECT_EQ(Renew(gang_[1], 206), v1::LEASE_COMMAND_CANCEL);
    ASSERT_TRUE(Send(1, v1::OUTCOME_CANCELLED, "as told").ok());
    EXPECT_EQ(State(), state);
    EXPECT_EQ(Trial(id_, 1).message(), "workers/a: peer");
    if (state == v1::TRIAL_STATE_QUEUED) Again();
  }
}

TEST_P(StoreGangSuite, ReturnedShareIsTheCauseOfAPeersFailure) {
  Start({1, 1}, /*max_attempts=*/1);
  ASSERT_TRUE(Send(1, v1::OUTCOME_CANCELLED, "stopping").ok());
  ASSERT_TRUE(Send(0, v1::OUTCOME_FAILED, "peer", v1::FAILURE_KIND_PEER).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(Trial(id_, 1).attempts(0).message(), "workers/b: stopping");
}

TEST_P(StoreGangSuite, NewBootOfAMemberStopsTheOthers) {
  Start({1, 1});
  Join("b", 1, "cpu", "", "boot2");
  EXPECT_EQ(*store_->LeasesToStop(), Ids({0}));
  ASSERT_TRUE(Send(0, v1::OUTCOME_CANCELLED).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED);
}

TEST_P(StoreGangSuite, OnlyGangsAreLostWithAConnection) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "mbs=1");
  const WorkerSession a = Join("a", 2);
  const Lease alone = GiveOut({a}).leases.at(0);
  EXPECT_EQ(store_->LoseGangShares(a, "its connection broke", 201)->size(), 0u);
  EXPECT_EQ(Renew(alone), v1::LEASE_COMMAND_CONTINUE);
}

TEST_P(StoreGangSuite, UndeliveredLeaseCostsTheGangNoAttempt) {
  Start({1, 1}, /*max_attempts=*/1);
  ASSERT_TRUE(store_->ReturnLease(gang_[1].lease_id, gang_[1].fencing_token, 201).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(*store_->LeasesToStop(), Ids({0}));
  ASSERT_TRUE(Send(0, v1::OUTCOME_FAILED, "peer", v1::FAILURE_KIND_PEER).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED) << "the peer's end is why, and it counts for nothing";
  Again();
  ASSERT_TRUE(store_->KeepOnly(workers_[0], {}, 202).ok());
  ASSERT_TRUE(Send(1, v1::OUTCOME_CANCELLED).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED);
  Again();
  ASSERT_TRUE(store_->DeregisterWorker("workers/a", workers_[0].epoch, 203).ok());
  ASSERT_TRUE(Send(1, v1::OUTCOME_FAILED, "peer", v1::FAILURE_KIND_PEER).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED) << "nor does a worker that stops in order";
}

TEST_P(StoreGangSuite, ForeignAndDuplicateShareReportsAreRejected) {
  Start({1, 1});
  std::vector<v1::ReportTrialRequest> wrong(4, ReportOf(gang_[0], v1::OUTCOME_MEASURED));
  wrong[0].set_worker(gang_[1].session.worker);
  wrong[1].set_fencing_token(gang_[1].fencing_token);
  wrong[2].set_lease_id(gang_[1].lease_id);
  wrong[3].set_attempt(2);
  int n = 0;
  for (v1::ReportTrialRequest& report : wrong) {
    report.set_request_id(fmt::format("wrong{}", ++n));
    EXPECT_EQ(store_->Report(report, 201).code(), absl::StatusCode::kFailedPrecondition) << n;
  }
  EXPECT_TRUE(Held(gang_[0]) && Held(gang_[1]));
  ASSERT_TRUE(Send(0, v1::OUTCOME_MEASURED).ok());
  EXPECT_TRUE(Send(0, v1::OUTCOME_MEASURED).ok()) << "the same request";
  v1::ReportTrialRequest second = ReportOf(gang_[0], v1::OUTCOME_FAILED, "forged");
  second.set_request_id("second");
  EXPECT_EQ(store_->Report(second, 202).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Rejected(), 5);
  ASSERT_TRUE(Send(1, v1::OUTCOME_MEASURED).ok());
  EXPECT_TRUE(Send(0, v1::OUTCOME_MEASURED).ok()) << "the same request, after the attempt's end";
  EXPECT_EQ(State(), v1::TRIAL_STATE_MEASURED);
}

TEST_P(StoreGangSuite, CancellingStopsAllShares) {
  Start({1, 1});
  ASSERT_TRUE(store_->CancelJobs(id_).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(*store_->LeasesToStop(), Ids({0, 1}));
  ASSERT_TRUE(Send(0, v1::OUTCOME_CANCELLED).ok());
  ASSERT_TRUE(Send(1, v1::OUTCOME_MEASURED).ok());
  EXPECT_TRUE(store_->LeasesToStop()->empty());
  EXPECT_EQ(State(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_TRUE(GiveOut(workers_).leases.empty());
}

TEST_P(StoreGangSuite, RetryStopsTheOldAttempt) {
  Start({1, 1});
  const std::vector<Lease> old = gang_;
  ASSERT_TRUE(store_->CancelJobs(id_).ok());
  ASSERT_TRUE(store_->RetryTrial(id_, 1, "again").ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_QUEUED);
  workers_ = {Join("c", 1), Join("d", 1)};
  Again();
  EXPECT_EQ(gang_[0].attempt, 2);
  EXPECT_EQ(Renew(old[0]), v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(Renew(gang_[0]), v1::LEASE_COMMAND_CONTINUE);
  // The result of the old attempt does not affect the new one.
  ASSERT_TRUE(store_->Report(ReportOf(old[0], v1::OUTCOME_MEASURED), 203).ok());
  ASSERT_TRUE(store_->Report(ReportOf(old[1], v1::OUTCOME_MEASURED), 203).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_RUNNING);
  ASSERT_TRUE(Send(0, v1::OUTCOME_MEASURED).ok());
  ASSERT_TRUE(Send(1, v1::OUTCOME_MEASURED).ok());
  EXPECT_EQ(State(), v1::TRIAL_STATE_MEASURED);
}

}  // namespace autocfg::server
