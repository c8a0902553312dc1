// Tests `autocfg search` and `watch` with a coordinator that answers RESOURCE_EXHAUSTED: one accepts no more
// streams, one has a full disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/terminal/console.h"
#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::cli {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kModel =
    R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";

class ExhaustedCoordinatorTest : public server::CoordinatorFixture {
 protected:
  struct Parked {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::StudyEvent>> reader;
  };

  // Opens as many streams as the coordinator accepts, on a study that is not started.
  void TakeAllStreams() {
    v1::WatchStudyRequest request;
    request.set_name(Create(server::SmallSpec()).name());
    while (parked_.size() < 1000) {
      auto one = std::make_unique<Parked>();
      one->context.set_deadline(std::chrono::system_clock::now() + seconds(120));
      one->reader = studies_->WatchStudy(&one->context, request);
      if (v1::StudyEvent event; !one->reader->Read(&event)) {
        ASSERT_EQ(one->reader->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
        return;
      }
      parked_.push_back(std::move(one));
    }
    FAIL() << "no stream is refused";
  }
  void EndStreams() {
    for (const auto& one : parked_) one->context.TryCancel();
    for (const auto& one : parked_) one->reader->Finish();
    parked_.clear();
  }
  void TearDown() override {
    EndStreams();
    server::CoordinatorFixture::TearDown();
  }

  static v1::Inventory FourCores() {
    v1::Inventory inventory;
    inventory.set_slots(4);
    inventory.set_device_kind("cpu");
    inventory.set_physical_cores(4);
    inventory.set_memory_bytes(std::int64_t{4} << 30);
    return inventory;
  }
  std::vector<std::string> SearchArgs(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"search",
                                     "--model",
                                     home_.Write("model.json", kModel),
                                     "--global-batch",
                                     "8",
                                     "--coordinator",
                                     coordinator_->address()};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // Waits until the program has printed `part`. Returns false after `limit` or if the program ends first.
  static bool Says(const ProgramProcess& program, const std::string& part) {
    const auto limit = std::chrono::steady_clock::now() + seconds(30);
    while (program.running() && std::chrono::steady_clock::now() < limit) {
      if (program.err_so_far().find(part) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const ScratchDirectory home_;
  std::vector<std::unique_ptr<Parked>> parked_;
};

constexpr const char* kRefused = "128 calls watch studies";

TEST_F(ExhaustedCoordinatorTest, SearchPollsIfStreamsAreRejected) {
  Open();
  TakeAllStreams();
  std::atomic<bool> go = false;
  server::FakeWorker worker(coordinator_->address(), FourCores(), [&](const v1::Job& job) {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return server::FakeWorker::ByFormula(job);
  });
  ProgramProcess search(home_, SearchArgs({"--max-trials", "2", "--json"}));
  EXPECT_TRUE(Says(search, kRefused)) << search.err_so_far();
  go = true;
  const Finished finished = search.Wait(seconds(60));
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  const auto answer = nlohmann::json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(answer.is_discarded()) << finished.out;
  EXPECT_EQ(answer["best"]["provenance"], "measured");
}

TEST_F(ExhaustedCoordinatorTest, WatchWaitsForAStreamAndMissesNoEvent) {
  Open();
  const v1::Study study = Create(server::SmallSpec());
  server::FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  ASSERT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  TakeAllStreams();
  ProgramProcess watch(home_, {"watch", "--study", study.name(), "--coordinator", coordinator_->address()});
  EXPECT_TRUE(Says(watch, kRefused)) << watch.err_so_far();
  EndStreams();
  const Finished finished = watch.Wait(seconds(60));
  EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  for (const v1::Trial& trial : Trials(study.name()))
    EXPECT_THAT(finished.out, HasSubstr("trial " + trial.name().substr(trial.name().rfind('/') + 1) + " "));
}

TEST_F(ExhaustedCoordinatorTest, SearchOnAFullDiskSaysHowToFollowIt) {
  Open(10, {.max_pages = 56});
  server::FakeWorker worker(coordinator_->address(), FourCores(), server::FakeWorker::ByFormula);
  const Finished finished = RunAutocfg(home_, SearchArgs({"--exhaustive"}));
  EXPECT_EQ(finished.exit_code, kExitUnreachable) << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err,
              HasSubstr("study 1 continues there once it has room again: autocfg watch --coordinator " +
                        coordinator_->address() + " --study 1"));
  EXPECT_THAT(finished.err, HasSubstr("no space for database"));
  EXPECT_EQ(Get("studies/1").state(), v1::STUDY_STATE_RUNNING);
}

TEST_F(ExhaustedCoordinatorTest, FullDiskIsNotAUsageError) {
  Open(10, {.max_pages = 56});
  server::FakeWorker worker(coordinator_->address(), FourCores(), server::FakeWorker::ByFormula);
  // Creates studies until the database is full.
  bool room = true;
  for (int i = 0; i < 1000 && room; ++i) room = CreateStatus(server::SmallSpec()).ok();
  ASSERT_FALSE(room);
  const Finished finished = RunAutocfg(home_, SearchArgs({}));
  EXPECT_EQ(finished.exit_code, kExitUnreachable) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("no space for database"));
}

}  // namespace
}  // namespace autocfg::cli
