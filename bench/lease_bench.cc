// Measures how a coordinator serves many workers: how long a job waits for one, how many trials complete in a
// second, and what the coordinator's process takes and gives the disk to write for it. The coordinator is a
// process of its own. The emulated workers, of one slot each, are another process. Each worker has its own
// connection and always a call parked at the coordinator (for work, or to renew). Jobs arrive at random. The
// latency is the time from the commit that queues a job to the reply that leases it. The database is a file,
// and every commit is synced.
//
// usage: autocfg_lease_bench [--workers 1000] [--seconds 30] [--jobs-per-second 220] [--hold-seconds 1]
//                            [--lease-seconds 10] [--timeline-rows 0]      Prints JSON.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
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

struct Options {
  int workers = 0;
  double seconds = 0;
  double jobs_per_s = 0;
  double hold_s = 0;  // mean duration of a job
  double lease_s = 0;
  int timeline_rows = 0;
};

// When the coordinator's process queued each job, in memory that both processes share. Both read one clock.
class Queued {
 public:
  explicit Queued(std::size_t jobs) : jobs_(jobs) {
    void* const memory = mmap(nullptr, jobs * sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Die("no shared memory");
    times_ = static_cast<std::atomic<std::int64_t>*>(memory);
    for (std::size_t i = 0; i < jobs; ++i) new (&times_[i]) std::atomic<std::int64_t>(0);
  }
  static std::int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now().time_since_epoch())
        .count();
  }
  std::atomic<std::int64_t>& operator[](std::int64_t trial) {
    if (trial < 0 || static_cast<std::size_t>(trial) >= jobs_) Die("more jobs than expected");
    return times_[trial];
  }

 private:
  const std::size_t jobs_;
  std::atomic<std::int64_t>* times_ = nullptr;
};

// Counts what the workers do, and when each job reached one.
class Record {
 public:
  void Leased(const std::string& job) {
    const auto trial = server::ParseTrialName(job);
    if (!trial.ok()) Die(std::string(trial.status().message()));
    const std::int64_t now = Queued::Now();
    const std::lock_guard lock(mutex_);
    leased_.emplace_back(trial->number, now);
  }
  void Renewed() { ++renewals_; }
  void Completed() { ++completed_; }
  int renewals() const { return renewals_; }
  int completed() const { return completed_; }
  // Returns how long each job waited, in seconds. Call it once all jobs are queued.
  std::vector<double> SortedWaits(Queued& queued) {
    const std::lock_guard lock(mutex_);
    std::vector<double> waits_s;
    for (const auto& [trial, when] : leased_) {
      // A job may reach its worker before the thread that queued it has read the clock.
      waits_s.push_back(std::max(0.0, 1e-9 * static_cast<double>(when - queued[trial].load())));
    }
    std::sort(waits_s.begin(), waits_s.end());
    return waits_s;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::int64_t, std::int64_t>> leased_;
  std::atomic<int> renewals_{0};
  std::atomic<int> completed_{0};
};

// What a process has taken and given so far.
struct Used {
  std::int64_t written_bytes = 0;  // to the disk
  std::int64_t write_calls = 0;
  double cpu_s = 0;
};

Used UsedNow() {
  Used used;
  std::ifstream file("/proc/self/io");
  for (std::string name; file >> name;) {
    std::int64_t value = 0;
    file >> value;
    if (name == "write_bytes:") used.written_bytes = value;
    if (name == "syscw:") used.write_calls = value;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  used.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return used;
}

std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all_pages = 0, resident_pages = 0;
  file >> all_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

double At(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

// One end of the stream between the two processes, which say lines to each other.
class Line {
 public:
  explicit Line(int descriptor) : file_(fdopen(descriptor, "r+")) {
    if (file_ == nullptr) Die("no stream");
  }
  ~Line() { std::fclose(file_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  void Say(const std::string& words) {
    fmt::print(file_, "{}\n", words);
    std::fflush(file_);
  }
  std::string Hear() {
    std::string words;
    int c = 0;
    while ((c = std::getc(file_)) != EOF && c != '\n') words += static_cast<char>(c);
    if (c == EOF) Die("the other process has ended");
    return words;
  }

 private:
  std::FILE* const file_;
};

// One in-flight call, which owns its messages.
template <typename Request, typename Response>
struct Flight {
  grpc::ClientContext context;
  Request request;
  Response response;
};

class EmulatedWorker {
 public:
  EmulatedWorker(const std::string& address, int number, const Options& options, Timers& timers,
                 Record& record)
      : name_(fmt::format("workers/emulated-{}", number)),
        options_(options),
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
          const double hold_s = std::exponential_distribution<double>(1 / options_.hold_s)(random_);
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
    flight->request.set_wait_s(options_.lease_s / 3);
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
    for (int i = 0; i < options_.timeline_rows; ++i) {
      v1::TimelineRow& row = *flight->request.mutable_timeline()->add_rows();
      row.set_lane("compute");
      row.set_kind(i % 2 == 0 ? "forward" : "backward");
      row.set_microbatch(i % 8);
      row.set_start_s(std::uniform_real_distribution<double>(0, 0.5)(random_));
      row.set_end_s(0.5 + row.start_s());
    }
    stub_->async()->ReportTrial(&flight->context, &flight->request, &flight->response,
                                [this, flight](const grpc::Status& status) {
                                  if (stopping_) return;
                                  Check(status, "report");
                                  record_.Completed();
                                  Poll();
                                });
  }

  const std::string name_;
  const Options options_;
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

// Waits for `when`, or until it has passed.
void SleepUntil(SteadyClock::time_point when) {
  if (when > SteadyClock::now()) std::this_thread::sleep_until(when);
}

// The coordinator's process: serves, queues jobs once it is told to, and says what that took.
void Serve(const Options& options, const std::string& directory, Queued& queued, Line& other) {
  auto opened = server::OpenSqliteStore(directory + "/bench.db");
  if (!opened.ok()) Die(std::string(opened.status().message()));
  server::Store& store = **opened;
  server::CoordinatorOptions coordinator_options;
  coordinator_options.address = "localhost:0";
  coordinator_options.lease_duration_s = options.lease_s;
  auto coordinator = server::Coordinator::Start(*std::move(opened), coordinator_options);
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
  other.Say((*coordinator)->address());
  other.Hear();  // all workers are connected

  std::mt19937_64 random(1);
  std::exponential_distribution<double> gap(options.jobs_per_s);
  const auto seconds = [](double s) { return std::chrono::duration_cast<SteadyClock::duration>(Seconds(s)); };
  const Used before = UsedNow();
  const auto begin = SteadyClock::now();
  const auto end = begin + seconds(options.seconds);
  std::vector<double> commits_s;
  auto next = begin;
  for (std::int64_t number = 1; (next += seconds(gap(random))) < end; ++number) {
    SleepUntil(next);
    v1::Trial trial;
    trial.set_plan_text(fmt::format("plan {}", number));
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_train()->set_steps(options.timeline_rows > 0 ? 2 : 1);  // the first is recorded
    job.mutable_train()->set_record_breakdown(options.timeline_rows > 0);
    job.mutable_train()->set_warmup_steps_untimed(options.timeline_rows > 0 ? 1 : 0);
    job.mutable_train()->mutable_plan()->set_pp(1);
    const auto began = SteadyClock::now();
    const auto made_trial = store.EnqueueTrial(1, trial, job, 3);
    if (!made_trial.ok()) Die(std::string(made_trial.status().message()));
    queued[server::ParseTrialName(made_trial->name())->number] = Queued::Now();
    commits_s.push_back(Seconds(SteadyClock::now() - began).count());
  }
  SleepUntil(end);
  const double took_s = Seconds(SteadyClock::now() - begin).count();
  std::sort(commits_s.begin(), commits_s.end());
  if (commits_s.empty()) Die("no job was queued");
  other.Say(nlohmann::json{{"queued", commits_s.size()}, {"took_s", took_s}}.dump());
  other.Hear();  // the last jobs were reported
  const Used after = UsedNow();
  other.Say(nlohmann::json{{"enqueue_commit_s", {{"p50", At(commits_s, 0.5)}, {"p99", At(commits_s, 0.99)}}},
                           {"written_bytes", after.written_bytes - before.written_bytes},
                           {"write_calls", after.write_calls - before.write_calls},
                           {"cpu_s", after.cpu_s - before.cpu_s},
                           {"resident_bytes", ResidentBytes()}}
                .dump());
  other.Hear();  // the workers have ended
  (*coordinator)->Shutdown();
}

// The workers' process.
nlohmann::ordered_json Work(const Options& options, Queued& queued, Line& other) {
  const std::string address = other.Hear();
  Timers timers;
  Record record;
  std::vector<std::unique_ptr<EmulatedWorker>> workers;
  for (int i = 0; i < options.workers; ++i)
    workers.push_back(std::make_unique<EmulatedWorker>(address, i, options, timers, record));
  for (const auto& worker : workers) worker->Poll();
  std::this_thread::sleep_for(Seconds(2));
  const double cpu_before_s = UsedNow().cpu_s;
  other.Say("begin");
  const auto all = nlohmann::json::parse(other.Hear());
  const int in_time = record.completed();
  const double cpu_s = UsedNow().cpu_s - cpu_before_s;
  const auto limit = SteadyClock::now() + std::chrono::seconds(60);
  while (record.completed() < all["queued"].get<int>() && SteadyClock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  other.Say("reported");
  const auto served = nlohmann::json::parse(other.Hear());
  for (const auto& worker : workers) worker->Stop();
  const std::vector<double> waits_s = record.SortedWaits(queued);
  if (waits_s.empty()) Die("no job was leased");
  other.Say("end");  // also ends the parked calls
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double took_s = all["took_s"].get<double>();
  return {{"workers", options.workers},
          {"jobs_per_s", options.jobs_per_s},
          {"seconds", options.seconds},
          {"hold_s", options.hold_s},
          {"lease_s", options.lease_s},
          {"timeline_rows", options.timeline_rows},
          {"queued", all["queued"]},
          {"leased", waits_s.size()},
          {"completed", record.completed()},
          {"completed_per_s", in_time / took_s},
          {"renewals", record.renewals()},
          {"lease_latency_s",
           {{"p50", At(waits_s, 0.5)},
            {"p90", At(waits_s, 0.9)},
            {"p99", At(waits_s, 0.99)},
            {"max", waits_s.back()}}},
          {"enqueue_commit_s", served["enqueue_commit_s"]},
          {"written_bytes_per_trial", served["written_bytes"].get<std::int64_t>() / record.completed()},
          {"write_calls_per_trial", served["write_calls"].get<double>() / record.completed()},
          {"server_cpu_s", served["cpu_s"]},
          {"workers_cpu_s", cpu_s},
          {"server_resident_bytes", served["resident_bytes"]}};
}

// Each worker has a connection, which both processes need a descriptor for.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) Die("no limit of descriptors");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) Die("the limit of descriptors cannot be raised");
}

int Run(int argc, char** argv) {
  const Options options{.workers = static_cast<int>(Number(argc, argv, "--workers", 1000)),
                        .seconds = Number(argc, argv, "--seconds", 30),
                        .jobs_per_s = Number(argc, argv, "--jobs-per-second", 220),
                        .hold_s = Number(argc, argv, "--hold-seconds", 1),
                        .lease_s = Number(argc, argv, "--lease-seconds", 10),
                        .timeline_rows = static_cast<int>(Number(argc, argv, "--timeline-rows", 0))};
  if (options.workers <= 0 || options.seconds <= 0 || options.jobs_per_s <= 0 || options.hold_s <= 0 ||
      options.lease_s <= 0 || options.timeline_rows < 0)
    Die("--workers, --seconds, --jobs-per-second, --hold-seconds and --lease-seconds are positive numbers");
  RaiseDescriptorLimit();
  spdlog::set_level(spdlog::level::err);  // standard output is reserved for the result
  std::string directory = "/tmp/autocfg_lease_bench_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) Die("no temporary directory");
  Queued queued(static_cast<std::size_t>(2 * options.jobs_per_s * options.seconds) + 1000);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) Die("no stream");
  // Before any thread exists.
  const pid_t server = fork();
  if (server < 0) Die("no process");
  if (server == 0) {
    close(ends[0]);
    {
      Line other(ends[1]);
      Serve(options, directory, queued, other);
    }
    std::exit(0);
  }
  close(ends[1]);
  nlohmann::ordered_json result;
  {
    Line other(ends[0]);
    result = Work(options, queued, other);
  }
  int status = 0;
  while (waitpid(server, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) Die("the coordinator's process failed");
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  fmt::print("{}\n", result.dump(1));
  return 0;
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) { return autocfg::Run(argc, argv); }
