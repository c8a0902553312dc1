// Leases over pauses of the coordinator's process, and the log of clock steps.
#include "server/sched/lease_expiry.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "absl/time/clock.h"
#include "tests/server/log_lines.h"
#include "tests/server/sched/sched_fixture.h"

namespace autocfg::server {
namespace {

class LeaseExpiryTest : public SchedFixture {
 protected:
  // One clock for everything, as in the program: a jump of it is a pause.
  void Begin() {
    const base::Clock counted = [this] {
      ++readings_;
      return now_.load();
    };
    dispatcher_ = std::make_unique<Dispatcher>(*store_, clock_, DispatcherOptions{.elapsing = clock_});
    expiry_.emplace(*dispatcher_, LeaseExpiryOptions{.period = std::chrono::milliseconds(1),
                                                     .clock = counted,
                                                     .elapsing = clock_,
                                                     .system = [this] { return now_ + ahead_; }});
    AwaitChecks();
  }
  void TearDown() override {
    expiry_.reset();
    dispatcher_.reset();
  }
  // Waits until a check that began after this call has ended.
  void AwaitChecks() {
    const int before = readings_;
    const absl::Time limit = absl::Now() + kLong;
    while (readings_ < before + 3 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_GE(readings_, before + 3);
  }
  // Lets time go by in which the coordinator runs.
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ = now_ + 1;
      AwaitChecks();
    }
  }
  Lease LeaseTo(const WorkerSession& session) {
    const auto assigned = store_->LeaseJobs({session}, {session}, now_, 10);
    EXPECT_TRUE(assigned.ok() && assigned->leases.size() == 1);
    return assigned->leases.at(0);
  }
  bool Held(const Lease& lease) { return store_->FindShare(lease.lease_id, lease.fencing_token).ok(); }

  std::atomic<int> readings_ = 0;  // one a check
  std::atomic<double> ahead_ = 0;  // of the system's clock
  std::unique_ptr<Dispatcher> dispatcher_;
  std::optional<LeaseExpiry> expiry_;
};

TEST_F(LeaseExpiryTest, PauseCostsNoLease) {
  const WorkerSession a = Register("workers/a", 1);
  Begin();
  Pass(12);
  const std::int64_t trial = Enqueue("tp=1", 1);
  const Lease lease = LeaseTo(a);
  for (const int pause_s : {20, 11, 3600}) {
    now_ = now_ + pause_s;
    AwaitChecks();
    EXPECT_TRUE(Held(lease)) << pause_s;
    Pass(9);
    EXPECT_TRUE(Held(lease)) << "its worker has a lease duration to call after a pause of " << pause_s
                             << " s";
  }
  Pass(3);
  EXPECT_FALSE(Held(lease)) << "it did not";
  EXPECT_EQ(State(trial), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(store_->GetTrial(study_, trial)->attempts(0).message(),
            "the worker did not renew its lease; check the worker's host and network");
}

TEST_F(LeaseExpiryTest, PauseAtTheStartKeepsTheLeasesOfAnEarlierCoordinatorFree) {
  const WorkerSession a = Register("workers/a", 1);
  const std::int64_t trial = Enqueue("tp=1", 1);
  const Lease lease = LeaseTo(a);
  now_ = now_ + 1000;
  Begin();
  Pass(5);
  now_ = now_ + 20;
  AwaitChecks();
  EXPECT_TRUE(Held(lease));
  Pass(12);
  EXPECT_FALSE(Held(lease));
  EXPECT_EQ(store_->GetTrial(study_, trial)->attempts(0).message(),
            "its lease expired while no coordinator was running");
}

TEST_F(LeaseExpiryTest, ShortDelayIsNoPause) {
  const WorkerSession a = Register("workers/a", 1);
  Begin();
  Pass(12);
  Enqueue("tp=1", 1);
  const Lease lease = LeaseTo(a);
  for (int i = 0; i < 4 && Held(lease); ++i) {
    now_ = now_ + 4;
    AwaitChecks();
  }
  EXPECT_FALSE(Held(lease)) << "a busy machine must not keep the leases of dead workers";
}

TEST_F(LeaseExpiryTest, StepOfTheSystemsClockIsLoggedOnceAndChangesNothing) {
  const WorkerSession a = Register("workers/a", 1);
  Enqueue("tp=1", 1);
  const Lease lease = LeaseTo(a);
  const LogLines log;
  Begin();
  ahead_ = 2;  // NTP corrects a little
  AwaitChecks();
  EXPECT_EQ(log.Count("clock was stepped"), 0);
  ahead_ = 3602;
  AwaitChecks();
  AwaitChecks();
  EXPECT_EQ(log.Count("clock was stepped by +3600 s"), 1);
  ahead_ = 2;
  AwaitChecks();
  AwaitChecks();
  EXPECT_EQ(log.Count("clock was stepped by -3600 s"), 1);
  EXPECT_EQ(log.Count("clock was stepped"), 2);
  EXPECT_TRUE(Held(lease));
}

}  // namespace
}  // namespace autocfg::server
