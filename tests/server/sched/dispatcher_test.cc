// The dispatcher on a memory store: who gets work, who is told to stop, and what lost workers cost.
#include "server/sched/dispatcher.h"

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/server/sched/sched_fixture.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

class DispatcherTest : public SchedFixture {
 protected:
  void SetUp() override {
    SchedFixture::SetUp();
    Make({});
  }
  void TearDown() override {
    if (dispatcher_) dispatcher_->Close();
  }
  void Make(DispatcherOptions options) {
    if (dispatcher_) dispatcher_->Close();
    dispatcher_ = std::make_unique<Dispatcher>(*store_, clock_, std::move(options));
    store_->OnChange([this](const StoreChange&) { dispatcher_->StoreChanged(); });
  }

  struct Poll {
    CallId id = 0;
    Answered<Work> answer;
  };
  // `takes`: return value of the answer.
  Poll Begin(const WorkerSession& session, absl::Duration wait = kLong, bool takes = true,
             std::optional<std::vector<std::string>> held = {}) {
    Poll poll;
    poll.id = dispatcher_->Poll({session, wait, std::move(held)},
                                [takes, answer = poll.answer.Answer()](absl::StatusOr<Work> work) {
                                  answer(std::move(work));
                                  return takes;
                                });
    return poll;
  }
  struct Renewal {
    CallId id = 0;
    Answered<v1::LeaseCommand> answer;
  };
  Renewal Renew(const Lease& lease, absl::Duration wait = kLong) {
    Renewal renewal;
    renewal.id = dispatcher_->Renew({lease.session, lease.lease_id, lease.fencing_token, wait},
                                    renewal.answer.Answer());
    return renewal;
  }
  Lease LeaseOf(const Poll& poll) {
    const auto work = poll.answer.Wait();
    EXPECT_TRUE(work.ok()) << work.status();
    EXPECT_TRUE(work.ok() && work->lease.has_value());
    return work.ok() && work->lease ? *work->lease : Lease();
  }
  // Waits until the trial has this state.
  void AwaitState(std::int64_t trial, v1::TrialState state) {
    const absl::Time limit = absl::Now() + kLong;
    while (State(trial) != state && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(State(trial), state);
  }
  // Waits until the study's reason matches.
  void AwaitWaiting(const testing::Matcher<const std::string&>& matcher) {
    const absl::Time limit = absl::Now() + kLong;
    while (!matcher.Matches(dispatcher_->Waiting(study_)) && absl::Now() < limit)
      absl::SleepFor(absl::Milliseconds(1));
    EXPECT_THAT(dispatcher_->Waiting(study_), matcher);
  }
  absl::Status End(const Lease& lease, v1::Outcome outcome,
                   v1::FailureKind failure = v1::FAILURE_KIND_UNSPECIFIED) {
    v1::ReportTrialRequest report;
    report.set_worker(lease.session.worker);
    report.set_session_epoch(lease.session.epoch);
    report.set_lease_id(lease.lease_id);
    report.set_fencing_token(lease.fencing_token);
    report.set_attempt(lease.attempt);
    report.set_request_id(lease.lease_id);
    report.set_outcome(outcome);
    report.set_failure(failure);
    return store_->Report(report, now_);
  }

  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(DispatcherTest, ParkedPollIsAnsweredWhenWorkIsQueued) {
  const Poll poll = Begin(Register("workers/a", 4));
  EXPECT_NE(poll.id, 0u);
  EXPECT_FALSE(poll.answer.there());
  const std::int64_t trial = Enqueue("tp=1", 1);
  const Lease lease = LeaseOf(poll);
  EXPECT_EQ(lease.key.trial, trial);
  EXPECT_EQ(lease.expires_s, 110);
  EXPECT_EQ(dispatcher_->parked(), 0u);
}

TEST_F(DispatcherTest, QueuedWorkIsAssignedImmediatelyAndPollsTimeOut) {
  const WorkerSession a = Register("workers/a", 1);
  const std::int64_t trial = Enqueue("tp=1", 1);
  EXPECT_EQ(LeaseOf(Begin(a)).key.trial, trial);
  // A worker that does not wait is considered too.
  const std::int64_t next = Enqueue("tp=2", 1);
  EXPECT_EQ(LeaseOf(Begin(Register("workers/b", 1), absl::ZeroDuration())).key.trial, next);
  const auto none = Begin(a, absl::Milliseconds(5)).answer.Wait();
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->lease.has_value());
  EXPECT_FALSE(none->drain);
}

TEST_F(DispatcherTest, GangIsFormedFromParkedPolls) {
  const Poll a = Begin(Register("workers/a", 2));
  const std::int64_t trial = Enqueue("tp=4", 4);
  // One worker alone is too small: after the next check, the study reports that its work waits.
  const absl::Time limit = absl::Now() + kLong;
  while (dispatcher_->Waiting(study_).empty() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_NE(dispatcher_->Waiting(study_), "");
  EXPECT_EQ(State(trial), v1::TRIAL_STATE_QUEUED);
  const Poll b = Begin(Register("workers/b", 2));
  const Lease one = LeaseOf(a);
  const Lease two = LeaseOf(b);
  EXPECT_EQ(one.workers, 2);
  EXPECT_EQ(one.ranks + two.ranks, 4);
  EXPECT_NE(one.first_rank, two.first_rank);
  while (!dispatcher_->Waiting(study_).empty() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(dispatcher_->Waiting(study_), "");
}

TEST_F(DispatcherTest, BrokenCallOfGangMemberStopsTheOthers) {
  Make({.broken_grace = absl::Milliseconds(20)});
  const Poll first = Begin(Register("workers/a", 2));
  const Poll second = Begin(Register("workers/b", 2));
  const std::int64_t trial = Enqueue("tp=4", 4);
  const Lease a = LeaseOf(first);
  const Lease b = LeaseOf(second);
  const Poll of_a = Begin(a.session);
  const Renewal renewal_of_a = Renew(a);
  const Renewal renewal_of_b = Renew(b);
  // The end of one of two calls is not a broken connection.
  dispatcher_->RenewerGone(renewal_of_a.id, /*broke=*/true);
  EXPECT_EQ(renewal_of_a.answer.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(renewal_of_b.answer.there());
  dispatcher_->PollerGone(of_a.id, /*broke=*/true);
  const auto command = renewal_of_b.answer.Wait();
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(*command, v1::LEASE_COMMAND_CANCEL);
  EXPECT_TRUE(End(b, v1::OUTCOME_FAILED, v1::FAILURE_KIND_PEER).ok());
  EXPECT_EQ(State(trial), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Renew(a).answer.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DispatcherTest, WorkerThatCallsAgainInTimeKeepsItsLease) {
  Make({.broken_grace = absl::Seconds(1)});
  const Poll first = Begin(Register("workers/a", 2));
  const Poll second = Begin(Register("workers/b", 2));
  Enqueue("tp=4", 4);
  const Lease a = LeaseOf(first);
  const Lease b = LeaseOf(second);
  const Renewal broken = Renew(a);
  dispatcher_->RenewerGone(broken.id, /*broke=*/true);
  const auto again = Renew(a, absl::Milliseconds(1500)).answer.Wait();  // longer than the grace period
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, v1::LEASE_COMMAND_CONTINUE);
  EXPECT_TRUE(store_->FindShare(b.lease_id, b.fencing_token).ok());
}

TEST_F(DispatcherTest, TimedOutCallIsNotABrokenConnection) {
  Make({.broken_grace = absl::ZeroDuration()});
  const Poll first = Begin(Register("workers/a", 2));
  const Poll second = Begin(Register("workers/b", 2));
  Enqueue("tp=4", 4);
  const Lease a = LeaseOf(first);
  LeaseOf(second);
  dispatcher_->RenewerGone(Renew(a).id, /*broke=*/false);
  EXPECT_EQ(*Renew(a, absl::Milliseconds(5)).answer.Wait(), v1::LEASE_COMMAND_CONTINUE);
}

TEST_F(DispatcherTest, WorkerThatLostALeaseGetsNoWorkUntilItCallsAgain) {
  const WorkerSession a = Register("workers/a", 2);
  for (int round = 0; round < 20; ++round) {
    const std::int64_t trial = Enqueue("tp=1,mbs=" + std::to_string(round), 1);
    LeaseOf(Begin(a));
    const Poll parked = Begin(a);  // its process stops here
    now_ = now_ + 11;
    ASSERT_TRUE(dispatcher_->ExpireLeases(now_, /*away=*/false).ok());
    const auto none = parked.answer.Wait();
    ASSERT_TRUE(none.ok()) << none.status();
    EXPECT_FALSE(none->lease.has_value());
    EXPECT_TRUE(dispatcher_->Seen("workers/a").silent) << "an answer is no sign of life";
    EXPECT_EQ(State(trial), v1::TRIAL_STATE_QUEUED);
    const Lease again = LeaseOf(Begin(a));
    EXPECT_EQ(again.key.trial, trial);
    EXPECT_EQ(again.attempt, 2);
    ASSERT_TRUE(End(again, v1::OUTCOME_FAILED).ok());
  }
}

TEST_F(DispatcherTest, LostJobGoesToAnotherParkedPoll) {
  const WorkerSession a = Register("workers/a", 1);
  const std::int64_t trial = Enqueue("tp=1", 1);
  LeaseOf(Begin(a));
  const Poll stopped = Begin(a);
  const Poll other = Begin(Register("workers/b", 1));
  now_ = 111;
  ASSERT_TRUE(dispatcher_->ExpireLeases(now_, /*away=*/false).ok());
  EXPECT_EQ(LeaseOf(other).key.trial, trial);
  EXPECT_FALSE(stopped.answer.Wait()->lease.has_value());
}

TEST_F(DispatcherTest, SecondPollEndsTheFirst) {
  const WorkerSession a = Register("workers/a", 1);
  const Poll first = Begin(a);
  const Poll second = Begin(a);
  const auto none = first.answer.Wait();
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->lease.has_value());
  EXPECT_EQ(dispatcher_->parked(), 1u);
  Enqueue("tp=1", 1);
  LeaseOf(second);
}

TEST_F(DispatcherTest, NewSessionEndsCallsOfThePreviousOne) {
  const WorkerSession before = Register("workers/a", 1);
  Enqueue("tp=1", 1);
  const Lease lease = LeaseOf(Begin(before));
  const Poll poll = Begin(before);
  const Renewal renewal = Renew(lease);
  const WorkerSession now = Register("workers/a", 1, "another boot");
  dispatcher_->Registered(now);
  EXPECT_EQ(poll.answer.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(renewal.answer.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Begin(before).answer.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Begin({"workers/nobody", 1}).answer.Wait().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LeaseOf(Begin(now)).attempt, 2);
}

TEST_F(DispatcherTest, DepartedCallerDoesNotUseUpAnAttempt) {
  const WorkerSession a = Register("workers/a", 1);
  const std::int64_t trial = Enqueue("tp=1", 1);
  // The worker left before it received the job: the job is queued again, and the attempt does not count.
  for (int i = 0; i < 5; ++i) {
    Begin(a, kLong, /*takes=*/false).answer.Wait().IgnoreError();
    AwaitState(trial, v1::TRIAL_STATE_QUEUED);
  }
  // The worker left while it waited: it gets nothing.
  const WorkerSession b = Register("workers/b", 1);
  EXPECT_EQ(LeaseOf(Begin(b)).key.trial, trial);
  const Poll gone = Begin(a);
  dispatcher_->PollerGone(gone.id, /*broke=*/true);
  EXPECT_EQ(gone.answer.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(dispatcher_->parked(), 0u);
  EXPECT_EQ(State(trial), v1::TRIAL_STATE_RUNNING);
}

TEST_F(DispatcherTest, LeaseUnknownToItsWorkerIsReassigned) {
  const WorkerSession a = Register("workers/a", 1);
  const std::int64_t trial = Enqueue("tp=1", 1);
  const Lease lost = LeaseOf(Begin(a));
  const Lease again = LeaseOf(Begin(a, kLong, true, std::vector<std::string>{}));
  EXPECT_EQ(again.key.trial, trial);
  EXPECT_NE(again.lease_id, lost.lease_id);
  // A lease that the worker lists is kept.
  EXPECT_FALSE(Begin(a, absl::Milliseconds(5), true, std::vector<std::string>{again.lease_id})
                   .answer.Wait()
                   ->lease.has_value());
  EXPECT_EQ(*Renew(again, absl::ZeroDuration()).answer.Wait(), v1::LEASE_COMMAND_CONTINUE);
}

TEST_F(DispatcherTest, CancellationAnswersParkedRenewalImmediately) {
  const WorkerSession a = Register("workers/a", 1);
  Enqueue("tp=1", 1);
  const Lease lease = LeaseOf(Begin(a));
  const Renewal renewal = Renew(lease);
  EXPECT_FALSE(renewal.answer.there());
  ASSERT_TRUE(store_->CancelJobs(study_).ok());
  EXPECT_EQ(*renewal.answer.Wait(), v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(*Renew(lease).answer.Wait(), v1::LEASE_COMMAND_CANCEL);
}

TEST_F(DispatcherTest, DrainingWorkerIsToldOnceAndGetsNoWork) {
  const WorkerSession a = Register("workers/a", 2);
  Enqueue("tp=1", 1);
  const Lease lease = LeaseOf(Begin(a));
  const Poll poll = Begin(a);
  const Renewal renewal = Renew(lease);
  ASSERT_TRUE(store_->DrainWorker("workers/a", "").ok());
  dispatcher_->Drains("workers/a");
  EXPECT_TRUE(poll.answer.Wait()->drain);
  EXPECT_EQ(*renewal.answer.Wait(), v1::LEASE_COMMAND_DRAIN);
  // After that it waits as others do and need not repeat its calls.
  Enqueue("tp=1,mbs=2", 1);
  const Poll later = Begin(a, absl::Seconds(2));
  const Renewal again = Renew(lease, absl::Seconds(2));
  EXPECT_FALSE(later.answer.there());
  EXPECT_FALSE(again.answer.there());
  EXPECT_TRUE(later.answer.Wait()->drain);
  EXPECT_FALSE(later.answer.Wait()->lease.has_value());
  EXPECT_EQ(*again.answer.Wait(), v1::LEASE_COMMAND_DRAIN);
}

// A worker that registers many slots and then does anything but take jobs.
TEST_F(DispatcherTest, SilentGiantIsNoCapacity) {
  const WorkerSession giant = Register("workers/giant", 1024);
  const WorkerSession a = Register("workers/a", 4);
  dispatcher_->Registered(giant);
  Enqueue("tp=64", 64);
  const std::int64_t small = Enqueue("tp=1", 1);
  for (int i = 0; i < 5; ++i) {
    dispatcher_->Heard(giant);
    now_ = now_ + 5;
  }
  dispatcher_->Heard(giant);
  EXPECT_EQ(LeaseOf(Begin(a)).key.trial, small);
  AwaitWaiting(testing::AllOf(HasSubstr("64 slots"), HasSubstr("those that take jobs have 4")));
  // Once it asks for work, it is one worker of many.
  const Poll poll = Begin(giant);
  EXPECT_EQ(LeaseOf(poll).ranks, 64);
}

// A study whose only worker is gone waits for the end of its lease; it says so meanwhile.
TEST_F(DispatcherTest, SaysIfNothingIsHeardOfTheWorkersOfAStudy) {
  const WorkerSession worker = Register("workers/a", 4);
  Enqueue("tp=1", 2);
  const Lease lease = LeaseOf(Begin(worker));
  const Renewal renewal = Renew(lease);
  now_ = now_ + 100;
  EXPECT_EQ(dispatcher_->Waiting(study_), "") << "its renewal is parked";
  dispatcher_->RenewerGone(renewal.id, /*broke=*/true);
  EXPECT_EQ(dispatcher_->Waiting(study_), "") << "it has just gone";
  now_ = now_ + 6;
  EXPECT_THAT(dispatcher_->Waiting(study_), testing::StartsWith("workers/a has not been heard of for 5 s; "));
  now_ = now_ + 21;
  EXPECT_THAT(dispatcher_->Waiting(study_),
              testing::StartsWith("workers/a has not been heard of for 20 s; "));
  dispatcher_->Heard(worker);
  EXPECT_EQ(dispatcher_->Waiting(study_), "");
}

// A job that waits for a worker which never takes part holds up others only for a while, and they hold it up
// only for a while.
TEST_F(DispatcherTest, WaitingJobAndLaterOnesPassEachOtherInTurns) {
  Make({.look_period = absl::Milliseconds(5)});
  const WorkerSession a = Register("workers/a", 2), b = Register("workers/b", 2);
  Enqueue("mbs=1", 2);
  const Lease busy = LeaseOf(Begin(b));  // without a time limit, so it counts as ten minutes
  const std::int64_t large = Enqueue("tp=4", 4);
  const std::int64_t later = Enqueue("mbs=2", 1), last = Enqueue("mbs=3", 1);
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; i += 5) {
      now_ = now_ + 5;
      ASSERT_EQ(*Renew(busy, absl::ZeroDuration()).answer.Wait(), v1::LEASE_COMMAND_CONTINUE);
    }
  };
  const auto nothing_for_a = [&] {
    const auto work = Begin(a, absl::ZeroDuration()).answer.Wait();
    return work.ok() && !work->lease;
  };
  EXPECT_TRUE(nothing_for_a()) << "the job of four comes first; its turn has begun";
  const Poll of_a = Begin(a);
  pass(590);
  EXPECT_FALSE(of_a.answer.there());
  pass(20);
  const Lease first = LeaseOf(of_a), second = LeaseOf(Begin(a));
  EXPECT_EQ(first.key.trial, later);
  EXPECT_EQ(second.key.trial, last);
  ASSERT_TRUE(End(first, v1::OUTCOME_FAILED).ok());
  ASSERT_TRUE(End(second, v1::OUTCOME_FAILED).ok());
  // The large job's turn comes again, and this time the other worker takes part.
  pass(620);
  Enqueue("mbs=4", 1);
  EXPECT_TRUE(nothing_for_a());
  ASSERT_TRUE(End(busy, v1::OUTCOME_FAILED).ok());
  const Poll again = Begin(a), of_b = Begin(b);
  EXPECT_EQ(LeaseOf(again).key.trial, large);
  EXPECT_EQ(LeaseOf(of_b).key.trial, large);
}

TEST_F(DispatcherTest, StudySaysWhatItWaitsFor) {
  Make({.look_period = absl::Milliseconds(5)});
  v1::Study other;
  other.set_fingerprint("other");
  other = *store_->CreateStudy("", other, 0);
  const std::int64_t running = study_;
  Enqueue("tp=2", 2);
  const Lease lease = LeaseOf(Begin(Register("workers/a", 2)));
  study_ = *ParseStudyName(other.name());
  ASSERT_TRUE(SetStudyState(*store_, study_, v1::STUDY_STATE_RUNNING).ok());
  Enqueue("tp=2", 2);
  AwaitWaiting(
      testing::Eq("its next job needs 2 slots of cpu workers; 0 are free; it waits for the jobs of " +
                  StudyName(running)));
  EXPECT_EQ(dispatcher_->Waiting(running), "");
  ASSERT_TRUE(End(lease, v1::OUTCOME_FAILED).ok());
  LeaseOf(Begin(lease.session));
  AwaitWaiting(testing::IsEmpty());
}

// Reading why every study waits costs as much as there are studies, so assignments do not do it.
TEST_F(DispatcherTest, ReasonsAreReadOnceAPeriod) {
  Make({.look_period = absl::Hours(1)});
  const WorkerSession a = Register("workers/a", 1);
  Begin(a, absl::ZeroDuration()).answer.Wait().IgnoreError();  // by now it has looked once
  Enqueue("tp=64", 64);
  const std::int64_t small = Enqueue("tp=1", 1);
  EXPECT_EQ(LeaseOf(Begin(a)).key.trial, small);
  EXPECT_TRUE(Begin(a, absl::ZeroDuration()).answer.Wait().ok());
  EXPECT_EQ(dispatcher_->Waiting(study_), "");
}

// Dead workers are not listed forever; one that returns is told to register again.
TEST_F(DispatcherTest, WorkerSilentForADayIsDeregistered) {
  const WorkerSession before = Register("workers/before", 1);  // only an earlier coordinator heard of it
  const WorkerSession parked = Register("workers/parked", 1), dead = Register("workers/dead", 1);
  DispatcherOptions options;
  options.look_period = absl::Milliseconds(5);
  Make(options);
  const Poll poll = Begin(parked), last = Begin(dead);
  dispatcher_->PollerGone(last.id, /*broke=*/false);
  const auto listed = [&] {
    std::vector<std::string> names;
    const auto workers = store_->ListWorkers("", 10, /*gone=*/false);
    EXPECT_TRUE(workers.ok()) << workers.status();
    if (!workers.ok()) return names;
    for (const WorkerRecord& worker : *workers) names.push_back(worker.session.worker);
    return names;
  };
  const auto looks = [&] {  // the dispatcher checks once more
    const Poll other = Begin(Register("workers/other", 1), absl::Milliseconds(20));
    EXPECT_TRUE(other.answer.Wait().ok());
  };
  now_ = now_ + 24 * 3600 - 1;
  looks();
  EXPECT_THAT(listed(),
              testing::ElementsAre("workers/before", "workers/dead", "workers/other", "workers/parked"));
  now_ = now_ + 2;
  for (const absl::Time end = absl::Now() + kLong; listed().size() > 2 && absl::Now() < end;)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_THAT(listed(), testing::ElementsAre("workers/other", "workers/parked"));
  EXPECT_TRUE(absl::IsNotFound(Begin(dead).answer.Wait().status()));
  EXPECT_FALSE(poll.answer.there());
}

TEST_F(DispatcherTest, AbandonedWorkerIsDeregisteredOnceTheStorageWorks) {
  const TempDir dir;
  FaultyDisk disk(dir.path());
  dispatcher_->Close();
  store_ = *OpenSqliteStore(dir.File("a.db"));
  StartStudy();
  Register("workers/dead", 1);
  Make({.look_period = absl::Milliseconds(5)});
  const auto becomes = [](const auto& condition) {
    for (const absl::Time end = absl::Now() + kLong; !condition() && absl::Now() < end;)
      absl::SleepFor(absl::Milliseconds(5));
    return condition();
  };
  disk.Fail(FaultyDisk::Op::kWrite, 1, SQLITE_FULL, FaultyDisk::kForEver);
  now_ = now_ + 24 * 3600 + 1;
  EXPECT_TRUE(becomes([&] { return IsNoSpace(store_->Health()); })) << store_->Health();
  disk.Heal();
  EXPECT_TRUE(becomes([&] {
    now_ = now_ + 24 * 3600 + 1;
    const auto workers = store_->ListWorkers("", 10, /*gone=*/false);
    return workers.ok() && workers->empty();
  }));
  dispatcher_->Close();
  store_.reset();  // its files are on the disk
}

TEST_F(DispatcherTest, PresenceFollowsParkedAndRecentCalls) {
  EXPECT_EQ(dispatcher_->Seen("workers/a").last_s, 0);
  EXPECT_TRUE(dispatcher_->Seen("workers/a").silent);
  const WorkerSession a = Register("workers/a", 1);
  const Poll poll = Begin(a);
  now_ = 1000;
  EXPECT_EQ(dispatcher_->Seen("workers/a").last_s, 1000);
  EXPECT_FALSE(dispatcher_->Seen("workers/a").silent);
  dispatcher_->PollerGone(poll.id, /*broke=*/false);
  now_ = 1009;
  EXPECT_FALSE(dispatcher_->Seen("workers/a").silent);
  now_ = 1011;
  EXPECT_TRUE(dispatcher_->Seen("workers/a").silent);
  EXPECT_EQ(dispatcher_->Seen("workers/a").last_s, 1000);
  dispatcher_->Deregistered(a);
  EXPECT_EQ(dispatcher_->Seen("workers/a").last_s, 0);
}

TEST_F(DispatcherTest, CloseEndsAllCalls) {
  const WorkerSession a = Register("workers/a", 1);
  Enqueue("tp=1", 1);
  const Lease lease = LeaseOf(Begin(a));
  const Poll poll = Begin(a);
  const Renewal renewal = Renew(lease);
  dispatcher_->Close();
  EXPECT_EQ(poll.answer.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(renewal.answer.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Begin(a).answer.Wait().status().code(), absl::StatusCode::kUnavailable);
  dispatcher_->Close();
}

}  // namespace
}  // namespace autocfg::server
