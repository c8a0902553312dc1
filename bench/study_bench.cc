// Measures how the coordinator's cost grows with the studies that run at once. For each count of studies: how
// many trials a second two instant workers report, and how much CPU the studies take without a worker. All
// studies are exhaustive searches of the same size. Coordinator and workers are one process, so both share
// the machine's cores. The database is a file, and every commit is synced.
//
// usage: autocfg_study_bench [--studies 16,256] [--seconds 15]      Prints JSON.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autocfg/v1/study_service.grpc.pb.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "proto/convert/trainer_convert.h"
#include "search/ops/op_desc.h"
#include "server/coordinator/coordinator.h"
#include "server/store/sqlite/sqlite_store.h"
#include "spdlog/spdlog.h"

namespace autocfg {
namespace {

using std::chrono::steady_clock;

constexpr int kRanks = 4;
constexpr int kWorkers = 2;

[[noreturn]] void Die(const std::string& what) {
  fmt::print(stderr, "autocfg_study_bench: {}\n", what);
  std::exit(1);
}

void Check(const grpc::Status& status, const char* what) {
  if (!status.ok()) Die(fmt::format("{}: {}", what, status.error_message()));
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double SecondsSince(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// Reports every job at once, with times from a formula.
class InstantWorker {
 public:
  InstantWorker(const std::string& address, int number)
      : name_(fmt::format("workers/instant-{}", number)),
        stub_(v1::WorkerService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    v1::RegisterWorkerRequest request;
    request.set_worker(name_);
    request.set_boot_id("bench");
    request.mutable_inventory()->set_device_kind("cpu");
    request.mutable_inventory()->set_slots(kRanks);
    v1::RegisterWorkerResponse response;
    grpc::ClientContext context;
    Check(stub_->RegisterWorker(&context, request, &response), "RegisterWorker");
    epoch_ = response.session_epoch();
    thread_ = std::thread([this] { Loop(); });
  }
  ~InstantWorker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (polling_ != nullptr) polling_->TryCancel();
    }
    thread_.join();
  }
  std::int64_t trials() const { return trials_; }
  std::int64_t calibrations() const { return calibrations_; }

 private:
  static v1::ReportTrialRequest Measure(const v1::Job& job) {
    v1::ReportTrialRequest report;
    report.set_outcome(v1::OUTCOME_MEASURED);
    v1::Measurement& measurement = *report.mutable_measurement();
    measurement.set_device_s(1);
    if (job.has_calibrate()) {
      for (const v1::OpDesc& message : job.calibrate().ops()) {
        const auto op = FromProto(message);
        if (!op.ok()) Die(std::string(op.status().message()));
        v1::OpTime& time = *report.mutable_calibration()->add_ops();
        *time.mutable_op() = message;
        time.set_seconds(1e-6 + Flops(*op) / 2e10 + MinBytes(*op) / 5e9);
      }
      return report;
    }
    const double step_s = 0.01 * static_cast<double>(job.train().plan().tp() + job.train().plan().pp());
    for (std::int64_t i = job.train().warmup_steps_untimed(); i < job.train().steps(); ++i)
      measurement.add_step_time_s(step_s * (1 + 0.001 * static_cast<double>(i % 5)));
    measurement.set_median_step_time_s(step_s);
    measurement.set_ci95_s(0.001 * step_s);
    return report;
  }

  void Loop() {
    while (true) {
      v1::LeaseWorkRequest request;
      request.set_worker(name_);
      request.set_session_epoch(epoch_);
      request.set_wait_s(10);
      v1::LeaseWorkResponse lease;
      grpc::ClientContext context;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        polling_ = &context;
      }
      const grpc::Status leased = stub_->LeaseWork(&context, request, &lease);
      {
        const std::lock_guard lock(mutex_);
        polling_ = nullptr;
        if (stopping_) return;
      }
      Check(leased, "LeaseWork");
      if (!lease.has_job()) continue;
      v1::ReportTrialRequest report = Measure(lease.job());
      report.set_worker(name_);
      report.set_session_epoch(epoch_);
      report.set_lease_id(lease.lease_id());
      report.set_fencing_token(lease.fencing_token());
      report.set_attempt(lease.job().attempt());
      report.set_request_id(lease.lease_id() + "/report");
      v1::ReportTrialResponse response;
      grpc::ClientContext report_context;
      Check(stub_->ReportTrial(&report_context, report, &response), "ReportTrial");
      ++(lease.job().has_calibrate() ? calibrations_ : trials_);
    }
  }

  const std::string name_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::int64_t epoch_ = 0;
  std::atomic<std::int64_t> trials_ = 0, calibrations_ = 0;
  std::mutex mutex_;
  bool stopping_ = false;
  grpc::ClientContext* polling_ = nullptr;  // guarded by mutex_
  std::thread thread_;
};

v1::SearchSpec Spec(int number) {
  v1::SearchSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_name(fmt::format("tiny-{}", number));  // each study is a question of its own
  model.set_layers(8);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_vocab(512);
  model.set_max_seq_len(32);
  v1::ClusterSpec& cluster = *spec.mutable_cluster();
  cluster.set_name("local");
  cluster.set_local(true);
  v1::NodeGroup& group = *cluster.add_groups();
  group.mutable_device()->set_name("cpu");
  group.mutable_device()->set_kind("cpu");
  group.mutable_device()->set_memory_bytes(std::int64_t{1} << 30);
  group.set_nodes(1);
  group.set_gpus_per_node(kRanks);
  group.set_ranks_per_core(1);
  spec.mutable_workload()->set_global_batch(64);
  spec.mutable_workload()->set_seq_len(32);
  spec.mutable_workload()->set_precision("fp32");
  spec.set_exhaustive(true);
  return spec;
}

// Creates and starts the studies.
void StartStudies(const std::string& address, int studies) {
  const auto stub =
      v1::StudyService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  for (int i = 0; i < studies; ++i) {
    v1::CreateStudyRequest create;
    *create.mutable_spec() = Spec(i);
    v1::Study study;
    grpc::ClientContext create_context, start_context;
    Check(stub->CreateStudy(&create_context, create, &study), "CreateStudy");
    v1::StartStudyRequest start;
    start.set_name(study.name());
    Check(stub->StartStudy(&start_context, start, &study), "StartStudy");
  }
}

nlohmann::json Run(int studies, double seconds) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / fmt::format("autocfg_study_bench.{}.{}", getpid(), studies);
  std::filesystem::create_directory(directory);
  auto store = server::OpenSqliteStore(directory / "bench.db");
  if (!store.ok()) Die(std::string(store.status().message()));
  server::CoordinatorOptions options;
  options.address = fmt::format("unix:{}", (directory / "s").string());
  auto coordinator = server::Coordinator::Start(*std::move(store), options);
  if (!coordinator.ok()) Die(std::string(coordinator.status().message()));
  StartStudies((*coordinator)->address(), studies);

  nlohmann::json result{{"studies", studies}};
  {
    std::vector<std::unique_ptr<InstantWorker>> workers;
    for (int i = 0; i < kWorkers; ++i)
      workers.push_back(std::make_unique<InstantWorker>((*coordinator)->address(), i));
    const auto sum = [&](auto count) {
      std::int64_t all = 0;
      for (const auto& worker : workers) all += ((*worker).*count)();
      return all;
    };
    while (sum(&InstantWorker::calibrations) < studies)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const std::int64_t before = sum(&InstantWorker::trials);
    const double cpu_before_s = CpuSeconds();
    const auto begin = steady_clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const double took_s = SecondsSince(begin);
    result["trials_per_s"] = static_cast<double>(sum(&InstantWorker::trials) - before) / took_s;
    result["cores_with_workers"] = (CpuSeconds() - cpu_before_s) / took_s;
  }
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const double cpu_before_s = CpuSeconds();
  const auto begin = steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  result["cores_without_workers"] = (CpuSeconds() - cpu_before_s) / SecondsSince(begin);
  coordinator->reset();
  std::filesystem::remove_all(directory);
  return result;
}

int Main(int argc, char** argv) {
  std::vector<int> counts = {16, 256};
  double seconds = 15;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--seconds") {
      seconds = std::atof(value.c_str());
    } else if (name == "--studies") {
      counts.clear();
      for (std::size_t begin = 0; begin < value.size();) {
        const std::size_t comma = std::min(value.find(',', begin), value.size());
        counts.push_back(std::atoi(value.substr(begin, comma - begin).c_str()));
        begin = comma + 1;
      }
    } else {
      Die(fmt::format("unknown option {}; see the head of the source", name));
    }
  }
  spdlog::set_level(spdlog::level::err);
  nlohmann::json result = nlohmann::json::array();
  for (const int studies : counts) {
    if (studies <= 0 || seconds <= 0) Die("give positive numbers");
    result.push_back(Run(studies, seconds));
  }
  fmt::print("{}\n", result.dump(1));
  return 0;
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) { return autocfg::Main(argc, argv); }
