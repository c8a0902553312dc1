// Gatherings of the workers of a job: results, rejected calls, ends of waits, kept values, restarts. On a
// memory store, or on one in a file.
#include "server/sched/rendezvous.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/server/sched/sched_fixture.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RendezvousTest : public SchedFixture {
 protected:
  void SetUp() override {
    SchedFixture::SetUp();
    Make({});
    StartAttempt();
  }
  void StartAttempt() {
    const WorkerSession a = Register("workers/a", 2);
    const WorkerSession b = Register("workers/b", 2);
    trial_ = Enqueue("tp=4", 4);
    const auto assigned = store_->LeaseJobs({a, b}, {a, b}, now_, 10);
    ASSERT_TRUE(assigned.ok()) << assigned.status();
    ASSERT_EQ(assigned->leases.size(), 2u);
    first_ = assigned->leases[0];
    second_ = assigned->leases[1];
  }
  void TearDown() override { rendezvous_->Close(); }
  // Begins again, with a store in a file.
  void UseFile(const std::string& path) {
    rendezvous_->Close();
    store_ = *OpenSqliteStore(path);
    StartStudy();
    StartAttempt();
    Make({});
  }
  void Make(const RendezvousOptions& options) {
    if (rendezvous_) rendezvous_->Close();
    rendezvous_ = std::make_unique<Rendezvous>(*store_, options);
    store_->OnChange([this](const StoreChange&) { rendezvous_->StoreChanged(); });
  }
  struct Call {
    CallId id = 0;
    Answered<Values> answer;
  };
  Call Join(const Lease& lease, std::int64_t sequence, const Values& values,
            const std::string& name = "addresses") {
    Call call;
    call.id = rendezvous_->Join({lease.lease_id, lease.fencing_token, name, sequence, values},
                                call.answer.Answer());
    return call;
  }
  static absl::StatusCode Code(const Call& call) { return call.answer.Wait().status().code(); }
  static std::string Words(const Call& call) { return std::string(call.answer.Wait().status().message()); }
  absl::Status EndFirst(v1::Outcome outcome) {
    v1::ReportTrialRequest report;
    report.set_worker(first_.session.worker);
    report.set_session_epoch(first_.session.epoch);
    report.set_lease_id(first_.lease_id);
    report.set_fencing_token(first_.fencing_token);
    report.set_attempt(first_.attempt);
    report.set_request_id("end");
    report.set_outcome(outcome);
    if (outcome == v1::OUTCOME_MEASURED) report.mutable_measurement()->add_step_time_s(0.25);
    return store_->Report(report, now_);
  }

  std::unique_ptr<Rendezvous> rendezvous_;
  std::int64_t trial_ = 0;
  Lease first_;
  Lease second_;
};

TEST_F(RendezvousTest, SharesGetAllValuesInRankOrder) {
  // The later ranks join first.
  const Call second = Join(second_, 0, {"c", ""});
  EXPECT_FALSE(second.answer.there());
  const Call first = Join(first_, 0, {"a", "b"});
  EXPECT_THAT(*second.answer.Wait(), ElementsAre("a", "b", "c", ""));
  EXPECT_THAT(*first.answer.Wait(), ElementsAre("a", "b", "c", ""));
  const Call next = Join(first_, 1, {"e", "f"}, "plans");
  EXPECT_FALSE(next.answer.there());
  Join(second_, 1, {"g", "h"}, "plans");
  EXPECT_THAT(*next.answer.Wait(), ElementsAre("e", "f", "g", "h"));
}

TEST_F(RendezvousTest, RepeatedCallGetsTheSameAnswer) {
  const Call waiting = Join(first_, 0, {"a", "b"});
  const Call again = Join(first_, 0, {"a", "b"});
  EXPECT_EQ(Code(waiting), absl::StatusCode::kAborted);
  EXPECT_FALSE(again.answer.there());
  Join(second_, 0, {"c", "d"});
  EXPECT_THAT(*again.answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(*Join(second_, 0, {"c", "d"}).answer.Wait(), ElementsAre("a", "b", "c", "d"));
  Join(first_, 1, {"e", "f"});
  Join(second_, 1, {"g", "h"});
  EXPECT_THAT(*Join(first_, 0, {"a", "b"}).answer.Wait(), ElementsAre("a", "b", "c", "d"));
  // A repeated call after a broken connection adds nothing.
  const Call broken = Join(first_, 2, {"i", "j"});
  rendezvous_->CallerGone(broken.id);
  EXPECT_EQ(Code(broken), absl::StatusCode::kCancelled);
  const Call repeated = Join(first_, 2, {"i", "j"});
  Join(second_, 2, {"k", "l"});
  EXPECT_THAT(*repeated.answer.Wait(), ElementsAre("i", "j", "k", "l"));
}

TEST_F(RendezvousTest, InvalidCallIsRejectedWithoutEffect) {
  const Call first = Join(first_, 0, {"a", "b"}, "addresses");
  const Call other = Join(second_, 0, {"c", "d"}, "losses");
  EXPECT_EQ(Code(other), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Words(other), testing::AllOf(HasSubstr("'addresses'"), HasSubstr("'losses'")));
  EXPECT_EQ(Code(Join(second_, 0, {"c"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(Join(second_, 0, {"c", "d", "e"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(Join(second_, -1, {"c", "d"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(Join(second_, 0, {"c", "d"}, "")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(Join(second_, 0, {"c", std::string(2 << 20, 'x')})), absl::StatusCode::kInvalidArgument);
  // gathering 0 is in flight
  EXPECT_EQ(Code(Join(second_, 1, {"c", "d"})), absl::StatusCode::kFailedPrecondition);
  // values that differ from before
  EXPECT_EQ(Code(Join(first_, 0, {"a", "z"})), absl::StatusCode::kInvalidArgument);
  Lease foreign = second_;
  ++foreign.fencing_token;
  EXPECT_EQ(Code(Join(foreign, 0, {"c", "d"})), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(first.answer.there());
  Join(second_, 0, {"c", "d"});
  EXPECT_THAT(*first.answer.Wait(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(RendezvousTest, WaitFailsIfOthersDoNotJoin) {
  Make({.barrier = absl::Milliseconds(30)});
  const Call call = Join(first_, 0, {"a", "b"});
  EXPECT_EQ(Code(call), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Words(call), testing::AllOf(HasSubstr("addresses"), HasSubstr("2 of 4 ranks")));
  EXPECT_EQ(rendezvous_->bytes(), 0u);
}

TEST_F(RendezvousTest, BrokenAttemptEndsTheWait) {
  const Call call = Join(second_, 0, {"c", "d"});
  ASSERT_TRUE(EndFirst(v1::OUTCOME_FAILED).ok());
  EXPECT_EQ(Code(call), absl::StatusCode::kAborted);
  EXPECT_EQ(Code(Join(second_, 0, {"c", "d"})), absl::StatusCode::kAborted);
  EXPECT_EQ(Code(Join(first_, 0, {"a", "b"})), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RendezvousTest, CancelledStudyEndsTheWait) {
  const Call call = Join(second_, 0, {"c", "d"});
  ASSERT_TRUE(store_->CancelJobs(study_).ok());
  EXPECT_EQ(Code(call), absl::StatusCode::kAborted);
}

// A coordinator may end after it has answered some of a gathering's callers. They do not join it again.
TEST_F(RendezvousTest, GatheringThatWasAnsweredInPartBeforeARestartIsAnsweredToTheOthers) {
  for (int i = 0; i < 2; ++i) {
    Join(first_, i, {"a", "b"});
    EXPECT_TRUE(Join(second_, i, {"c", "d"}).answer.Wait().ok());
  }
  Make({});
  EXPECT_THAT(*Join(second_, 1, {"c", "d"}).answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(Code(Join(second_, 1, {"c", "z"})), absl::StatusCode::kInvalidArgument) << "other values";

  Make({});
  const Call ahead = Join(first_, 2, {"e", "f"});
  EXPECT_THAT(*Join(second_, 1, {"c", "d"}).answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_FALSE(ahead.answer.there());
  Join(second_, 2, {"g", "h"});
  EXPECT_THAT(*ahead.answer.Wait(), ElementsAre("e", "f", "g", "h"));
}

TEST_F(RendezvousTest, GatheringIsAnsweredAfterARestartThoughAShareHasEnded) {
  const TempDir dir;
  UseFile(dir.File("a.db"));
  Join(first_, 0, {"a", "b"});
  EXPECT_TRUE(Join(second_, 0, {"c", "d"}).answer.Wait().ok());
  ASSERT_TRUE(EndFirst(v1::OUTCOME_MEASURED).ok());
  rendezvous_->Close();
  store_.reset();
  store_ = *OpenSqliteStore(dir.File("a.db"));
  Make({});
  EXPECT_THAT(*Join(second_, 0, {"c", "d"}).answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(Code(Join(second_, 1, {"c", "d"})), absl::StatusCode::kFailedPrecondition);
}

// The storage is busy until the time limit of the gathering has passed.
TEST_F(RendezvousTest, NobodyIsAnsweredBeforeTheGatheringIsStored) {
  const TempDir dir;
  UseFile(dir.File("a.db"));
  const absl::Duration barrier = absl::Seconds(2);
  Make({.barrier = barrier, .look_period = absl::Milliseconds(1)});
  SQLite::Database other(dir.File("a.db"), SQLite::OPEN_READWRITE);
  const Call waiting = Join(first_, 0, {"a", "b"});
  other.exec("BEGIN IMMEDIATE");
  Call last;
  std::thread joins([&] { last = Join(second_, 0, {"c", "d"}); });
  const absl::Time limit = absl::Now() + kLong;
  while (rendezvous_->bytes() < 4 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(barrier + absl::Milliseconds(100));
  EXPECT_FALSE(waiting.answer.there());
  other.exec("ROLLBACK");
  joins.join();
  EXPECT_THAT(*waiting.answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(*last.answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(*Join(first_, 0, {"a", "b"}).answer.Wait(), ElementsAre("a", "b", "c", "d"));
}

// Its job goes on. What the workers report of it waits until there is room.
TEST_F(RendezvousTest, GatheringThatCannotBeStoredIsAnsweredAllTheSame) {
  const TempDir dir;
  FaultyDisk disk(dir.path());
  UseFile(dir.File("a.db"));
  const Call waiting = Join(first_, 0, {"a", "b"});
  disk.Fail(FaultyDisk::Op::kWrite, 1, SQLITE_FULL, FaultyDisk::kForEver);
  const Call last = Join(second_, 0, {"c", "d"});
  EXPECT_THAT(*last.answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(*waiting.answer.Wait(), ElementsAre("a", "b", "c", "d"));
  EXPECT_TRUE(IsNoSpace(store_->Health())) << store_->Health();
  disk.Heal();
  const auto both = [&](std::int64_t sequence) {
    const Call call = Join(first_, sequence, {"e", "f"});
    Join(second_, sequence, {"g", "h"});
    EXPECT_THAT(*call.answer.Wait(), ElementsAre("e", "f", "g", "h")) << sequence;
  };
  both(1);
  Make({});
  EXPECT_THAT(*Join(second_, 1, {"g", "h"}).answer.Wait(), ElementsAre("e", "f", "g", "h"));
  // All have the answer of a gathering that was not stored.
  disk.Fail(FaultyDisk::Op::kWrite, 1, SQLITE_FULL, FaultyDisk::kForEver);
  both(2);
  disk.Heal();
  Make({});
  both(3);
  rendezvous_->Close();
  store_.reset();  // its files are on the disk
}

// A coordinator of an earlier version stored no gatherings.
TEST_F(RendezvousTest, GatheringThatWasNotStoredBeforeARestartFailsAtOnce) {
  const Call ahead = Join(first_, 5, {"a", "b"});
  const Call behind = Join(second_, 4, {"c", "d"});
  EXPECT_EQ(Code(behind), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Words(behind), HasSubstr("gathering 4 is over"));
  EXPECT_FALSE(ahead.answer.there());

  Make({});
  const Call waiting = Join(second_, 4, {"c", "d"});
  EXPECT_EQ(Code(Join(first_, 5, {"a", "b"})), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(waiting.answer.there());
  ASSERT_TRUE(EndFirst(v1::OUTCOME_FAILED).ok());
  EXPECT_EQ(Code(waiting), absl::StatusCode::kAborted);
}

TEST_F(RendezvousTest, GatheringFailsAtOnceIfAShareHasEnded) {
  const Call waiting = Join(second_, 4, {"c", "d"});
  ASSERT_TRUE(EndFirst(v1::OUTCOME_MEASURED).ok());
  EXPECT_EQ(Code(waiting), absl::StatusCode::kFailedPrecondition);
  Make({});
  const Call again = Join(second_, 4, {"c", "d"});
  EXPECT_EQ(Code(again), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Words(again), HasSubstr("another worker of the job has ended"));
}

TEST_F(RendezvousTest, MemoryIsBoundedAndReleased) {
  Make({.look_period = absl::Milliseconds(1), .kept_bytes = 1000});
  for (int i = 0; i < 50; ++i) {
    Join(first_, i, {std::string(100, 'a'), std::string(100, 'b')});
    EXPECT_TRUE(Join(second_, i, {std::string(100, 'c'), std::string(100, 'd')}).answer.Wait().ok()) << i;
    EXPECT_LE(rendezvous_->bytes(), 1400u);
  }
  EXPECT_EQ(Code(Join(first_, 3, {std::string(100, 'a'), std::string(100, 'b')})),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Join(first_, 49, {std::string(100, 'a'), std::string(100, 'b')}).answer.Wait().ok());
  ASSERT_TRUE(EndFirst(v1::OUTCOME_FAILED).ok());
  EXPECT_GT(rendezvous_->bytes(), 0u);
  now_ = 200;  // the other worker's lease expires
  ASSERT_EQ(store_->ExpireLeases(now_)->size(), 1u);
  const absl::Time limit = absl::Now() + kLong;
  while (rendezvous_->bytes() > 0 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(rendezvous_->bytes(), 0u);
}

TEST_F(RendezvousTest, CloseEndsAllCalls) {
  const Call call = Join(first_, 0, {"a", "b"});
  rendezvous_->Close();
  EXPECT_EQ(Code(call), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Code(Join(first_, 0, {"a", "b"})), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace autocfg::server
