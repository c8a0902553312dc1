// Measures how long a job waits for a worker. There are 200 emulated workers of one slot each. Each worker
// has its own connection and always a call parked at the coordinator (for work, or to renew). Jobs arrive at
// random. The latency is the time from the commit that queues a job to the reply that leases it. Coordinator
// and workers are one process, so both share the machine's cores. The database is a file, and every commit is
// synced. Also counts the renewals, and what the process gave the disk to write.
//
// usage: autocfg_lease_bench [--workers 200] [--seconds 30] [--jobs-per-second 50] [--hold-seconds 1]
//                            [--lease-seconds 10]      Prints JSON.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "server/coordinator/coordinator.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "spdlog/spdlog.h"

namespace autocfg {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

[[noreturn]] void Die(const std::string& what) {
  fmt::print(stderr, "autocfg_lease_bench: {}\n", what);
  std::exit(1);
}

void Check(const grpc::Status& status, const char* what) {
  if (!status.ok()) Die(fmt::format("{}: {}", what, status.error_message()));
}

// Runs functions at scheduled times, on its own thread.
class Timers {
 public:
  Timers() : thread_([this] { Loop(); }) {}
  ~Timers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void After(double seconds, std::function<void()> run) {
    {
      const std::lock_guard lock(mutex_);
      queue_.emplace(SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds)),
                     std::move(run));
    }
    changed_.notify_one();
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (queue_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto first = queue_.begin();
      if (first->first > SteadyClock::now()) {
        changed_.wait_until(lock, first->first);
        continue;
      }
      const auto run = std::move(first->second);
      queue_.erase(first);
      lock.unlock();
      run();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::multimap<SteadyClock::time_point, std::function<void()>> queue_;
  std::thread thread_;
};

// Records when each job was queued and how long it waited.
class Record {
 public:
  void Queued(const std::string& job, SteadyClock::time_point when) {
    const std::lock_guard lock(mutex_);
    queued_[job] = when;
  }
  void Leased(const std::string& job) {
    const auto now = SteadyClock::now();
    const std::lock_guard lock(mutex_);
    const auto found = queued_.find(job);
    // The job was leased before the caller of the commit recorded it: it did not wait.
    waits_s_.push_back(found == queued_.end() ? 0 : Seconds(now - found->second).count());
  }
  void Renewed() { ++renewals_; }
  int renewals() const { return renewals_; }
  std::vector<double> Sorted() {
    const std::lock_guard lock(mutex_);
    std::vector<double> sorted = waits_s_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, SteadyClock::time_point> queued_;
  std::vector<double> waits_s_;
  std::atomic<int> renewals_{0};
};

// Returns how many bytes this process has given the disk to write, and how many calls it made for it.
std::pair<std::int64_t, std::int64_t> Written() {
  std::ifstream file("/proc/self/io");
  std::int64_t bytes = 0, calls = 0;
  for (std::string name; file >> name;) {
    std::int64_t value = 0;
    file >> value;
    if (name == "write_bytes:") bytes = value;
    if (name == "syscw:") calls = value;
  }
  return {bytes, calls};
}

// One in-flight call, which owns its messages.
template <typename Request, typename Response>
struct Flight {
  grpc::ClientContext context;
  Request request;
  Response response;
};

class EmulatedWorker {
 public:
  // `hold_s`: mean duration of a job.
  EmulatedWorker(const std::string& address, int number, double hold_s, double lease_s, Timers& timers,
                 Record& record)
      : name_(fmt::format("workers/emulated-{}", number)),
        hold_s_(hold_s),
        lease_s_(lease_s),
        timers_(timers),
        record_(record),
        random_(static_cast<unsigned>(number)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a separate connection per worker
    stub_ = v1::WorkerService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    v1::RegisterWorkerRequest request;
    request.set_worker(name_);
    request.set_boot_id("bench");
    request.mutable_inventory()->set_device_kind("cpu");
    request.mutable_inventory()->set_hostname(name_);
    request.mutable_inventory()->set_slots(1);
    v1::RegisterWorkerResponse response;
    grpc::ClientContext context;
    Check(stub_->RegisterWorker(&context, request, &response), "register");
    epoch_ = response.session_epoch();
  }

  void Poll() {
    auto flight = std::make_shared<Flight<v1::LeaseWorkRequest, v1::LeaseWorkResponse>>();
    flight->request.set_worker(name_);
    flight->request.set_session_epoch(epoch_);
    flight->request.set_wait_s(20);
    stub_->async()->LeaseWork(
        &flight->context, &flight->request, &flight->response, [this, flight](const grpc::Status& status) {
          if (stopping_) return;
          Check(status, "lease");
          if (!flight->response.has_job()) return Poll();
          record_.Leased(flight->response.job().name());
          const double hold_s = std::exponential_distribution<double>(1 / hold_s_)(random_);
          lease_ = flight->response;
          done_ = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(Seconds(hold_s));
          Renew();
          timers_.After(hold_s, [this] { Report(); });
        });
  }

  void Stop() { stopping_ = true; }

 private:
  void Renew() {
    auto flight = std::make_shared<Flight<v1::RenewLeaseRequest, v1::RenewLeaseResponse>>();
    flight->request.set_worker(name_);
    flight->request.set_session_epoch(epoch_);
    flight->request.set_lease_id(lease_.lease_id());
    flight->request.set_fencing_token(lease_.fencing_token());
    flight->request.set_wait_s(lease_s_ / 3);
    const std::int64_t token = lease_.fencing_token();
    stub_->async()->RenewLease(
        &flight->context, &flight->request, &flight->response,
        [this, flight, token](const grpc::Status& status) {
          // A lease that has been reported meanwhile is no longer held.
          if (stopping_ || token != lease_.fencing_token() || SteadyClock::now() >= done_) return;
          Check(status, "renew");
          record_.Renewed();
          Renew();
        });
  }

  void Report() {
    if (stopping_) return;
    auto flight = std::make_shared<Flight<v1::ReportTrialRequest, v1::ReportTrialResponse>>();
    flight->request.set_worker(name_);
    flight->request.set_session_epoch(epoch_);
    flight->request.set_lease_id(lease_.lease_id());
    flight->request.set_fencing_token(lease_.fencing_token());
    flight->request.set_attempt(lease_.job().attempt());
    flight->request.set_request_id(lease_.lease_id() + "/report");
    flight->request.set_outcome(v1::OUTCOME_MEASURED);
    flight->request.mutable_measurement()->add_step_time_s(1);
    flight->request.mutable_measurement()->set_median_step_time_s(1);
    stub_->async()->ReportTrial(&flight->context, &flight->request, &flight->response,
                                [this, flight](const grpc::Status& status) {
                                  if (stopping_) return;
                                  Check(status, "report");
                                  Poll();
                                });
  }

  const std::string name_;
  const double hold_s_;
  const double lease_s_;
  Timers& timers_;
  Record& record_;
  std::mt19937_64 random_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::int64_t epoch_ = 0;
  v1::LeaseWorkResponse lease_;
  SteadyClock::time_point done_;
  std::atomic<bool> stopping_{false};
};

double Number(int argc, char** argv, const std::string& option, double otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (argv[i] == option) return std::atof(argv[i + 1]);
  }
  return otherwise;
}

int Run(int argc, char** argv) {
  const int count = static_cast<int>(Number(argc, argv, "--workers", 200));
  const double seconds = Number(argc, argv, "--seconds", 30);
  const double rate = Number(argc, argv, "--jobs-per-second", 50);
  const double hold_s = Number(argc, argv, "--hold-seconds", 1);
  const double lease_s = Number(argc, argv, "--lease-seconds", 10);
  if (count <= 0 || seconds <= 0 || rate <= 0 || hold_s <= 0 || lease_s <= 0) {
    Die("--workers, --seconds, --jobs-per-second, --hold-seconds and --lease-seconds are positive numbers");
  }

  spdlog::set_level(spdlog::level::err);  // standard output is reserved for the result
  std::string directory = "/tmp/autocfg_lease_bench_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) Die("no temporary directory");
  auto opened = server::OpenSqliteStore(directory + "/bench.db");
  if (!opened.ok()) Die(std::string(opened.status().message()));
  server::Store& store = **opened;
  server::CoordinatorOptions options;
  options.address = "localhost:0";
  options.lease_duration_s = lease_s;
  auto coordinator = server::Coordinator::Start(*std::move(opened), options);
  if (!coordinator.ok()) Die(std::string(coordinator.status().message()));

  // A running study that no runner works on: this program creates the jobs.
  v1::Study made;
  made.set_fingerprint("bench");
  const auto study = store.CreateStudy("bench", made, 0);
  if (!study.ok()) Die(std::string(study.status().message()));
  const auto running = store.ModifyStudy(*server::ParseStudyName(study->name()), [](v1::Study& edited) {
    edited.set_state(v1::STUDY_STATE_RUNNING);
    return absl::OkStatus();
  });
  if (!running.ok()) Die(std::string(running.status().message()));

  nlohmann::ordered_json result;
  {
    Timers timers;
    Record record;
    std::vector<std::unique_ptr<EmulatedWorker>> workers;
    for (int i = 0; i < count; ++i)
      workers.push_back(
          std::make_unique<EmulatedWorker>((*coordinator)->address(), i, hold_s, lease_s, timers, record));
    for (const auto& worker : workers) worker->Poll();

    std::mt19937_64 random(1);
    std::exponential_distribution<double> gap(rate);
    const auto end = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
    std::vector<double> commits_s;
    const auto [bytes_before, calls_before] = Written();
    auto next = SteadyClock::now();
    for (std::int64_t number = 1; SteadyClock::now() < end; ++number) {
      next += std::chrono::duration_cast<SteadyClock::duration>(Seconds(gap(random)));
      std::this_thread::sleep_until(next);
      v1::Trial trial;
      trial.set_plan_text(fmt::format("plan {}", number));
      v1::Job job;
      job.set_ranks(1);
      job.set_device("cpu");
      job.mutable_train()->set_steps(1);
      const auto began = SteadyClock::now();
      const auto queued = store.EnqueueTrial(1, trial, job, 3);
      const auto now = SteadyClock::now();
      if (!queued.ok()) Die(std::string(queued.status().message()));
      record.Queued(queued->name(), now);
      commits_s.push_back(Seconds(now - began).count());
    }
    std::this_thread::sleep_for(Seconds(2));
    for (const auto& worker : workers) worker->Stop();
    (*coordinator)->Shutdown();  // ends the parked calls
    std::this_thread::sleep_for(Seconds(0.5));

    const auto [written, calls] = Written();
    std::vector<double> waits_s = record.Sorted();
    std::sort(commits_s.begin(), commits_s.end());
    if (waits_s.empty()) Die("no job was leased");
    const auto at = [](const std::vector<double>& sorted, double share) {
      return sorted[std::min(sorted.size() - 1,
                             static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
    };
    result = {{"workers", count},
              {"jobs_per_s", rate},
              {"seconds", seconds},
              {"hold_s", hold_s},
              {"lease_s", lease_s},
              {"renewals", record.renewals()},
              {"written_bytes", written - bytes_before},
              {"write_calls", calls - calls_before},
              {"queued", commits_s.size()},
              {"leased", waits_s.size()},
              {"lease_latency_s",
               {{"p50", at(waits_s, 0.5)},
                {"p90", at(waits_s, 0.9)},
                {"p99", at(waits_s, 0.99)},
                {"max", waits_s.back()}}},
              {"enqueue_commit_s", {{"p50", at(commits_s, 0.5)}, {"p99", at(commits_s, 0.99)}}}};
  }
  coordinator->reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  fmt::print("{}\n", result.dump(1));
  return 0;
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) { return autocfg::Run(argc, argv); }
