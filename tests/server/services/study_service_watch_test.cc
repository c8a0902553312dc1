// StudyService over the wire: the WatchStudy stream.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "server/services/study_service.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

TEST_F(StudyServiceTest, WatcherSeesWhenWorkWaitsAndWhenItContinues) {
  const std::string name = Create(SmallSpec()).name();
  ASSERT_TRUE(Start(name).ok());
  std::unique_ptr<FakeWorker> worker;
  std::string waited;
  const Stream stream = Watch(name, 0, [&](const v1::StudyEvent& event) {
    if (!event.study().waiting().empty() && worker == nullptr) {
      waited = event.study().waiting();
      EXPECT_EQ(Get(name).waiting(), waited);
      v1::ListStudiesResponse list;
      EXPECT_TRUE(Call(studies_, &v1::StudyService::Stub::ListStudies, v1::ListStudiesRequest(), &list).ok());
      EXPECT_EQ(list.studies(0).waiting(), waited);
      worker = std::make_unique<FakeWorker>(coordinator_->address());
    }
    return false;
  });
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  EXPECT_THAT(waited, HasSubstr("worker"));
  EXPECT_EQ(stream.events.back().study().state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(stream.events.back().study().waiting(), "");
}

TEST_F(StudyServiceTest, WatcherSeesEveryTrialAndTheEnd) {
  const std::string name = Create(SmallSpec()).name();
  // An event shows the study as it is when the event is sent. So a phase lasts until the watcher has seen it.
  absl::Notification calibrating;
  absl::Notification measuring;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    (job.has_calibrate() ? calibrating : measuring).WaitForNotificationWithTimeout(absl::Seconds(20));
    return FakeWorker::ByFormula(job);
  });
  Stream stream;
  std::thread watching([&] {
    stream = Watch(name, 0, [&](const v1::StudyEvent& event) {
      for (const auto& [phase, seen] : {std::pair("calibrating", &calibrating), {"measuring", &measuring}}) {
        if (event.study().phase() == phase && !seen->HasBeenNotified()) seen->Notify();
      }
      return false;
    });
  });
  ASSERT_TRUE(Start(name).ok());
  watching.join();
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  std::int64_t cursor = 0;
  std::map<std::string, v1::TrialState> last;
  std::set<std::string> phases;
  for (const v1::StudyEvent& event : stream.events) {
    EXPECT_GT(event.cursor(), cursor);
    cursor = event.cursor();
    EXPECT_EQ(event.study().name(), name);
    phases.insert(event.study().phase());
    if (event.has_trial()) last[event.trial().name()] = event.trial().state();
  }
  const std::vector<v1::Trial> trials = Trials(name);
  EXPECT_EQ(last.size(), trials.size());
  for (const v1::Trial& trial : trials) EXPECT_EQ(last[trial.name()], trial.state());
  EXPECT_EQ(stream.events.back().study().state(), v1::STUDY_STATE_DONE);
  EXPECT_TRUE(stream.events.back().study().has_best());
  EXPECT_TRUE(phases.contains("calibrating"));
  EXPECT_TRUE(phases.contains("measuring"));
  EXPECT_TRUE(phases.contains("done"));
}

TEST_F(StudyServiceTest, StreamResumesAfterItsCursor) {
  const std::string name = Create(SmallSpec()).name();
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(name).ok());
  std::int64_t cursor = 0;
  std::map<std::string, v1::TrialState> last;
  // Disconnects after every third event.
  v1::StudyState state = v1::STUDY_STATE_RUNNING;
  int streams = 0;
  while (state != v1::STUDY_STATE_DONE && ++streams < 1000) {
    int seen = 0;
    for (const v1::StudyEvent& event :
         Watch(name, cursor, [&](const v1::StudyEvent&) { return ++seen == 3; }).events) {
      EXPECT_GT(event.cursor(), cursor);
      cursor = event.cursor();
      state = event.study().state();
      if (event.has_trial()) last[event.trial().name()] = event.trial().state();
    }
  }
  EXPECT_GT(streams, 2);
  // The last events may have been those of trials; the rest arrives on the next stream.
  for (const v1::StudyEvent& event : Watch(name, cursor).events) {
    if (event.has_trial()) last[event.trial().name()] = event.trial().state();
  }
  for (const v1::Trial& trial : Trials(name)) EXPECT_EQ(last[trial.name()], trial.state()) << trial.name();
  // At the end nothing is left, and an unknown cursor is rejected.
  const Stream rest = Watch(name, Watch(name).events.back().cursor());
  EXPECT_TRUE(rest.status.ok());
  EXPECT_TRUE(rest.events.empty());
  EXPECT_EQ(Watch(name, 1 << 30).status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Watch(name, -1).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

int Threads() {
  int threads = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++threads;
  return threads;
}

TEST_F(StudyServiceTest, DisconnectedWatchersAreReleased) {
  const std::string name = Create(SmallSpec()).name();
  EXPECT_EQ(Watch(name, 0, [](const v1::StudyEvent&) { return true; }).status.error_code(),
            StatusCode::CANCELLED);
  const int before = Threads();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<v1::StudyEvent>>> readers;
    v1::WatchStudyRequest request;
    request.set_name(name);
    for (int i = 0; i < 30; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      readers.push_back(studies_->WatchStudy(contexts.back().get(), request));
      v1::StudyEvent event;
      EXPECT_TRUE(readers.back()->Read(&event));  // the stream is active
    }
    for (int i = 0; i < 30; ++i) {
      contexts[static_cast<std::size_t>(i)]->TryCancel();
      readers[static_cast<std::size_t>(i)]->Finish();
    }
  }
  // Each stream held a thread; they are free again.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Threads() > before + 10 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(Threads(), before + 10);
  EXPECT_EQ(Get(name).name(), name);
}

TEST_F(StudyServiceTest, WatchersAreBoundedAndDoNotBlockCalls) {
  const std::string name = Create(SmallSpec()).name();
  struct Parked {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::StudyEvent>> reader;
  };
  const auto watch = [&](Parked& parked) {
    v1::WatchStudyRequest request;
    request.set_name(name);
    parked.context.set_wait_for_ready(true);
    parked.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    parked.reader = studies_->WatchStudy(&parked.context, request);
    v1::StudyEvent event;
    return parked.reader->Read(&event);
  };
  std::vector<Parked> parked(kMaxWatchers);
  for (Parked& one : parked) ASSERT_TRUE(watch(one));
  Parked refused;
  EXPECT_FALSE(watch(refused));
  const grpc::Status status = refused.reader->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("128 calls watch studies"));
  EXPECT_THAT(status.error_message(), HasSubstr("end one of them"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Get(name).name(), name);
  for (Parked& one : parked) {
    one.context.TryCancel();
    one.reader->Finish();
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool taken = false;
  while (!taken && std::chrono::steady_clock::now() < limit) {
    Parked next;
    taken = watch(next);
    next.context.TryCancel();
    next.reader->Finish();
  }
  EXPECT_TRUE(taken);
}

TEST_F(StudyServiceTest, WatcherSeesShutdownAndDeletion) {
  const std::string name = Create(SmallSpec()).name();
  Stream stream;
  std::thread watching([&] { stream = Watch(name); });
  v1::DeleteStudyRequest remove;
  remove.set_name(name);
  v1::DeleteStudyResponse deleted;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::DeleteStudy, remove, &deleted).ok());
  watching.join();
  EXPECT_EQ(stream.status.error_code(), StatusCode::NOT_FOUND);

  const std::string other = Create(SmallSpec()).name();
  std::atomic<bool> began = false;
  std::thread waiting([&] {
    stream = Watch(other, 0, [&](const v1::StudyEvent&) {
      began = true;
      return false;
    });
  });
  while (!began) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  coordinator_->Shutdown();
  waiting.join();
  EXPECT_EQ(stream.status.error_code(), StatusCode::UNAVAILABLE) << stream.status.error_message();
}

TEST_F(StudyServiceTest, ShutdownEndsStreamsAndParkedCallsWithUnavailable) {
  const std::string name = Create(SmallSpec()).name();
  v1::RegisterWorkerRequest worker;
  worker.set_worker("workers/a");
  worker.set_boot_id("boot");
  worker.mutable_inventory()->set_slots(1);
  v1::RegisterWorkerResponse session;
  ASSERT_TRUE(Call(workers_, &v1::WorkerService::Stub::RegisterWorker, worker, &session).ok());
  constexpr int kWatchers = 16;
  std::atomic<int> began = 0;
  std::vector<grpc::Status> ends(kWatchers + 1);
  std::vector<std::thread> callers;
  for (int i = 0; i < kWatchers; ++i) {
    callers.emplace_back([&, i] {
      ends[static_cast<std::size_t>(i)] = Watch(name, 0, [&](const v1::StudyEvent&) {
                                            ++began;
                                            return false;
                                          }).status;
    });
  }
  callers.emplace_back([&] {
    v1::LeaseWorkRequest request;
    request.set_worker("workers/a");
    request.set_session_epoch(session.session_epoch());
    request.set_wait_s(15);
    v1::LeaseWorkResponse response;
    ends.back() = Call(workers_, &v1::WorkerService::Stub::LeaseWork, request, &response);
  });
  const auto seen = [&] {
    v1::ListWorkersResponse list;
    EXPECT_TRUE(Call(workers_, &v1::WorkerService::Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
    // a parked call counts as a continuous sign of life
    return list.workers(0).last_seen_s() > list.workers(0).register_time_s() + 0.05;
  };
  while (began < kWatchers || !seen()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  coordinator_->Shutdown();
  for (std::thread& caller : callers) caller.join();
  for (const grpc::Status& end : ends)
    EXPECT_EQ(end.error_code(), StatusCode::UNAVAILABLE) << end.error_message();
}

}  // namespace
}  // namespace autocfg::server
