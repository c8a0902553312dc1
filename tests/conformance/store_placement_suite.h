// Part of the contract of Store: which workers a queued job goes to.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_P(StoreSuite, JobTooLargeForOneWorkerIsSharedByTwo) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=4", 0, 4);
  const WorkerSession b = Join("b", 2), a = Join("a", 2);
  EXPECT_THAT(Waits({b, a}), IsEmpty());
  const Assignment gang = GiveOut({b, a});
  ASSERT_THAT(Shares(gang), ElementsAre("a:2", "b:2"));
  for (std::size_t i = 0; i < 2; ++i) {
    const Lease& lease = gang.leases[i];
    EXPECT_EQ(lease.first_rank, static_cast<int>(2 * i));
    EXPECT_EQ(lease.workers, 2);
    EXPECT_EQ(lease.attempt, 1);
    EXPECT_EQ(lease.job.ranks(), 4);
    EXPECT_EQ(lease.job.name(), TrialName(id, 1));
    EXPECT_EQ(lease.expires_s, 210);
    const auto share = store_->FindShare(lease.lease_id, lease.fencing_token);
    ASSERT_TRUE(share.ok()) << share.status();
    EXPECT_EQ(share->first_rank, lease.first_rank);
    EXPECT_EQ(share->ranks, 2);
    EXPECT_EQ(share->job_ranks, 4);
    EXPECT_EQ(share->attempt, 1);
    EXPECT_FALSE(share->stopping);
    EXPECT_FALSE(share->others_ended);
    EXPECT_EQ(store_->FindShare(lease.lease_id, lease.fencing_token + 9).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_NE(gang.leases[0].lease_id, gang.leases[1].lease_id);
  EXPECT_NE(gang.leases[0].fencing_token, gang.leases[1].fencing_token);
  EXPECT_EQ(store_->FindShare(gang.leases[0].lease_id, gang.leases[0].fencing_token)->job,
            store_->FindShare(gang.leases[1].lease_id, gang.leases[1].fencing_token)->job);
  const v1::Trial trial = Trial(id, 1);
  EXPECT_EQ(trial.state(), v1::TRIAL_STATE_RUNNING);
  ASSERT_EQ(trial.attempts_size(), 1);
  EXPECT_EQ(trial.attempts(0).worker(), "workers/a");
  EXPECT_THAT(trial.attempts(0).workers(), ElementsAre("workers/a", "workers/b"));
}

// A worker that registers anew without an engine does not offer it any more.
TEST_P(StoreSuite, JobOfAnEngineGoesToAWorkerThatOffersIt) {
  const std::int64_t id = NewRunning();
  v1::Job job = TrainJob(1);
  job.set_engine("megatron");
  EnqueueJob(id, "tp=1", job);
  const WorkerSession plain = Join("plain", 4);
  EXPECT_THAT(GiveOut({plain}).leases, IsEmpty());
  EXPECT_THAT(Waits({plain}), ElementsAre(HasSubstr("no running cpu worker offers engine megatron")));
  v1::RegisterWorkerRequest request;
  request.set_worker("workers/offering");
  request.set_boot_id("boot1");
  request.mutable_inventory()->set_slots(1);
  for (const char* engine : {"nemo", "megatron"})
    request.mutable_inventory()->add_engines()->set_name(engine);
  const auto epoch = store_->RegisterWorker(request, 100);
  ASSERT_TRUE(epoch.ok()) << epoch.status();
  request.mutable_inventory()->clear_engines();
  request.set_boot_id("boot2");
  const auto without = store_->RegisterWorker(request, 101);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(GiveOut({plain, {request.worker(), *without}}).leases, IsEmpty());
  request.mutable_inventory()->add_engines()->set_name("megatron");
  request.set_boot_id("boot3");
  const auto again = store_->RegisterWorker(request, 102);
  ASSERT_TRUE(again.ok()) << again.status();
  const Assignment assignment = GiveOut({plain, {request.worker(), *again}});
  ASSERT_THAT(Shares(assignment), ElementsAre("offering:1"));
  const Lease& lease = assignment.leases.front();
  EXPECT_EQ(lease.job.engine(), "megatron");
  // Its log tells of no step: the trial fails, and says what to look at.
  v1::ReportTrialRequest report = Measured(lease, *again, "r1", request.worker());
  report.mutable_measurement()->clear_step_time_s();
  report.mutable_measurement()->set_engine("megatron");
  ASSERT_TRUE(store_->Report(report, 300).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_FAILED);
  EXPECT_THAT(Trial(id, 1).message(), HasSubstr("no worker's log of engine megatron tells of a timed step"));
}

TEST_P(StoreSuite, EightWorkersOfOneSlotShareAJobOfEight) {
  Enqueue(NewRunning(), "tp=8", 0, 8);
  std::vector<WorkerSession> workers;
  for (int w = 0; w < 8; ++w) workers.push_back(Join(fmt::format("w{}", w), 1));
  const Assignment gang = GiveOut(workers);
  ASSERT_EQ(gang.leases.size(), 8u);
  std::set<std::int64_t> tokens;
  for (int rank = 0; rank < 8; ++rank) {
    const Lease& lease = gang.leases[static_cast<std::size_t>(rank)];
    EXPECT_EQ(lease.first_rank, rank);
    EXPECT_EQ(lease.ranks, 1);
    EXPECT_EQ(lease.workers, 8);
    tokens.insert(lease.fencing_token);
  }
  EXPECT_EQ(tokens.size(), 8u);
}

TEST_P(StoreSuite, JobIsLeasedWholeOrNotAtAll) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=4", 0, 4);
  const WorkerSession a = Join("a", 2);
  const WorkerSession b = Join("b", 1);
  Assignment given = GiveOut({a, b});
  EXPECT_THAT(Shares(given), IsEmpty());
  EXPECT_FALSE(given.waits) << "no worker is kept for what cannot run";
  EXPECT_THAT(Waits({a, b}), ElementsAre(fmt::format(
                                 "{}: its next job needs 4 slots of cpu workers, but those that take jobs "
                                 "have 3; start more workers",
                                 id)));
  const WorkerSession c = Join("c", 2);
  given = GiveOut({a}, {b, c});
  EXPECT_THAT(Shares(given), IsEmpty());
  ASSERT_TRUE(given.waits);
  EXPECT_EQ(given.waits->job, (JobKey{id, 1}));
  EXPECT_EQ(given.waits->until_s, 210) << "nothing runs: a lease duration";
  EXPECT_THAT(
      Waits({a}, {b, c}),
      ElementsAre(fmt::format("{}: its next job needs 4 slots of cpu workers; 5 are free; it waits until "
                              "they are offered",
                              id)));
  EXPECT_EQ(Trial(id, 1).attempts_size(), 0);
  EXPECT_THAT(Shares(GiveOut({a, c}, {b})), ElementsAre("a:2", "c:2"));
}

TEST_P(StoreSuite, BestFittingWorkerIsPreferred) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 8);
  const WorkerSession b = Join("b", 4);
  const WorkerSession c = Join("c", 6);
  const WorkerSession d = Join("d", 2);
  Enqueue(id, "tp=4", 0, 4);
  EXPECT_THAT(Shares(GiveOut({d, a, c, b})), ElementsAre("b:4"));
  // Free slots count, not all slots: worker a has five left.
  Enqueue(id, "tp=3", 0, 3);
  EXPECT_THAT(Shares(GiveOut({a}, {b, c, d})), ElementsAre("a:3"));
  Enqueue(id, "mbs=4", 0, 4);
  EXPECT_THAT(Shares(GiveOut({a, c, d}, {b})), ElementsAre("a:4"));
}

TEST_P(StoreSuite, GangUsesAsFewWorkersAsPossible) {
  Enqueue(NewRunning(), "tp=5", 0, 5);
  EXPECT_THAT(Shares(GiveOut({Join("a", 1), Join("b", 2), Join("c", 3), Join("d", 1)})),
              ElementsAre("c:3", "b:2"));
}

TEST_P(StoreSuite, SmallJobsShareAWorker) {
  const std::int64_t id = NewRunning();
  const int ranks[] = {1, 2, 1, 1};
  for (int i = 0; i < 4; ++i) Enqueue(id, fmt::format("mbs={}", i + 1), 0, ranks[i]);
  const WorkerSession a = Join("a", 4);
  std::vector<Lease> held;
  for (int i = 0; i < 3; ++i) {
    const Assignment given = GiveOut({a});
    ASSERT_EQ(given.leases.size(), 1u) << "one at a time";
    EXPECT_EQ(given.leases[0].key.trial, i + 1);
    EXPECT_EQ(given.leases[0].ranks, ranks[i]);
    held.push_back(given.leases[0]);
  }
  EXPECT_THAT(Shares(GiveOut({a})), IsEmpty());
  ASSERT_TRUE(store_->Report(ReportOf(held[0], v1::OUTCOME_MEASURED), 201).ok());
  EXPECT_THAT(Shares(GiveOut({a})), ElementsAre("a:1"));
  EXPECT_TRUE(Held(held[1]) && Held(held[2]));
}

TEST_P(StoreSuite, EachWaitingWorkerGetsOneLeaseOldestJobFirst) {
  const std::int64_t id = NewRunning();
  for (int i = 0; i < 5; ++i) Enqueue(id, fmt::format("mbs={}", i + 1));
  const WorkerSession a = Join("a", 4);
  const WorkerSession b = Join("b", 2);
  const Assignment given = GiveOut({a, b, a});
  EXPECT_THAT(Shares(given), ElementsAre("b:1", "a:1"));
  EXPECT_EQ(given.leases[0].key.trial, 1);
  EXPECT_EQ(given.leases[1].key.trial, 2);
}

TEST_P(StoreSuite, JobThatFitsIdleWorkersIsNotOvertaken) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 4);
  const WorkerSession b = Join("b", 2);
  Enqueue(id, "mbs=1", 0, 2);
  const Lease running = GiveOut({a}).leases.at(0);
  Enqueue(id, "tp=4", 0, 4);
  Enqueue(id, "mbs=2");
  EXPECT_THAT(Shares(GiveOut({a}, {b})), IsEmpty()) << "the job of four comes first";
  EXPECT_THAT(Shares(GiveOut({b}, {a})), IsEmpty()) << "it starts on both, once they are offered";
  ASSERT_TRUE(store_->Report(ReportOf(running, v1::OUTCOME_MEASURED), 201).ok());
  const WorkerSession small = Join("c", 1);
  const Assignment next = GiveOut({a, b, small});
  ASSERT_THAT(Shares(next), ElementsAre("a:4", "c:1"));
  EXPECT_EQ(next.leases[0].key.trial, 2);
  EXPECT_EQ(next.leases[1].key.trial, 3);
  // A job too large even for all idle workers does not block later jobs.
  Enqueue(id, "tp=64", 0, 64);
  Enqueue(id, "mbs=3");
  const Assignment past = GiveOut({b}, {a, small});
  ASSERT_THAT(Shares(past), ElementsAre("b:1"));
  EXPECT_EQ(past.leases[0].key.trial, 5);
  EXPECT_THAT(Waits({b}, {a, small}), ElementsAre(HasSubstr("64 slots")));
}

TEST_P(StoreSuite, WaitingJobBlocksOnlyUsableWorkers) {
  const std::int64_t id = NewRunning();
  v1::Job cuda = TrainJob(4);
  cuda.set_device("cuda");
  EnqueueJob(id, "tp=4", cuda);
  Enqueue(id, "mbs=1");
  const WorkerSession gpus = Join("gpus", 2, "cuda");
  const WorkerSession more = Join("more", 2, "cuda");
  const WorkerSession cores = Join("cores", 2);
  EXPECT_THAT(Shares(GiveOut({gpus, cores}, {more})), ElementsAre("cores:1"));
}

TEST_P(StoreSuite, JobsGoToWorkersOfTheirDeviceKind) {
  const std::int64_t id = NewRunning();
  const WorkerSession cores = Join("cores", 8);
  const WorkerSession gpus = Join("gpus", 8, "cuda");
  v1::Job job = TrainJob(1);
  job.set_device("cuda");
  EnqueueJob(id, "mbs=1", job);
  EXPECT_THAT(Shares(GiveOut({cores})), IsEmpty());
  EXPECT_THAT(Waits({cores}), ElementsAre(HasSubstr("no cuda worker is running")));
  EXPECT_THAT(Shares(GiveOut({cores, gpus})), ElementsAre("gpus:1"));
  job.set_device("cpu");
  EnqueueJob(id, "mbs=2", job);
  EXPECT_THAT(Shares(GiveOut({gpus})), IsEmpty());
  EXPECT_THAT(Shares(GiveOut({gpus, cores})), ElementsAre("cores:1"));
  job.set_device("paced");
  EnqueueJob(id, "mbs=4", job);
  EnqueueJob(id, "mbs=8", job);
  EXPECT_THAT(Shares(GiveOut({gpus})), ElementsAre("gpus:1"));
  EXPECT_THAT(Shares(GiveOut({cores})), ElementsAre("cores:1"));
  // Slots of another kind do not complete a gang; a paced gang takes any kind.
  job.set_device("cpu");
  job.set_ranks(12);
  EnqueueJob(id, "tp=12", job);
  EXPECT_THAT(Shares(GiveOut({cores, gpus})), IsEmpty());
  EXPECT_EQ(Waits({cores, gpus}).size(), 1u);
  job.set_device("paced");
  EnqueueJob(id, "pp=12", job);
  EXPECT_THAT(Shares(GiveOut({cores, gpus})), ElementsAre("cores:6", "gpus:6"));
}

TEST_P(StoreSuite, WorkerWithoutDeviceKindIsACpuWorker) {
  const std::int64_t id = NewRunning();
  const WorkerSession unnamed = Join("unnamed", 2, "");
  v1::Job job = TrainJob(1);
  job.set_device("cuda");
  EnqueueJob(id, "mbs=1", job);
  EXPECT_THAT(Shares(GiveOut({unnamed})), IsEmpty());
  job.set_device("cpu");
  EnqueueJob(id, "mbs=2", job);
  EXPECT_THAT(Shares(GiveOut({unnamed})), ElementsAre("unnamed:1"));
}

TEST_P(StoreSuite, JobOfFewerRanksRunsOnASmallerWorkerAndIsNotShared) {
  const std::int64_t id = NewRunning();
  v1::Job job = TrainJob(8);
  job.set_fewer_ranks(true);
  const WorkerSession a = Join("a", 2);
  const WorkerSession b = Join("b", 4);
  const WorkerSession c = Join("c", 6);
  Enqueue(id, "mbs=1");
  ASSERT_THAT(Shares(GiveOut({c})), ElementsAre("c:1"));
  for (int i = 1; i <= 3; ++i) EnqueueJob(id, fmt::format("pp={}", i), job);
  Assignment given = GiveOut({c}, {a, b});
  EXPECT_THAT(Shares(given), IsEmpty()) << "it is not idle";
  EXPECT_TRUE(given.waits);
  EXPECT_THAT(Waits({c}, {a, b}), IsEmpty()) << "a job of the study is running";
  given = GiveOut({a, b, c});
  ASSERT_THAT(Shares(given), ElementsAre("b:4", "a:2"));
  EXPECT_EQ(given.leases[0].workers, 1);
  EXPECT_EQ(given.leases[0].job.ranks(), 4);
  EXPECT_TRUE(given.leases[0].job.fewer_ranks());
  EXPECT_EQ(store_->FindShare(given.leases[0].lease_id, given.leases[0].fencing_token)->job_ranks, 4);
  // A worker with enough slots for the whole job need not be idle.
  const WorkerSession d = Join("d", 10);
  Enqueue(id, "mbs=2");
  EXPECT_THAT(Shares(GiveOut({d}, {a, b, c})), ElementsAre("d:8"));
}

TEST_P(StoreSuite, RetryAvoidsTheFailedHostIfPossible) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 2, "cpu", "one");
  const WorkerSession b = Join("b", 2, "cpu", "one");
  const WorkerSession c = Join("c", 2, "cpu", "two");
  Enqueue(id, "tp=2", 0, 2, /*max_attempts=*/10);
  double now = 200;
  const auto lose = [&](const WorkerSession& session) {
    const Assignment given = GiveOut({session}, {}, now);  // only one worker asks: not avoided
    ASSERT_EQ(given.leases.size(), 1u) << session.worker;
    now += 20;
    EXPECT_EQ(store_->ExpireLeases(now)->size(), 1u);
  };
  lose(a);
  EXPECT_THAT(Shares(GiveOut({a, b}, {c}, now)), IsEmpty()) << "both are on the host of the lost attempt";
  Enqueue(id, "mbs=1");
  const Assignment later = GiveOut({a}, {b, c}, now);
  ASSERT_EQ(later.leases.size(), 1u) << "others' work is not held up on a worker that is avoided";
  EXPECT_EQ(later.leases[0].key.trial, 2);
  ASSERT_TRUE(store_->Report(ReportOf(later.leases[0], v1::OUTCOME_MEASURED), now).ok());
  Assignment given = GiveOut({a, b, c}, {}, now);
  ASSERT_THAT(Shares(given), ElementsAre("c:2"));
  ASSERT_TRUE(store_->Report(ReportOf(given.leases[0], v1::OUTCOME_REFUSED, "busy"), now).ok());
  EXPECT_THAT(Shares(given = GiveOut({a, b, c}, {}, now)), ElementsAre("a:2"))
      << "all hosts have failed once";
  ASSERT_TRUE(
      store_->Report(ReportOf(given.leases[0], v1::OUTCOME_FAILED, "killed", v1::FAILURE_KIND_PROCESS), now)
          .ok());
  const WorkerSession small = Join("small", 1);
  EXPECT_THAT(Shares(GiveOut({a, small}, {}, now)), ElementsAre("a:2")) << "the other has too few slots";
}

TEST_P(StoreSuite, RepetitionAvoidsTheHostsOfTheTrialThatItNames) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 4, "cpu", "one");
  const WorkerSession b = Join("b", 4, "cpu", "two");
  Enqueue(id, "tp=2", 0, 2);
  const Assignment first = GiveOut({a}, {b});
  ASSERT_THAT(Shares(first), ElementsAre("a:2"));
  ASSERT_TRUE(store_->Report(ReportOf(first.leases[0], v1::OUTCOME_MEASURED), 201).ok());
  const auto repeat = [&](std::int64_t number) {
    v1::Trial trial;
    trial.set_plan_text("tp=2");
    trial.set_repeat(number);
    v1::Job job = TrainJob(2);
    job.set_avoids_trial(1);
    ASSERT_TRUE(store_->EnqueueTrial(id, trial, job, 2).ok());
  };
  repeat(1);
  EXPECT_THAT(Shares(GiveOut({a}, {b})), IsEmpty());
  EXPECT_THAT(Shares(GiveOut({a, b})), ElementsAre("b:2"));
  repeat(2);
  EXPECT_THAT(Shares(GiveOut({a})), ElementsAre("a:2")) << "no worker on another host takes part";
}

TEST_P(StoreSuite, GangRetryAvoidsOnlyTheFailedHost) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 1, "cpu", "one");
  const WorkerSession b = Join("b", 1, "cpu", "two");
  const WorkerSession c = Join("c", 1, "cpu", "three");
  Enqueue(id, "tp=2", 0, 2, /*max_attempts=*/10);
  const Assignment gang = GiveOut({a, b});
  ASSERT_EQ(gang.leases.size(), 2u);
  EXPECT_EQ(store_->LoseGangShares(b, "its connection broke", 201)->size(), 1u);
  ASSERT_TRUE(
      store_->Report(ReportOf(gang.leases[0], v1::OUTCOME_FAILED, "peer", v1::FAILURE_KIND_PEER), 202).ok());
  EXPECT_THAT(Shares(GiveOut({a, b, c})), ElementsAre("a:1", "c:1"));
}

TEST_P(StoreSuite, StaleSessionsAreSkipped) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=2", 0, 2);
  const WorkerSession old = Join("a", 1);
  const WorkerSession a = Join("a", 1, "cpu", "", "boot2");
  const WorkerSession b = Join("b", 1);
  EXPECT_THAT(Shares(GiveOut({old, b, {"workers/never", 1}})), IsEmpty());
  EXPECT_THAT(Waits({old, b, {"workers/never", 1}}), ElementsAre(HasSubstr("have 1;")));
  EXPECT_THAT(Shares(GiveOut({old, a, b})), ElementsAre("a:1", "b:1"));
}

TEST_P(StoreSuite, OnlyOldestJobsOfRunningStudiesWait) {
  const std::int64_t paused = NewRunning();
  Enqueue(paused, "tp=64", 0, 64);
  SetState(paused, v1::STUDY_STATE_PAUSED);
  const std::int64_t first = NewRunning();
  const std::int64_t second = NewRunning();
  Enqueue(first, "mbs=1");
  Enqueue(first, "tp=64", 0, 64);
  Enqueue(second, "tp=32", 0, 32);
  const WorkerSession a = Join("a", 4);
  EXPECT_EQ(Waits({}).size(), 2u) << "nobody is at work";
  EXPECT_THAT(Waits({a}), ElementsAre(HasSubstr("32 slots")));
  EXPECT_THAT(Shares(GiveOut({a})), ElementsAre("a:1"));
  EXPECT_THAT(Waits({}, {a}), ElementsAre(HasSubstr("64 slots"), HasSubstr("32 slots")))
      << "now the first study's oldest is too large as well";
}

// Every study that cannot go on says why, in one sentence.
TEST_P(StoreSuite, StudiesThatWaitForBusyWorkersSayForWhat) {
  const std::int64_t running = NewRunning();
  const std::int64_t large = NewRunning();
  const std::int64_t small = NewRunning();
  const std::int64_t other = NewRunning();
  const WorkerSession a = Join("a", 2), b = Join("b", 2), c = Join("c", 1, "cuda");
  Enqueue(running, "mbs=1");
  const Lease lease = GiveOut({a}, {b}).leases.at(0);
  EXPECT_THAT(Waits({}, {a, b, c}), IsEmpty());
  Enqueue(running, "mbs=2");
  Enqueue(large, "tp=4", 0, 4);
  Enqueue(small, "tp=2", 0, 2);
  v1::Job on_gpu = TrainJob(1);
  on_gpu.set_device("cuda");
  EnqueueJob(other, "mbs=1", on_gpu);
  EXPECT_THAT(
      Waits({}, {a, b, c}),
      ElementsAre(
          fmt::format("{}: its next job needs 4 slots of cpu workers; 3 are free; it waits for the "
                      "jobs of {}",
                      large, StudyName(running)),
          fmt::format("{}: its next job waits its turn: a job of {} comes first on the workers for it", small,
                      StudyName(large)),
          fmt::format("{}: its next job needs 1 slot of cuda workers; 1 is free; it waits until "
                      "they are offered",
                      other)));
  EXPECT_THAT(
      Waits({}, {a, b}, /*keeps=*/false),
      ElementsAre(HasSubstr("4 slots"),
                  fmt::format("{}: its next job needs 2 slots of cpu workers; 3 are free; it waits until "
                              "they are offered",
                              small),
                  HasSubstr("no cuda worker")));
  ASSERT_TRUE(store_->Report(ReportOf(lease, v1::OUTCOME_MEASURED), 201).ok());
  EXPECT_THAT(Waits({}, {a, b}), ElementsAre(HasSubstr("comes first"), HasSubstr("4 are free"),
                                             HasSubstr("comes first"), HasSubstr("cuda")));
}

TEST_P(StoreSuite, JobThatWaitsIsPassedIfItKeepsNoWorkers) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 2), b = Join("b", 2);
  v1::Job limited = TrainJob(2);
  limited.set_time_limit_s(40);
  EnqueueJob(id, "mbs=1", limited);
  ASSERT_THAT(Shares(GiveOut({b}, {}, 200)), ElementsAre("b:2"));
  Enqueue(id, "tp=4", 0, 4);
  Enqueue(id, "mbs=2");
  const Assignment kept = GiveOut({a}, {b}, 250);
  EXPECT_THAT(Shares(kept), IsEmpty());
  ASSERT_TRUE(kept.waits);
  EXPECT_EQ(kept.waits->job, (JobKey{id, 2}));
  EXPECT_EQ(kept.waits->until_s, 200 + 40 + 120) << "the running job's limit, and two minutes";
  const Assignment passed = GiveOut({a}, {b}, 250, /*keeps=*/false);
  EXPECT_THAT(Shares(passed), ElementsAre("a:1"));
  EXPECT_EQ(passed.leases.at(0).key.trial, 3);
  ASSERT_TRUE(passed.waits) << "it still waits";
  EXPECT_EQ(passed.waits->job, (JobKey{id, 2}));
  EXPECT_EQ(GiveOut({a}, {b}, 260).waits->until_s, 860) << "a job without a limit counts as ten minutes";
}

}  // namespace autocfg::server
