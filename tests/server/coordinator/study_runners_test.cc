// Runners with failing storage, without threads, or waiting for their turn; and what is kept of ended
// studies.
#include "server/studies/study_runners.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "SQLiteCpp/Database.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/spec_convert.h"
#include "search/text/cluster_json.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/planning_gate.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_run.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/log_lines.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kNever = std::chrono::hours(1);

class StudyRunnersTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenSqliteStore(dir_.File("a.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    store_->OnChange([this](const StoreChange& change) { notifier_.StoreChanged(change); });
  }
  void TearDown() override { runners_.reset(); }

  void Open(StudyRunnersOptions options = {}, base::Clock clock = base::SystemClock()) {
    runners_ = std::make_unique<StudyRunners>(
        *store_, notifier_, std::move(clock), [] { return std::vector<WorkerRecord>(); }, std::move(options));
  }
  static StudyRunnersOptions Pauses(milliseconds shortest, milliseconds longest) {
    StudyRunnersOptions options;
    options.shortest_pause = shortest;
    options.longest_pause = longest;
    return options;
  }

  std::int64_t Create(const v1::SearchSpec& spec, v1::StudyState state = v1::STUDY_STATE_RUNNING,
                      const std::string& owner = "me") {
    v1::Study study;
    study.set_owner(owner);
    *study.mutable_spec() = ToProto(*ParseSearchSpec(spec));
    const auto created = store_->CreateStudy("", study, 1);
    EXPECT_TRUE(created.ok()) << created.status();
    const std::int64_t id = *ParseStudyName(created->name());
    SetState(id, state);
    return id;
  }
  // A study that waits for a worker to calibrate.
  std::int64_t CreateMeasured(const std::string& owner = "me") {
    return Create(SmallSpec(), v1::STUDY_STATE_RUNNING, owner);
  }
  // A study that ends by itself.
  std::int64_t CreatePredicted() {
    v1::SearchSpec spec = SmallSpec();
    *spec.mutable_cluster() = ToProto(*PresetCluster("a100-80gb-sxm:2x4"));
    spec.mutable_workload()->set_precision("");
    spec.set_predict_only(true);
    return Create(spec);
  }
  void SetState(std::int64_t study, v1::StudyState state) {
    const absl::Status status = SetStudyState(*store_, study, state);
    EXPECT_TRUE(status.ok()) << status;
  }

  // Simulates another program in the same database: jobs cannot be stored until MendJobs.
  void BreakJobs() {
    SQLite::Database(dir_.File("a.db"), SQLite::OPEN_READWRITE, 5000)
        .exec("CREATE TRIGGER broken BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'no jobs today'); END");
  }
  void MendJobs() {
    SQLite::Database(dir_.File("a.db"), SQLite::OPEN_READWRITE, 5000).exec("DROP TRIGGER broken");
  }

  static bool Becomes(const std::function<bool()>& condition) {
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (!condition() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(2));
    return condition();
  }
  bool FailsOn(std::int64_t study) {
    return Becomes([&] { return !runners_->Error(study).ok(); });
  }
  bool WaitsForWorkers(std::int64_t study) {
    return Becomes([&] {
      const auto state = store_->CalibrationState(study);
      return state.ok() && state->first == v1::TRIAL_STATE_QUEUED && runners_->Error(study).ok();
    });
  }
  bool Ends(std::int64_t study) {
    return Becomes([&] { return IsEnd(store_->GetStudy(study)->state()); });
  }

  TempDir dir_;
  LogLines log_;
  std::unique_ptr<Store> store_;
  Notifier notifier_;
  std::unique_ptr<StudyRunners> runners_;
};

TEST_F(StudyRunnersTest, WaitingStudyDoesNotPoll) {
  std::atomic<int> looks = 0;
  // The clock stands still, so that there is no used time to store.
  Open({}, [&looks] { return static_cast<double>(++looks) * 0; });
  const std::int64_t id = CreateMeasured();
  runners_->Start(id);
  ASSERT_TRUE(WaitsForWorkers(id));
  int before = -1;
  for (int i = 0; i < 20 && before != looks; ++i) {  // it settles
    before = looks;
    absl::SleepFor(absl::Milliseconds(500));
  }
  absl::SleepFor(absl::Milliseconds(2200));
  EXPECT_EQ(looks, before);
  SetState(id, v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(Becomes([&] { return looks > before; })) << "that is told";
}

// The runner then looks whether the study was resumed meanwhile.
TEST_F(StudyRunnersTest, RunOfAStudyThatIsPausedInItsLastMomentIsInterrupted) {
  // Runs a study, and pauses it when its answer is published for the `pause_at`-th time.
  const auto run = [&](std::int64_t study, int pause_at) {
    int published = 0;
    PlanningGate gate(1);
    const base::Clock clock = base::SystemClock();
    const PresentWorkers workers = [] { return std::vector<WorkerRecord>(); };
    const std::atomic<bool> outdated = false;
    StudyRun studied(*store_, notifier_, gate, clock, workers, study,
                     {.begins = [] {},
                      .publish =
                          [&](const v1::Recommendation&) {
                            if (++published == pause_at) SetState(study, v1::STUDY_STATE_PAUSED);
                          },
                      .got_on = [] {}},
                     outdated, /*most_planning_s=*/600);
    return std::pair(studied.Run(), published);
  };
  const auto [ended, published] = run(CreatePredicted(), 0);
  EXPECT_TRUE(ended.ok()) << ended;
  const std::int64_t study = CreatePredicted();
  const absl::Status interrupted = run(study, published).first;
  EXPECT_TRUE(absl::IsCancelled(interrupted)) << interrupted;
  EXPECT_EQ(store_->GetStudy(study)->state(), v1::STUDY_STATE_PAUSED);
}

TEST_F(StudyRunnersTest, TransientStorageFailureIsRetried) {
  Open(Pauses(milliseconds(10), milliseconds(40)));
  const std::int64_t study = CreateMeasured();
  BreakJobs();
  runners_->Start(study);
  ASSERT_TRUE(FailsOn(study));
  EXPECT_THAT(runners_->Error(study).ToString(), HasSubstr("no jobs today"));
  EXPECT_THAT(runners_->Waiting(study), HasSubstr("no jobs today"));
  absl::SleepFor(absl::Milliseconds(200));  // retries are not logged
  EXPECT_FALSE(runners_->Error(study).ok());
  EXPECT_EQ(log_.Count("studies/1 waits for its storage; retrying: INTERNAL"), 1);
  EXPECT_EQ(log_.Count("studies/1 continues"), 0);
  MendJobs();
  EXPECT_TRUE(WaitsForWorkers(study)) << "nobody works on it";
  EXPECT_EQ(runners_->Waiting(study), "");
  EXPECT_TRUE(Becomes([&] { return log_.Count("studies/1 continues: its storage works again") == 1; }));
  EXPECT_EQ(log_.Count("studies/1 is RUNNING"), 1);
  EXPECT_EQ(log_.lines().size(), 3u) << testing::PrintToString(log_.lines());
}

TEST_F(StudyRunnersTest, BackoffGrowsUpToItsLimit) {
  Open(Pauses(milliseconds(20), milliseconds(80)));
  v1::SearchSpec spec = SmallSpec();  // planned at once: each retry edits the row twice
  for (const char* name : {"sp", "zero", "p2p_overlap", "scatter_gather"}) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    axis.add_values("0");
  }
  spec.set_fresh(true);  // otherwise each try waits 0.5 s for a worker whose op times are known
  const std::int64_t study = Create(spec);
  BreakJobs();
  // each retry edits the row
  const auto looks = [&] { return static_cast<int>(*store_->ChangeCursor(study)); };
  runners_->Start(study);
  ASSERT_TRUE(FailsOn(study));
  constexpr int kTries = 10;
  const absl::Time begin = absl::Now();
  const int before = looks();
  EXPECT_TRUE(Becomes([&] { return looks() >= before + 2 * kTries; }));
  const int tries = (looks() - before) / 2;
  const auto passed = absl::ToInt64Milliseconds(absl::Now() - begin);
  EXPECT_LE(tries, passed / 80 + 3);  // 20 + 40 + 80 + 80 ...; it would be passed / 20 without backoff
}

TEST_F(StudyRunnersTest, StartEndsTheWait) {
  Open(Pauses(kNever, kNever));
  const std::int64_t study = CreateMeasured();
  BreakJobs();
  runners_->Start(study);
  ASSERT_TRUE(FailsOn(study));
  runners_->Start(study);
  ASSERT_TRUE(FailsOn(study)) << "who starts it while the storage fails is told";
  MendJobs();
  runners_->Restart(study);
  EXPECT_TRUE(WaitsForWorkers(study));
  // Ending the server ends such a wait too.
  const std::int64_t other = CreateMeasured();
  BreakJobs();
  runners_->Start(other);
  ASSERT_TRUE(FailsOn(other));
  const absl::Time began = absl::Now();
  runners_->Stop();
  EXPECT_LT(absl::Now() - began, absl::Seconds(10));
}

TEST_F(StudyRunnersTest, PauseEndsTheWait) {
  Open(Pauses(milliseconds(10), milliseconds(10)));
  const std::int64_t study = CreateMeasured();
  BreakJobs();
  runners_->Start(study);
  ASSERT_TRUE(FailsOn(study));
  runners_->Forget(study);
  EXPECT_FALSE(runners_->Error(study).ok()) << "it is RUNNING: perhaps resumed meanwhile";
  SetState(study, v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(Becomes([&] { return runners_->Error(study).ok(); })) << "its runner finds out";
  SetState(study, v1::STUDY_STATE_RUNNING);
  MendJobs();
  runners_->Start(study);
  EXPECT_TRUE(WaitsForWorkers(study));
}

TEST_F(StudyRunnersTest, PermanentFailureEndsTheRunner) {
  Open(Pauses(milliseconds(5), milliseconds(5)));
  const std::int64_t study = CreateMeasured();
  SQLite::Database(dir_.File("a.db"), SQLite::OPEN_READWRITE, 5000)
      .exec("INSERT INTO calibrations (study, device_overhead_bytes, result) VALUES (1, 0, x'ff')");
  runners_->Start(study);
  ASSERT_TRUE(FailsOn(study));
  EXPECT_TRUE(absl::IsDataLoss(runners_->Error(study))) << runners_->Error(study);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(log_.Count("studies/1 is RUNNING"), 1);
  EXPECT_EQ(log_.Count("studies/1 cannot continue: DATA_LOSS"), 1);
  EXPECT_THAT(runners_->Waiting(study), HasSubstr("damaged"));
  SetState(study, v1::STUDY_STATE_CANCELLED);
  runners_->Forget(study);
  EXPECT_TRUE(runners_->Error(study).ok());
}

TEST_F(StudyRunnersTest, StudyWithoutThreadIsRetried) {
  StudyRunnersOptions options = Pauses(milliseconds(10), milliseconds(40));
  std::atomic<bool> none = true;
  options.new_thread = [&](std::function<void()> body) {
    if (none) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return std::thread(std::move(body));
  };
  Open(options);
  const std::int64_t first = CreateMeasured();
  const std::int64_t second = CreateMeasured();
  runners_->Start(first);
  runners_->Start(second);
  for (const std::int64_t study : {first, second}) {
    EXPECT_TRUE(Becomes([&] { return !runners_->Waiting(study).empty(); }));
    EXPECT_THAT(runners_->Waiting(study), HasSubstr("cannot create a thread"));
    EXPECT_TRUE(runners_->Error(study).ok());
  }
  absl::SleepFor(absl::Milliseconds(150));
  EXPECT_EQ(log_.Count("cannot create a thread"), 1);
  none = false;
  EXPECT_TRUE(WaitsForWorkers(first));
  EXPECT_TRUE(WaitsForWorkers(second));
  EXPECT_EQ(runners_->Waiting(second), "");
  EXPECT_EQ(log_.Count("a thread is available again"), 1);
}

TEST_F(StudyRunnersTest, SurplusStudiesWaitForTheirTurn) {
  StudyRunnersOptions options;
  options.at_once = 3;
  Open(options);
  std::vector<std::int64_t> studies;
  for (int i = 0; i < 4; ++i) {
    studies.push_back(CreateMeasured());
    runners_->Start(studies.back());
  }
  EXPECT_TRUE(WaitsForWorkers(studies[0]));
  EXPECT_TRUE(WaitsForWorkers(studies[1]));
  EXPECT_TRUE(Becomes([&] { return !runners_->Waiting(studies[2]).empty(); }));
  EXPECT_THAT(runners_->Waiting(studies[3]), HasSubstr("2 other studies of its owner are running"));
  EXPECT_TRUE(runners_->Error(studies[3]).ok());
  EXPECT_EQ(store_->CalibrationState(studies[2])->first, v1::TRIAL_STATE_UNSPECIFIED);
  SetState(studies[0], v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(WaitsForWorkers(studies[2]));
  EXPECT_EQ(store_->CalibrationState(studies[3])->first, v1::TRIAL_STATE_UNSPECIFIED);
  // A study that was paused before its turn is skipped.
  SetState(studies[3], v1::STUDY_STATE_PAUSED);
  runners_->Forget(studies[3]);
  SetState(studies[0], v1::STUDY_STATE_RUNNING);
  runners_->Start(studies[0]);
  SetState(studies[1], v1::STUDY_STATE_CANCELLED);
  EXPECT_TRUE(Becomes([&] { return runners_->Waiting(studies[0]).empty(); }));
  EXPECT_EQ(store_->CalibrationState(studies[3])->first, v1::TRIAL_STATE_UNSPECIFIED);
}

TEST_F(StudyRunnersTest, OwnerLeavesPlacesToOthers) {
  StudyRunnersOptions options;
  options.at_once = 4;
  Open(options);
  std::vector<std::int64_t> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(CreateMeasured("many"));
    runners_->Start(many.back());
  }
  EXPECT_TRUE(WaitsForWorkers(many[0]));
  EXPECT_TRUE(WaitsForWorkers(many[1]));
  const std::int64_t one = CreateMeasured("one"), another = CreateMeasured("another");
  runners_->Start(one);
  EXPECT_TRUE(WaitsForWorkers(one)) << "half of the places are free";
  runners_->Start(another);
  EXPECT_TRUE(WaitsForWorkers(another));
  const std::int64_t late = CreateMeasured("late");
  runners_->Start(late);
  EXPECT_TRUE(Becomes([&] { return !runners_->Waiting(late).empty(); }));
  EXPECT_THAT(runners_->Waiting(late), HasSubstr("4 other studies are running"));
  SetState(many[0], v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(WaitsForWorkers(late)) << "it comes before those that were started first";
  EXPECT_EQ(store_->CalibrationState(many[2])->first, v1::TRIAL_STATE_UNSPECIFIED);
}

// Studies that wait for their turn to plan: planning is asked the same way whether it waits or goes through
// plans (search_loop_test.cc).
TEST_F(StudyRunnersTest, CancelEndsPlanning) {
  StudyRunnersOptions options;
  options.at_once = 1;
  options.plan_at_once = 0;
  Open(options);
  const std::int64_t planned = CreatePredicted(), next = CreatePredicted();
  runners_->Start(planned);
  ASSERT_TRUE(Becomes([&] { return store_->GetStudy(planned)->phase() == "enumerating"; }));
  runners_->Start(next);
  ASSERT_TRUE(Becomes([&] { return !runners_->Waiting(next).empty(); }));
  SetState(planned, v1::STUDY_STATE_CANCELLED);
  runners_->Forget(planned);
  EXPECT_TRUE(Becomes([&] { return store_->GetStudy(next)->phase() == "enumerating"; }))
      << "its turn has come";
  runners_.reset();  // ends although the study is being planned
  EXPECT_EQ(store_->GetStudy(next)->state(), v1::STUDY_STATE_RUNNING) << "the next coordinator goes on";
}

TEST_F(StudyRunnersTest, BudgetEndsPlanning) {
  StudyRunnersOptions options;
  options.plan_at_once = 0;
  Open(options);
  v1::SearchSpec spec = SmallSpec();
  spec.set_time_budget_s(0.2);
  const std::int64_t study = Create(spec);
  runners_->Start(study);
  ASSERT_TRUE(Ends(study));
  EXPECT_EQ(store_->GetStudy(study)->state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(store_->GetStudy(study)->message(),
              HasSubstr("the time budget of 0.2 s ended the search before it had a plan"));
}

TEST_F(StudyRunnersTest, PlanningEndsAtItsLimit) {
  StudyRunnersOptions options;
  options.most_planning_s = 0;
  Open(options);
  const std::int64_t study = CreatePredicted();
  runners_->Start(study);
  ASSERT_TRUE(Ends(study));
  EXPECT_EQ(store_->GetStudy(study)->state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(
      store_->GetStudy(study)->message(),
      testing::MatchesRegex("planning took 0 s of a core, the most that this coordinator gives a study "
                            ".--max-planning.: planning was stopped after [0-9]+ plans, of which [0-9]+ "
                            "fit; name fewer values with --space, or a smaller batch or cluster"));
  EXPECT_TRUE(store_->GetStudy(study)->without_plans()) << "nobody plans it again for its recommendation";
}

TEST_F(StudyRunnersTest, StudiesPlanInTurns) {
  StudyRunnersOptions options;
  options.plan_at_once = 1;
  Open(options);
  std::vector<std::int64_t> studies;
  for (int i = 0; i < 4; ++i) {
    studies.push_back(CreatePredicted());
    runners_->Start(studies.back());
  }
  for (const std::int64_t study : studies) {
    EXPECT_TRUE(Ends(study));
    EXPECT_EQ(store_->GetStudy(study)->state(), v1::STUDY_STATE_DONE);
  }
}

TEST_F(StudyRunnersTest, KeepsAnswersOfTheLastEndedStudies) {
  Open();
  std::vector<std::int64_t> studies;
  for (int i = 0; i < 18; ++i) {
    studies.push_back(CreatePredicted());
    runners_->Start(studies.back());
    ASSERT_TRUE(Ends(studies.back()));
    if (i == 0) {
      EXPECT_TRUE(runners_->Latest(studies[0]).has_value());
    }
  }
  EXPECT_TRUE(Becomes([&] { return !runners_->Latest(studies[0]).has_value(); })) << "all are kept";
  EXPECT_TRUE(runners_->Latest(studies.back()).has_value());
  EXPECT_TRUE(runners_->Latest(studies[10]).has_value());
  EXPECT_TRUE(store_->DeleteStudy(studies[10]).ok());
  EXPECT_TRUE(Becomes([&] {
    runners_->Forget(studies[10]);
    return !runners_->Latest(studies[10]).has_value();
  }));
  // An interrupted study has no recommendation to keep.
  const std::int64_t paused = CreateMeasured();
  runners_->Start(paused);
  EXPECT_TRUE(WaitsForWorkers(paused));
  EXPECT_TRUE(Becomes([&] { return runners_->Latest(paused).has_value(); }));
  SetState(paused, v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(Becomes([&] { return !runners_->Latest(paused).has_value(); }));
}

// Returns the address space of this process in MiB: an ended thread that is not joined keeps its stack.
std::int64_t AddressSpace() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGESIZE) / (1 << 20);
}

TEST_F(StudyRunnersTest, EndedThreadsAreJoined) {
  mallopt(M_ARENA_MAX, 1);  // each further one, of a planning thread, reserves 64 MiB
  Open();
  constexpr int kStudies = 150;
  const std::int64_t before = AddressSpace();
  for (int i = 0; i < kStudies; ++i) {
    const std::int64_t study = CreatePredicted();
    runners_->Start(study);
    ASSERT_TRUE(Ends(study));
  }
  EXPECT_LT(AddressSpace() - before, 8 * kStudies / 2) << "MiB";
}

}  // namespace
}  // namespace autocfg::server
