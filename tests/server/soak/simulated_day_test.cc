// A coordinator that works through many small studies in 24 simulated hours: each ends with its answer, the
// lists have them all, and memory does not grow with them.
//
// AUTOCFG_SOAK_STUDIES: number of studies (default 40). AUTOCFG_SOAK_OUTPUT: a file for the figures, as JSON.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/store/retention.h"
#include "spdlog/spdlog.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kDayS = 86400;
constexpr int kHours = 24;
constexpr int kClients = 8;
constexpr int kSoakWorkers = 4;
constexpr int kSamples = 20;                   // of the memory
constexpr std::int64_t kEnoughToJudge = 2000;  // studies, after which memory must not grow
constexpr std::int64_t kMostBytes = 200'000'000;

// About ten plans; each study is a question of its own.
v1::SearchSpec TinySpec(std::int64_t number) {
  v1::SearchSpec spec = ExhaustiveSpec();
  spec.mutable_model()->set_name(fmt::format("tiny-{}", number));
  spec.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(2);
  for (const auto& [option, value] :
       {std::pair("schedule", "1f1b"), {"mbs", "<=2"}, {"zero", "0"}, {"sp", "0"}, {"vpp", "1"}}) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(option);
    axis.add_values(value);
  }
  return spec;
}

std::int64_t SoakResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all_pages = 0, resident_pages = 0;
  file >> all_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

class SimulatedDay : public CoordinatorFixture {
 protected:
  void SetUp() override {
    if (const char* given = ::getenv("AUTOCFG_SOAK_STUDIES")) studies_wanted_ = std::atoll(given);
    ASSERT_GE(studies_wanted_, kHours);
    spdlog::set_level(spdlog::level::warn);
    auto store = OpenSqliteStore(dir_.File("autocfg.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    CoordinatorOptions options;
    options.address = "unix:" + dir_.File("s");
    options.lease_duration_s = kDayS;  // the clock leaps
    options.clock = [this] { return now_s_.load(); };
    auto coordinator = Coordinator::Start(*std::move(store), options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    channel_ = grpc::CreateChannel(coordinator_->address(), grpc::InsecureChannelCredentials());
    studies_ = v1::StudyService::NewStub(channel_);
  }
  void TearDown() override {
    CoordinatorFixture::TearDown();
    spdlog::set_level(spdlog::level::info);
  }

  // Creates, starts and follows one study after another.
  void Submit() {
    for (std::int64_t number = 0; (number = ++begun_) <= studies_wanted_;) {
      const v1::Study study = Create(TinySpec(number));
      EXPECT_TRUE(Start(study.name()).ok());
      EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE) << study.name();
      const v1::Recommendation answer = Recommend(study.name());
      EXPECT_TRUE(answer.has_best()) << study.name();
      const auto trials = static_cast<std::int64_t>(Trials(study.name()).size());
      EXPECT_GT(trials, 0) << study.name();
      trials_ += trials;
      Pass(kDayS / static_cast<double>(studies_wanted_));
      const std::int64_t ended = ++ended_;
      // The hours of the simulated clock; the coordinator's own pruning goes by the real one.
      if (ended % (studies_wanted_ / kHours) == 0) {
        const auto pruned = coordinator_->store().Prune(RetentionLimits{}, now_s_);
        EXPECT_TRUE(pruned.ok()) << pruned.status();
      }
      if (testing::Test::HasFailure()) {
        begun_ = studies_wanted_;
        return;
      }
    }
  }
  void Pass(double seconds) {
    for (double now_s = now_s_; !now_s_.compare_exchange_weak(now_s, now_s + seconds);) {
    }
  }

  // Lists a page; adds its duration to `took_s`. Returns the token of the next page.
  std::string List(const std::string& token, std::vector<double>& took_s, std::set<std::string>& names) {
    v1::ListStudiesRequest request;
    request.set_page_token(token);
    v1::ListStudiesResponse response;
    const auto begin = SteadyClock::now();
    const grpc::Status status = Call(studies_, &v1::StudyService::Stub::ListStudies, request, &response);
    took_s.push_back(std::chrono::duration<double>(SteadyClock::now() - begin).count());
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (const v1::Study& study : response.studies()) names.insert(study.name());
    return response.next_page_token();
  }

  std::int64_t studies_wanted_ = 40;
  std::atomic<double> now_s_{1.8e9};
  std::atomic<std::int64_t> begun_ = 0, ended_ = 0, trials_ = 0;
};

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.at(
      std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size()))));
}

TEST_F(SimulatedDay, MemoryDoesNotGrowWithTheStudies) {
  std::vector<std::unique_ptr<FakeWorker>> workers;
  for (int i = 0; i < kSoakWorkers; ++i) {
    workers.push_back(std::make_unique<FakeWorker>(coordinator_->address(), FakeWorker::ByFormula, "boot", 4,
                                                   fmt::format("workers/soak-{}", i)));
    workers.back()->ForgetRuns();
  }
  const auto begin = SteadyClock::now();
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back([this] { Submit(); });
  std::vector<std::int64_t> resident_bytes;  // after each part of the studies
  std::vector<double> first_pages_s, pages_s;
  std::set<std::string> seen;
  std::string token;
  while (ended_ < studies_wanted_ && !testing::Test::HasFailure()) {
    List("", first_pages_s, seen);
    token = List(token, pages_s, seen);
    while (static_cast<std::int64_t>(resident_bytes.size() + 1) * studies_wanted_ / kSamples <= ended_)
      resident_bytes.push_back(SoakResidentBytes());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (std::thread& client : clients) client.join();
  const double took_s = std::chrono::duration<double>(SteadyClock::now() - begin).count();
  while (resident_bytes.size() < kSamples) resident_bytes.push_back(SoakResidentBytes());
  EXPECT_EQ(ended_, studies_wanted_);
  EXPECT_NEAR(now_s_ - 1.8e9, kDayS, 1);

  std::vector<double> idle_pages_s;  // nothing else is asked of the coordinator
  std::set<std::string> names;
  token.clear();
  do {
    token = List(token, idle_pages_s, names);
  } while (!token.empty());
  EXPECT_EQ(static_cast<std::int64_t>(names.size()), studies_wanted_);

  const nlohmann::ordered_json figures{
      {"studies", studies_wanted_},
      {"trials", trials_.load()},
      {"simulated_hours", kHours},
      {"took_s", took_s},
      {"resident_bytes", resident_bytes},
      {"list_studies_s",
       {{"first_page", {{"p50", Percentile(first_pages_s, 0.5)}, {"p99", Percentile(first_pages_s, 0.99)}}},
        {"all_pages", {{"p50", Percentile(pages_s, 0.5)}, {"p99", Percentile(pages_s, 0.99)}}},
        {"all_pages_idle",
         {{"p50", Percentile(idle_pages_s, 0.5)}, {"p99", Percentile(idle_pages_s, 0.99)}}}}}};
  if (const char* output = ::getenv("AUTOCFG_SOAK_OUTPUT")) std::ofstream(output) << figures.dump(1) << "\n";
  if (studies_wanted_ < kEnoughToJudge) return;
  const auto last = static_cast<double>(resident_bytes.back());
  EXPECT_LT(last, 1.05 * static_cast<double>(resident_bytes.at(kSamples * 3 / 4 - 1))) << figures.dump();
  EXPECT_LT(last, kMostBytes) << figures.dump();
}

}  // namespace
}  // namespace autocfg::server
