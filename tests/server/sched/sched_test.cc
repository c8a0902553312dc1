// The notifier, and lease expiry with an injected clock.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/sched/lease_expiry.h"
#include "server/sched/notifier.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/sched/sched_fixture.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

constexpr std::chrono::seconds kLongWait{30};

TEST(Notifier, ChangeBeforeWaitIsNotMissed) {
  Notifier notifier;
  Notifier::Subscription study(notifier, 7);
  const std::uint64_t seen = study.Version();
  notifier.Notify(7);
  study.Wait(seen, kLongWait);
  EXPECT_NE(study.Version(), seen);
}

TEST(Notifier, WakesAllOfTheStudyAndTimesOut) {
  Notifier notifier;
  std::atomic<int> ready = 0, woken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Notifier::Subscription study(notifier, 7);
      const std::uint64_t seen = study.Version();
      ++ready;
      study.Wait(seen, kLongWait);
      ++woken;
    });
  }
  while (ready < 3) std::this_thread::yield();
  notifier.Notify(7);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, 3);
  Notifier::Subscription study(notifier, 7);
  study.Wait(study.Version(), std::chrono::milliseconds(1));  // returns after the timeout
}

TEST(Notifier, ChangeOfOneStudyLeavesTheOthers) {
  Notifier notifier;
  Notifier::Subscription seven(notifier, 7), eight(notifier, 8);
  notifier.Notify(7);
  EXPECT_EQ(seven.Version(), 1);
  EXPECT_EQ(eight.Version(), 0);
  notifier.StoreChanged({.studies = {8}, .work = true});
  EXPECT_EQ(seven.Version(), 1);
  EXPECT_EQ(eight.Version(), 1);
  notifier.StoreChanged({.failed = true});
  EXPECT_EQ(seven.Version(), 2);
  EXPECT_EQ(eight.Version(), 2);
}

TEST(Notifier, CloseEndsWaiting) {
  Notifier notifier;
  std::thread waiting([&] {
    Notifier::Subscription study(notifier, 7);
    study.Wait(study.Version(), kLongWait);
  });
  notifier.Close();
  waiting.join();
  Notifier::Subscription study(notifier, 7);
  study.Wait(study.Version(), kLongWait);
  EXPECT_TRUE(notifier.closed());
}

class SchedTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    store_->OnChange([this](const StoreChange& change) { notifier_.StoreChanged(change); });
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("b");
    worker.mutable_inventory()->set_slots(4);
    epoch_ = *store_->RegisterWorker(worker, 0);
    v1::Study study;
    study.set_fingerprint("f");
    study = *store_->CreateStudy("", study, 0);
    study_ = *ParseStudyName(study.name());
    ASSERT_TRUE(SetStudyState(*store_, study_, v1::STUDY_STATE_RUNNING).ok());
  }
  void Enqueue(const std::string& plan) {
    v1::Trial trial;
    trial.set_plan_text(plan);
    v1::Job job;
    job.set_ranks(1);
    job.mutable_train();
    ASSERT_TRUE(store_->EnqueueTrial(study_, trial, job, 2).ok());
  }

  // Advances the clock by more than a lease duration at a time until the trial has this state.
  void AwaitLater(v1::TrialState state) {
    const absl::Time limit = absl::Now() + kLong;
    while (store_->GetTrial(study_, 1)->state() != state && absl::Now() < limit) {
      now_ = now_ + 11;
      absl::SleepFor(absl::Milliseconds(20));
    }
    EXPECT_EQ(store_->GetTrial(study_, 1)->state(), state);
  }

  static constexpr std::chrono::milliseconds kShort{1};

  std::unique_ptr<Store> store_;
  Notifier notifier_;
  std::atomic<double> now_ = 100;
  base::Clock clock_ = [this] { return now_.load(); };
  std::int64_t epoch_ = 0;
  std::int64_t study_ = 0;
};

TEST_F(SchedTest, LeasesExpireByTheInjectedClock) {
  Enqueue("tp=1");
  ASSERT_EQ(store_->LeaseJobs({{"workers/a", epoch_}}, {}, now_, 10)->leases.size(), 1u);
  Dispatcher dispatcher(*store_, clock_, {});
  const LeaseExpiry expiry(dispatcher, {.period = kShort, .clock = clock_});
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(store_->GetTrial(study_, 1)->state(), v1::TRIAL_STATE_RUNNING);
  AwaitLater(v1::TRIAL_STATE_QUEUED);
}

// Its clock may be another one, and its workers could not call.
TEST_F(SchedTest, LeasesOfAnEarlierCoordinatorGetTheirDurationAtTheStart) {
  for (const double granted_s : {0.0, 1e6}) {
    Enqueue(fmt::format("tp=1,mbs={}", granted_s + 1));
    ASSERT_EQ(store_->LeaseJobs({{"workers/a", epoch_}}, {}, granted_s, 10)->leases.size(), 1u);
    Dispatcher dispatcher(*store_, clock_, {});
    const LeaseExpiry expiry(dispatcher, {.period = kShort, .clock = clock_});
    absl::SleepFor(absl::Milliseconds(30));
    EXPECT_EQ(store_->GetTrial(study_, 1)->state(), v1::TRIAL_STATE_RUNNING);
    AwaitLater(v1::TRIAL_STATE_QUEUED);
    EXPECT_LT(now_, 1e5) << "a dead worker keeps no lease for as long as a clock was stepped back";
  }
}

TEST_F(SchedTest, ExpiryWithoutCoordinatorDoesNotUseUpAnAttempt) {
  Enqueue("tp=1");  // with two attempts
  const auto lease = [&] {
    ASSERT_EQ(store_->LeaseJobs({{"workers/a", epoch_}}, {}, now_, 10)->leases.size(), 1u);
  };
  lease();
  Dispatcher dispatcher(*store_, clock_, {});
  const LeaseExpiry expiry(dispatcher, {.period = kShort, .clock = clock_});
  AwaitLater(v1::TRIAL_STATE_QUEUED);
  lease();  // a coordinator runs from here on
  AwaitLater(v1::TRIAL_STATE_QUEUED);
  lease();
  AwaitLater(v1::TRIAL_STATE_LOST);
}

}  // namespace
}  // namespace autocfg::server
