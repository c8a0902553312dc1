#include "worker/program/program.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/os/process.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"
#include "worker/jobs/worker_calls.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/device_choice.h"
#include "worker/program/program_options.h"
#include "worker/program/worker.h"

namespace autocfg::worker {
namespace {

// Writes one line with a single write, so that lines of several processes do not mix.
int Fail(int exit_code, std::string message) {
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  const std::string line = fmt::format("autocfg-worker: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
  return exit_code;
}

int Fail(const absl::Status& status) {
  return Fail(MayPass(status) ? kExitUnreachable : kExitUsage, std::string(status.message()));
}

// Receives SIGTERM and SIGINT in its own thread. Create it before any other thread, so that all inherit the
// blocked signals.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this] {
      int signal = 0;
      while (sigwait(&set_, &signal) != 0) {
      }
      End();
    });
  }
  ~Signals() {
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const std::atomic<bool>& came() const { return came_; }

  // Stops the worker when a signal arrives, or immediately if one already has. `worker` must outlive this
  // object.
  void StopWith(Worker& worker) {
    absl::MutexLock lock(&mutex_);
    worker_ = &worker;
    if (came_) worker.Stop();
  }

 private:
  void End() {
    absl::MutexLock lock(&mutex_);
    came_ = true;
    if (worker_ != nullptr) worker_->Stop();
  }

  sigset_t set_;
  std::atomic<bool> came_{false};
  absl::Mutex mutex_;
  Worker* worker_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

int RunWorker(const ProgramOptions& program) {
  WorkerOptions options;
  options.trainer_path = FindTrainer();
  if (access(options.trainer_path.c_str(), X_OK) != 0) {
    return Fail(kExitUsage, fmt::format("{}: the training engine is missing; build autocfg-trainer beside "
                                        "autocfg-worker or set AUTOCFG_TRAINER",
                                        options.trainer_path));
  }
  auto devices = ChooseDevices(program.devices, options.trainer_path);
  if (!devices.ok()) return Fail(kExitUsage, std::string(devices.status().message()));
  for (const std::string& note : devices->notes) spdlog::info("{}", note);
  options.coordinator = program.coordinator;
  options.insecure = program.insecure;
  options.name = program.name;
  options.inventory = InventoryOf(*devices, program.slots);
  options.cores = devices->cores;
  options.wait_s = program.wait_s;

  std::unique_ptr<Worker> worker;
  Signals signals;  // destroyed before the worker
  options.cancel = &signals.came();
  auto started = Worker::Start(options);
  if (!started.ok()) return signals.came() ? kExitDone : Fail(started.status());
  worker = *std::move(started);
  spdlog::info("registered with {} as {}: {} slot{} on {}", program.coordinator, program.name,
               options.inventory.slots(), options.inventory.slots() == 1 ? "" : "s",
               options.inventory.device_kind());
  signals.StopWith(*worker);
  // Superseded: the worker has already logged the error.
  return worker->WaitUntilEnded().ok() ? kExitDone : kExitSuperseded;
}

}  // namespace

int CatchingAll(const std::function<int()>& program) {
  try {
    return program();
  } catch (const std::exception& error) {
    return Fail(kExitInternal, fmt::format("internal error: {}; please report it", error.what()));
  }
}

int WorkerMain(int argc, char** argv) {
  base::SetUpLog("autocfg-worker", base::LogLevel::kInfo);
  return CatchingAll([&] {
    const auto parsed = ParseProgramOptions(argc, argv);
    if (const auto* end = std::get_if<ProgramEnd>(&parsed))
      return end->exit_code == kExitDone ? kExitDone : Fail(end->exit_code, end->message);
    return RunWorker(std::get<ProgramOptions>(parsed));
  });
}

}  // namespace autocfg::worker
