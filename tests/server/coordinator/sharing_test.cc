// One owner submits many studies: another owner's study starts with the next slot, and ends first.
//
// AUTOCFG_FAULT_ROUNDS=all: 5,000 studies. Default: 300.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "server/names/names.h"
#include "server/studies/search_problem.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

int ManyStudies() {
  const char* const given = ::getenv("AUTOCFG_FAULT_ROUNDS");
  return given != nullptr && std::string_view(given) == "all" ? 5000 : 300;
}

class CoordinatorSharing : public CoordinatorFixture {
 protected:
  // Stores running studies of another owner, for a coordinator that starts later.
  std::vector<std::int64_t> StoreStudies(const std::string& owner, int count) {
    std::vector<std::int64_t> studies;
    auto store = OpenSqliteStore(dir_.File("autocfg.db"));
    EXPECT_TRUE(store.ok()) << store.status();
    v1::Study study;
    *study.mutable_spec() = ToProto(*ParseSearchSpec(SmallSpec()));
    study.set_owner(owner);
    study.set_weight(1);
    for (int i = 0; i < count; ++i) {
      studies.push_back(*ParseStudyName((*store)->CreateStudy("", study, 1)->name()));
      EXPECT_TRUE(SetStudyState(**store, studies.back(), v1::STUDY_STATE_RUNNING).ok());
    }
    return studies;
  }
};

TEST_F(CoordinatorSharing, StudyOfAnotherOwnerStartsWithinOneTrial) {
  const std::vector<std::int64_t> many = StoreStudies("many", ManyStudies());
  Open();
  std::atomic<std::int64_t> other = 0;
  std::atomic<int> jobs = 0, passed = 0;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    ++jobs;
    // It is queued when a job of the others begins.
    if (other != 0 && !job.name().starts_with(StudyName(other) + "/") &&
        coordinator_->store().CalibrationState(other)->first == v1::TRIAL_STATE_QUEUED) {
      ++passed;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeWorker::ByFormula(job);
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (jobs < 20 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_GE(jobs, 20) << "the studies of one owner have begun";
  const v1::Study study = Create(SmallSpec());
  EXPECT_EQ(study.owner(), "tester");
  other = *ParseStudyName(study.name());
  ASSERT_TRUE(Start(study.name()).ok());
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_LE(passed, 1) << "at most the one that was given out at that moment";
  EXPECT_GT(Trials(study.name()).size(), 3u);
  int running = 0;
  for (const std::int64_t id : many)
    running += coordinator_->store().GetStudy(id)->state() == v1::STUDY_STATE_RUNNING ? 1 : 0;
  EXPECT_GT(running, static_cast<int>(many.size()) / 2) << "it did not wait for them";
}

TEST_F(CoordinatorSharing, WeightIsCheckedAndShown) {
  Open();
  v1::CreateStudyRequest request;
  *request.mutable_spec() = SmallSpec();
  for (const double weight : {0.0, -2.0, 101.0}) {
    request.set_weight(weight);
    v1::Study study;
    const grpc::Status status = Call(studies_, &v1::StudyService::Stub::CreateStudy, request, &study);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), fmt::format("weight is {:g}; give a number from 0.01 to 100", weight));
  }
  request.set_weight(2.5);
  v1::Study study;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::CreateStudy, request, &study).ok());
  EXPECT_EQ(study.weight(), 2.5);
  ASSERT_TRUE(Start(study.name()).ok());
  EXPECT_EQ(Get(study.name()).weight(), 2.5) << "edits leave it as it is";
  EXPECT_EQ(Create(SmallSpec()).weight(), 1);
}

}  // namespace
}  // namespace autocfg::server
