// Coordinators that prune their database.
#include "server/coordinator/pruning.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "server/names/names.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

class CoordinatorPruning : public CoordinatorFixture {};

TEST_F(CoordinatorPruning, LeavesTheRecommendationAsItWas) {
  Open();
  FakeWorker worker(coordinator_->address());
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  ASSERT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  const v1::Recommendation before = Recommend(study.name());
  const std::size_t trials = Trials(study.name()).size();
  worker.Stop();
  const auto pruned = coordinator_->store().Prune({.studies_s = 1}, 1e12);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->reduced.size(), 1u);
  Close();
  Open();  // computed anew, from what is stored
  EXPECT_EQ(Decision(Recommend(study.name())), Decision(before));
  EXPECT_EQ(Trials(study.name()).size(), trials);
}

TEST_F(CoordinatorPruning, PrunesByItself) {
  v1::Study failed;
  failed.set_fingerprint("f");
  {
    auto store = OpenSqliteStore(dir_.File("autocfg.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < 3; ++i) {
      const auto made = (*store)->CreateStudy("", failed, 100 + i);
      ASSERT_TRUE(SetStudyState(**store, *ParseStudyName(made->name()), v1::STUDY_STATE_FAILED).ok());
    }
  }
  auto store = OpenSqliteStore(dir_.File("autocfg.db"));
  ASSERT_TRUE(store.ok()) << store.status();
  CoordinatorOptions options;
  options.address = "unix:" + dir_.File("s");
  options.retention.studies = 1;
  options.first_pruning = std::chrono::duration<double>(0);
  coordinator_ = *Coordinator::Start(*std::move(store), options);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto left = [&] { return coordinator_->store().ListStudies(0, 10)->size(); };
  while (left() > 1 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(left(), 1u);
  EXPECT_TRUE(coordinator_->store().GetStudy(3).ok()) << "the one that ended last";
}

TEST(Pruning, TellsWhatItDeletedAndGoesOn) {
  const auto store = *OpenMemoryStore();
  v1::Study failed;
  failed.set_fingerprint("f");
  const auto add = [&] {
    const auto made = store->CreateStudy("", failed, 100);
    ASSERT_TRUE(SetStudyState(*store, *ParseStudyName(made->name()), v1::STUDY_STATE_FAILED).ok());
  };
  add();
  std::atomic<std::size_t> deleted = 0;
  const Pruning pruning(*store, {.limits = {.studies_s = 10},
                                 .clock = [] { return 200.0; },
                                 .first = std::chrono::duration<double>(0),
                                 .period = std::chrono::duration<double>(0.001),
                                 .on_deleted = [&](const auto& studies) { deleted += studies.size(); }});
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto await = [&](std::size_t count) {
    while (deleted < count && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(deleted, count);
  };
  await(1);
  add();
  await(2);
}

}  // namespace
}  // namespace autocfg::server
