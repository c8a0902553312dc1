// Fixture: a memory store with a running study and workers, and answers that tests can wait for.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/os/host.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/sched/dispatcher.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {

constexpr absl::Duration kLong = absl::Seconds(30);  // longer than any of these tests may take

// The answer of a parked call. Shared with the call, so a late answer is safe.
template <typename T>
class Answered {
 public:
  Answered() : state_(std::make_shared<State>()) {}

  // Returns the answer function; it must be called at most once.
  auto Answer() const {
    return [state = state_](absl::StatusOr<T> answer) {
      absl::MutexLock lock(&state->mutex);
      EXPECT_FALSE(state->answer.has_value()) << "answered twice";
      state->answer = std::move(answer);
    };
  }
  bool there() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->answer.has_value();
  }
  absl::StatusOr<T> Wait() const {
    absl::MutexLock lock(&state_->mutex);
    const auto there = [this] { return state_->answer.has_value(); };
    if (!state_->mutex.AwaitWithTimeout(absl::Condition(&there), kLong))
      return absl::DeadlineExceededError("the test: no answer");
    return *state_->answer;
  }

 private:
  struct State {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<T>> answer;
  };
  std::shared_ptr<State> state_;
};

class SchedFixture : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    StartStudy();
  }
  void StartStudy() {
    v1::Study study;
    study.set_fingerprint("f");
    study = *store_->CreateStudy("", study, 0);
    study_ = *ParseStudyName(study.name());
    ASSERT_TRUE(SetStudyState(*store_, study_, v1::STUDY_STATE_RUNNING).ok());
  }

  WorkerSession Register(const std::string& worker, int slots, const std::string& boot = "boot") {
    v1::RegisterWorkerRequest request;
    request.set_worker(worker);
    request.set_boot_id(boot);
    request.mutable_inventory()->set_slots(slots);
    request.mutable_inventory()->set_device_kind("cpu");
    request.mutable_inventory()->set_hostname(worker);
    const auto epoch = store_->RegisterWorker(request, now_);
    EXPECT_TRUE(epoch.ok()) << epoch.status();
    return {worker, epoch.ok() ? *epoch : 0};
  }
  // Returns the trial's number.
  std::int64_t Enqueue(const std::string& plan, int ranks) {
    v1::Trial trial;
    trial.set_plan_text(plan);
    v1::Job job;
    job.set_ranks(ranks);
    job.set_device("cpu");
    job.mutable_train()->set_steps(1);
    const auto queued = store_->EnqueueTrial(study_, trial, job, 2);
    EXPECT_TRUE(queued.ok()) << queued.status();
    return queued.ok() ? ParseTrialName(queued->name())->number : 0;
  }
  v1::TrialState State(std::int64_t trial) { return store_->GetTrial(study_, trial)->state(); }

  std::unique_ptr<Store> store_;
  std::atomic<double> now_ = 100;
  base::Clock clock_ = [this] { return now_.load(); };
  std::int64_t study_ = 0;
};

}  // namespace autocfg::server
