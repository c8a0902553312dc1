// Part of the contract of Store: whose queued job comes next, and what starts beside one that waits.
#pragma once

#include "server/store/turns/fair_share.h"
#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

class StoreFairnessSuite : public StoreSuite {
 protected:
  std::int64_t RunningOf(const std::string& owner, double weight = 1) {
    v1::Study study;
    study.set_fingerprint("f");
    study.set_owner(owner);
    study.set_weight(weight);
    const auto made = store_->CreateStudy("", study, 100);
    EXPECT_TRUE(made.ok()) << made.status();
    const std::int64_t id = Id(*made);
    SetState(id, v1::STUDY_STATE_RUNNING);
    return id;
  }
  void EnqueueMany(std::int64_t study, int jobs) {
    for (int i = 0; i < jobs; ++i) Enqueue(study, fmt::format("mbs={}", i + 1));
  }
  // The job ends after so many seconds on each of its ranks.
  void End(const Lease& lease, double rank_s, double now) {
    v1::ReportTrialRequest report = ReportOf(lease, v1::OUTCOME_MEASURED);
    report.mutable_measurement()->set_device_s(rank_s);
    const absl::Status status = store_->Report(report, now);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Returns the job that the worker gets.
  Lease Next(const WorkerSession& worker, double now = 200) {
    const Assignment given = GiveOut({worker}, {}, now);
    EXPECT_EQ(given.leases.size(), 1u);
    return given.leases.empty() ? Lease() : given.leases.front();
  }
  v1::Job Limited(int ranks, double limit_s) {
    v1::Job job = TrainJob(ranks);
    job.set_time_limit_s(limit_s);
    return job;
  }
};

TEST_P(StoreFairnessSuite, OwnerOfManyStudiesLeavesTheNextSlotToAnother) {
  for (int i = 0; i < 40; ++i) EnqueueMany(RunningOf("many"), 2);
  const WorkerSession a = Join("a", 3);
  const std::vector<Lease> held = {Next(a), Next(a), Next(a)};
  const std::int64_t other = RunningOf("one");
  EnqueueMany(other, 1);
  EXPECT_THAT(GiveOut({a}).leases, testing::IsEmpty());
  End(held[1], 1, 201);
  EXPECT_EQ(Next(a, 202).key.study, other);
}

// Two workers ask at once: both owners get one.
TEST_P(StoreFairnessSuite, WhatIsGivenOutCountsAtOnce) {
  const std::int64_t first = RunningOf("me"), second = RunningOf("me"), other = RunningOf("you");
  for (const std::int64_t study : {first, second, other}) EnqueueMany(study, 2);
  std::vector<std::int64_t> studies;
  for (const Lease& lease : GiveOut({Join("a", 1), Join("b", 1), Join("c", 1), Join("d", 1)}).leases)
    studies.push_back(lease.key.study);
  EXPECT_EQ(studies, (std::vector<std::int64_t>{first, other, second, other}));
}

TEST_P(StoreFairnessSuite, UseOfDevicesDecides) {
  const std::int64_t mine = RunningOf("me"), yours = RunningOf("you");
  EnqueueMany(mine, 9);
  EnqueueMany(yours, 9);
  const WorkerSession a = Join("a", 1);
  std::map<std::int64_t, int> given;
  double now = 200;
  for (int i = 0; i < 12; ++i) {
    const Lease lease = Next(a, now);
    ++given[lease.key.study];
    const double seconds = lease.key.study == mine ? 30 : 10;
    End(lease, seconds, now += seconds);
  }
  EXPECT_EQ(given[yours], 9) << "as long as it used less";
  EXPECT_EQ(given[mine], 3);
}

TEST_P(StoreFairnessSuite, StudiesOfAnOwnerShareByWeight) {
  const std::int64_t light = RunningOf("me"), heavy = RunningOf("me", 3);
  EnqueueMany(light, 20);
  EnqueueMany(heavy, 20);
  const WorkerSession a = Join("a", 1);
  std::map<std::int64_t, int> given;
  double now = 200;
  for (int i = 0; i < 16; ++i) {
    const Lease lease = Next(a, now);
    ++given[lease.key.study];
    End(lease, 10, ++now);
  }
  EXPECT_EQ(given[light], 4);
  EXPECT_EQ(given[heavy], 12);
}

// What was used counts for the new weight too.
TEST_P(StoreFairnessSuite, ANewWeightCountsFromTheNextTurn) {
  const std::int64_t first = RunningOf("me"), second = RunningOf("me");
  EnqueueMany(first, 20);
  EnqueueMany(second, 20);
  const WorkerSession a = Join("a", 1);
  double now = 200;
  End(Next(a, now), 30, now + 1);
  const Lease other = Next(a, now += 2);
  ASSERT_EQ(other.key.study, second);
  End(other, 10, ++now);
  const auto set = [&](std::int64_t study, double weight) {
    StudyEdit extra;
    extra.weight = weight;
    const auto edited = store_->ModifyStudy(
        study, [](v1::Study&) { return absl::OkStatus(); }, extra);
    ASSERT_TRUE(edited.ok()) << edited.status();
    EXPECT_EQ(edited->weight(), weight);
    EXPECT_EQ(store_->GetStudy(study)->weight(), weight);
  };
  const std::int64_t before = *store_->ChangeCursor(first);
  set(first, 6);  // it used 5 s for its weight, and the other one 10 s
  EXPECT_GT(*store_->ChangeCursor(first), before);
  std::map<std::int64_t, int> given;
  for (int i = 0; i < 14; ++i) {
    const Lease lease = Next(a, ++now);
    if (i == 0) {
      EXPECT_EQ(lease.key.study, first);
    }
    ++given[lease.key.study];
    End(lease, 10, ++now);
  }
  EXPECT_EQ(given[first], 12) << "150 s for a weight of 6, and 30 s for one of 1";
  EXPECT_EQ(given[second], 2);
  // An edit without one leaves it.
  SetState(first, v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(store_->GetStudy(first)->weight(), 6);
}

// The weights of its studies give an owner no more.
TEST_P(StoreFairnessSuite, WeightsDoNotCountAmongOwners) {
  const std::int64_t heavy = RunningOf("me", 100), light = RunningOf("you");
  EnqueueMany(heavy, 9);
  EnqueueMany(light, 9);
  const WorkerSession a = Join("a", 1);
  std::map<std::int64_t, int> given;
  double now = 200;
  for (int i = 0; i < 8; ++i) {
    const Lease lease = Next(a, now);
    ++given[lease.key.study];
    End(lease, 10, ++now);
  }
  EXPECT_EQ(given[light], 4);
}

TEST_P(StoreFairnessSuite, RunningJobsCountForTheirTime) {
  const std::int64_t mine = RunningOf("me"), yours = RunningOf("you");
  const WorkerSession a = Join("a", 3);
  EnqueueMany(mine, 2);
  const Lease runs = Next(a, 200);
  EnqueueMany(yours, 3);
  End(Next(a, 201), 100, 210);
  EXPECT_EQ(Next(a, 211).key.study, mine) << "its job counts as a minute, which is less than 100 s";
  EXPECT_EQ(Next(a, 500).key.study, yours) << "its jobs have run for longer";
  EXPECT_TRUE(Held(runs));
}

TEST_P(StoreFairnessSuite, OwnerWhoGotNothingForLongComesFirst) {
  const std::int64_t mine = RunningOf("me"), yours = RunningOf("you");
  const WorkerSession a = Join("a", 1);
  EnqueueMany(yours, 3);
  End(Next(a, 200), 1e6, 210);
  EnqueueMany(mine, 30);
  double now = 211;
  while (now < 200 + kLongestPassedSeconds) {
    const Lease lease = Next(a, now);
    EXPECT_EQ(lease.key.study, mine) << now;
    End(lease, 50, now += 50);
  }
  const Lease turn = Next(a, now);
  EXPECT_EQ(turn.key.study, yours);
  End(turn, 1, now + 1);
  EXPECT_EQ(Next(a, now + 1).key.study, mine);
}

TEST_P(StoreFairnessSuite, PausedAndEndedStudiesHaveNoTurn) {
  const std::int64_t paused = RunningOf("me"), cancelled = RunningOf("me"), left = RunningOf("me");
  for (const std::int64_t study : {paused, cancelled, left}) EnqueueMany(study, 1);
  SetState(paused, v1::STUDY_STATE_PAUSED);
  SetState(cancelled, v1::STUDY_STATE_CANCELLED);
  const WorkerSession a = Join("a", 4);
  EXPECT_EQ(Next(a).key.study, left);
  EXPECT_THAT(GiveOut({a}).leases, testing::IsEmpty());
  SetState(paused, v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(Next(a).key.study, paused);
}

// More studies than are read at once, and a lost job is queued again.
TEST_P(StoreFairnessSuite, EveryStudyHasItsTurn) {
  std::set<std::int64_t> studies;
  for (int i = 0; i < 40; ++i) {
    studies.insert(RunningOf(i % 3 == 0 ? "me" : "you"));
    EnqueueMany(*studies.rbegin(), 1);
  }
  const WorkerSession a = Join("a", 100);
  std::set<std::int64_t> given;
  for (int i = 0; i < 40; ++i) given.insert(Next(a).key.study);
  EXPECT_EQ(given, studies);
  EXPECT_THAT(GiveOut({a}).leases, testing::IsEmpty());
  EXPECT_EQ(store_->ExpireLeases(211)->size(), 40u);
  EXPECT_EQ(GiveOut({a}, {}, 212).leases.size(), 1u);
}

// --- Beside a large job ---

// Worker a runs a job that may take until 360; on a and b a job of four waits.
TEST_P(StoreFairnessSuite, SmallJobsFillWhatTheLargeOneDoesNotNeed) {
  const std::int64_t id = RunningOf("me");
  const WorkerSession a = Join("a", 4), b = Join("b", 3);
  EnqueueJob(id, "mbs=1", Limited(2, 40));
  ASSERT_THAT(Shares(GiveOut({a}, {b}, 200)), testing::ElementsAre("a:2"));
  EnqueueJob(id, "tp=6", Limited(6, 40));
  EnqueueJob(id, "mbs=2", Limited(1, 500));
  EnqueueJob(id, "mbs=4", Limited(1, 500));
  // The job of six starts at 360 at the latest, on all of a and two slots of b. One slot is left over.
  const Assignment given = GiveOut({a, b}, {}, 210);
  ASSERT_THAT(Shares(given), testing::ElementsAre("b:1"));
  EXPECT_EQ(given.leases[0].key.trial, 3);
  ASSERT_TRUE(given.waits);
  EXPECT_EQ(given.waits->job, (JobKey{id, 2}));
  EXPECT_THAT(Shares(GiveOut({a, b}, {}, 211)), testing::IsEmpty()) << "the other job of one would delay it";
}

TEST_P(StoreFairnessSuite, JobThatEndsBeforeTheLargeOneStartsUsesItsSlots) {
  const std::int64_t id = RunningOf("me");
  const WorkerSession a = Join("a", 4);
  EnqueueJob(id, "mbs=1", Limited(2, 300));
  const Lease runs = Next(a, 200);
  EnqueueJob(id, "tp=4", Limited(4, 30));
  EnqueueJob(id, "mbs=2", Limited(1, 301));
  EnqueueJob(id, "mbs=4", TrainJob(1));
  EnqueueJob(id, "mbs=8", Limited(1, 299));
  const Assignment given = GiveOut({a}, {}, 201);
  ASSERT_THAT(Shares(given), testing::ElementsAre("a:1"));
  EXPECT_EQ(given.leases[0].key.trial, 5) << "of the others, one may take longer and one has no limit";
  EXPECT_THAT(Shares(GiveOut({a}, {}, 202)), testing::IsEmpty());
  End(runs, 1, 203);
  EXPECT_THAT(Shares(GiveOut({a}, {}, 204)), testing::IsEmpty());
  End(given.leases[0], 1, 205);
  EXPECT_EQ(Next(a, 206).key.trial, 2) << "the large one starts as soon as it fits";
}

// A stream of small jobs does not keep a large one waiting beyond the limit of what ran when it came.
TEST_P(StoreFairnessSuite, SmallJobsDoNotStarveTheLargeOne) {
  const std::int64_t id = RunningOf("me");
  const WorkerSession a = Join("a", 4);
  EnqueueJob(id, "mbs=1", Limited(1, 100));
  Lease runs = Next(a, 200);
  EnqueueJob(id, "tp=4", Limited(4, 30));
  for (int i = 0; i < 60; ++i) EnqueueJob(id, fmt::format("mbs={}", i + 2), Limited(1, 30));
  std::vector<std::pair<double, Lease>> small;  // by when it ends: as late as it may
  double now = 200;
  bool started = false;
  int beside = 0;
  for (; !started && now < 400; now += 10) {
    std::erase_if(small, [&](const auto& each) {
      if (each.first > now) return false;
      End(each.second, 1, now);
      return true;
    });
    if (now == 420 - 100) End(runs, 1, now);  // at its limit
    for (const Lease& lease : GiveOut({a}, {}, now).leases) {
      started = started || lease.ranks == 4;
      if (lease.ranks == 1) {
        small.emplace_back(now + 150, lease);
        ++beside;
      }
    }
  }
  EXPECT_TRUE(started);
  EXPECT_LE(now, 200 + 100 + 120 + 10) << "the limit of the job that ran";
  EXPECT_GE(beside, 3);
}

// A large job for GPUs keeps nothing of other workers, on which another large job waits.
TEST_P(StoreFairnessSuite, EachPoolOfWorkersHasItsOwnLargeJob) {
  const std::int64_t id = RunningOf("me");
  const WorkerSession gpus = Join("gpus", 2, "cuda"), cores = Join("cores", 2);
  v1::Job on_gpu = Limited(1, 300);
  on_gpu.set_device("cuda");
  EnqueueJob(id, "mbs=1", on_gpu);
  EnqueueJob(id, "mbs=2", Limited(1, 300));
  ASSERT_THAT(Shares(GiveOut({gpus, cores}, {}, 200)), testing::ElementsAre("gpus:1", "cores:1"));
  on_gpu.set_ranks(2);
  EnqueueJob(id, "tp=2", on_gpu);
  EnqueueJob(id, "tp=2,mbs=2", Limited(2, 300));
  on_gpu.set_ranks(1);
  EnqueueJob(id, "mbs=4", on_gpu);
  EnqueueJob(id, "mbs=8", Limited(1, 300));
  EXPECT_THAT(Shares(GiveOut({gpus, cores}, {}, 201)), testing::IsEmpty());
  EXPECT_THAT(Shares(GiveOut({gpus, cores}, {}, 201, /*keeps=*/false)),
              testing::ElementsAre("gpus:1", "cores:1"));
}

}  // namespace autocfg::server
