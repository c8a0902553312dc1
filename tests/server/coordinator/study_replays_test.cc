// Recommendations of studies that nobody runs, and the gate before planning.
#include "server/studies/study_replays.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/search_problem.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

bool GoOn(const PlanningProgress&) { return true; }
bool GiveUp(const PlanningProgress&) { return false; }

TEST(PlanningGate, LetsInAsManyAsItHasPlaces) {
  PlanningGate gate(2);
  std::optional<PlanningGate::Place> first = gate.Enter(GoOn), second = gate.Enter(GoOn);
  ASSERT_TRUE(first && second);
  int asked = 0;
  EXPECT_FALSE(gate.Enter([&](const PlanningProgress&) { return ++asked < 3; }));
  EXPECT_EQ(asked, 3) << "it is asked while it waits";
  first.reset();
  EXPECT_TRUE(gate.Enter(GoOn));
  EXPECT_FALSE(gate.Enter(GiveUp)) << "who gives up takes no place";
  EXPECT_TRUE(gate.Enter(GoOn));
}

TEST(PlanningGate, OwnersTakeTurns) {
  PlanningGate gate(1);
  std::optional<PlanningGate::Place> place = gate.Enter(GoOn, "many");
  ASSERT_TRUE(place);
  absl::Mutex mutex;
  std::string entered;
  std::vector<std::thread> threads;
  std::atomic<int> waiting = 0;
  const auto enter = [&](const std::string& owner) {
    const int before = waiting;
    threads.emplace_back([&, owner] {
      const auto counts = [&, counted = false](const PlanningProgress&) mutable {
        if (!std::exchange(counted, true)) ++waiting;
        return true;
      };
      const auto own = gate.Enter(counts, owner);
      absl::MutexLock lock(&mutex);
      entered += owner + " ";
    });
    while (waiting == before) std::this_thread::yield();
  };
  for (const char* owner : {"many", "many", "one", "two", "many", "one"}) enter(owner);
  place.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entered, "one two many one many many ");
}

class StudyReplaysTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    v1::Study study;
    *study.mutable_spec() = ToProto(*ParseSearchSpec(SmallSpec()));
    study_ = *ParseStudyName(store_->CreateStudy("", study, 1)->name());
    ASSERT_TRUE(SetStudyState(*store_, study_, v1::STUDY_STATE_RUNNING).ok());
  }

  std::unique_ptr<Store> store_;
  std::int64_t study_ = 0;
};

TEST_F(StudyReplaysTest, ComputesOncePerChangeOfTheStudy) {
  StudyReplays replays(*store_);
  EXPECT_TRUE(absl::IsCancelled(replays.Recommend(study_, GiveUp).status()));
  const auto answer = replays.Recommend(study_, GoOn);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GT(answer->counts().predicted(), 0);
  const auto again = replays.Recommend(study_, GiveUp);
  ASSERT_TRUE(again.ok()) << "nothing is planned again: " << again.status();
  EXPECT_EQ(again->counts().predicted(), answer->counts().predicted());
  ASSERT_TRUE(SetStudyState(*store_, study_, v1::STUDY_STATE_PAUSED).ok());
  EXPECT_TRUE(absl::IsCancelled(replays.Recommend(study_, GiveUp).status())) << "it has changed";
  EXPECT_TRUE(replays.Recommend(study_, GoOn).ok());
}

TEST_F(StudyReplaysTest, UnknownStudyIsNotFound) {
  StudyReplays replays(*store_);
  EXPECT_TRUE(absl::IsNotFound(replays.Recommend(99, GoOn).status()));
}

TEST_F(StudyReplaysTest, WaitsForItsTurnNoLongerThanWanted) {
  StudyReplays replays(*store_, /*at_once=*/0);
  EXPECT_TRUE(absl::IsCancelled(replays.Recommend(study_, GiveUp).status()));
}

}  // namespace
}  // namespace autocfg::server
