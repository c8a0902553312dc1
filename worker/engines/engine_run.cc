#include "worker/engines/engine_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/os/unique_fd.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "worker/launcher/awake_clock.h"
#include "worker/launcher/failure_verdict.h"
#include "worker/launcher/job_supervisor.h"
#include "worker/launcher/spawn.h"

namespace autocfg::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Longest sleep of the loop. Bounds the delay for cancellation, which does not wake it.
constexpr int kLogPollMs = 20;
// From the first failure until the others are ended: their logs may say more.
constexpr std::chrono::milliseconds kFailureGrace{500};
// Between SIGTERM and SIGKILL: programs that are not ours may take a moment to end well.
constexpr std::chrono::milliseconds kForeignTerminateLimit{3000};
constexpr int kReadsPerTurn = 16;
constexpr std::size_t kLongestVersionLine = 100;
constexpr std::chrono::seconds kVersionLimit{60};

class EngineWatch {
 public:
  EngineWatch(const EngineRun& run, const std::atomic<bool>* cancel) : run_(run), cancel_(cancel) {}

  EngineRunResult Run(const std::function<void(const std::vector<int>& pids)>& started) {
    if (Start() && started) {
      std::vector<int> pids;
      for (const Process& process : processes_) pids.push_back(process.pid);
      started(pids);
    }
    while (!AllEnded()) {
      PollOnce();
      Advance();
    }
    supervisor_.Finish();
    return Finish();
  }

 private:
  enum class Phase { kRunning, kFailing, kTerminating, kKilling };

  struct Process {
    pid_t pid = -1;
    int rank = -1;
    base::UniqueFd log;
    LogReader reader;
    bool ended = false;
  };

  // Returns false, with the run stopped, if a process cannot start.
  bool Start() {
    if (const absl::Status status = supervisor_.Start(run_.supervisor_path, run_.job_limits); !status.ok())
      return StopUnstarted(std::string(status.message()));
    for (const EngineProcess& process : run_.processes) {
      int pipe[2];
      if (::pipe2(pipe, O_CLOEXEC) != 0) return StopUnstarted("cannot make a pipe for a log of the engine");
      base::UniqueFd log(pipe[0]);
      const base::UniqueFd in_child(pipe[1]);
      if (::fcntl(log.get(), F_SETFL, O_NONBLOCK) != 0)
        return StopUnstarted("cannot prepare a log of the engine");
      const auto pid = supervisor_.StartRank(process.command, in_child, in_child);
      if (!pid.ok()) return StopUnstarted(std::string(pid.status().message()));
      processes_.push_back({.pid = *pid,
                            .rank = process.rank,
                            .log = std::move(log),
                            .reader = LogReader(run_.rules, run_.size)});
    }
    return true;
  }

  bool StopUnstarted(std::string message) {
    Stop(v1::OUTCOME_FAILED, std::move(message));
    result_.failure = v1::FAILURE_KIND_PROCESS;
    return false;
  }

  void PollOnce() {
    std::vector<pollfd> fds;
    for (const Process& process : processes_) fds.push_back({process.log.get(), POLLIN, 0});
    fds.push_back({supervisor_.fd(), POLLIN, 0});
    // The result does not matter: everything below is tried without blocking.
    ::poll(fds.data(), fds.size(), kLogPollMs);
    clock_.Tick();
    for (Process& process : processes_) Drain(process);
    TakeExits();
  }

  // Reads what is there, in turns that do not starve the other processes.
  void Drain(Process& process) {
    std::array<char, 16 << 10> bytes;
    const std::int64_t before = process.reader.steps();
    for (int reads = 0; process.log.ok() && reads < kReadsPerTurn; ++reads) {
      const ssize_t n = ::read(process.log.get(), bytes.data(), bytes.size());
      if (n > 0) {
        process.reader.Add(std::string_view(bytes.data(), static_cast<std::size_t>(n)));
      } else if (n < 0 && errno == EAGAIN) {
        break;
      } else if (n == 0 || errno != EINTR) {
        process.log.Reset();
      }
    }
    if (process.reader.steps() > before) stepped_ = clock_.now();
  }

  void TakeExits() {
    const std::vector<JobSupervisor::RankExit> exits = supervisor_.TakeExits();
    // Before the ends that it led to.
    if (phase_ <= Phase::kFailing && !supervisor_.over_limit().empty()) {
      Stop(v1::OUTCOME_FAILED, supervisor_.over_limit());
      result_.failure = v1::FAILURE_KIND_OWN;
    }
    for (const JobSupervisor::RankExit& exit : exits) Judge(processes_[exit.place], exit.wait_status);
    if (!supervisor_.lost()) return;
    for (Process& process : processes_) {
      if (!process.ended) Judge(process, std::nullopt);
    }
  }

  // `status`: as from waitpid; nullopt: unknown, because the supervisor ended.
  void Judge(Process& process, std::optional<int> status) {
    process.ended = true;
    Drain(process);
    process.reader.Finish();
    if (status == 0) return;
    const LogReader& log = process.reader;
    RankFailure failure{.rank = process.rank};
    const bool exited = status && WIFEXITED(*status);
    const std::vector<int>& memory_statuses = run_.rules.out_of_memory_statuses;
    const bool by_status = exited && std::find(memory_statuses.begin(), memory_statuses.end(),
                                               WEXITSTATUS(*status)) != memory_statuses.end();
    if (by_status || !log.out_of_memory().empty()) {
      failure.error.set_code("RESOURCE_EXHAUSTED");
      failure.message =
          log.out_of_memory().empty() ? "out of memory: " + DescribeExit(*status) : log.out_of_memory();
      if (phase_ <= Phase::kFailing && !out_of_memory_) out_of_memory_ = failure;
    } else if (!log.failure().empty()) {
      failure.message = log.failure();
    } else if (!log.peer_lost().empty()) {
      failure.kind = v1::FAILURE_KIND_PEER;
      failure.message = log.peer_lost();
    } else {
      failure.message = status ? DescribeExit(*status) : "killed, because the supervisor of its job ended";
      if (!log.last_line().empty()) failure.message += ": " + log.last_line();
      if (!exited) failure.kind = v1::FAILURE_KIND_PROCESS;
    }
    if (phase_ > Phase::kFailing) return;  // ended by this program
    verdict_.Add(std::move(failure));
    if (phase_ == Phase::kRunning) SetPhase(Phase::kFailing, kFailureGrace);
  }

  void Advance() {
    const Clock::time_point now = clock_.now();
    if (phase_ == Phase::kRunning) {
      if (cancel_ != nullptr && cancel_->load()) return Stop(v1::OUTCOME_CANCELLED, "cancelled");
      if (const std::string late = Late(now); !late.empty()) Stop(v1::OUTCOME_TIMED_OUT, late);
      return;
    }
    if (now < phase_end_) return;
    if (phase_ == Phase::kFailing) {
      supervisor_.Terminate();
      SetPhase(Phase::kTerminating, kForeignTerminateLimit);
    } else {
      supervisor_.Kill();
      SetPhase(Phase::kKilling, kForeignTerminateLimit);
    }
  }

  // Returns what took longer than its limit; empty: nothing did.
  std::string Late(Clock::time_point now) const {
    const std::chrono::duration<double> all = now - start_;
    if (run_.time_limit.count() > 0 && all > run_.time_limit)
      return fmt::format("not finished within the time limit of {:g} s{}", run_.time_limit.count(),
                         Evidence());
    if (run_.limits.run.count() > 0 && all > run_.limits.run)
      return fmt::format("not finished within run_s, {:g} s{}", run_.limits.run.count(), Evidence());
    if (stepped_) {
      const std::chrono::duration<double> still = now - *stepped_;
      if (still <= run_.limits.stall) return "";
      return fmt::format("no step and no end within stall_s, {:g} s{}", run_.limits.stall.count(),
                         Evidence());
    }
    if (run_.spans_workers || all <= run_.limits.start) return "";
    return fmt::format("no step within start_s, {:g} s{}", run_.limits.start.count(), Evidence());
  }

  // What the logs say of a run that hangs.
  std::string Evidence() const {
    std::vector<int> silent;
    const LogReader* last = nullptr;
    for (const Process& process : processes_) {
      if (process.reader.bytes() == 0 && process.rank >= 0) silent.push_back(process.rank);
      if (!process.reader.last_line().empty()) last = &process.reader;
    }
    if (!silent.empty()) {
      constexpr std::size_t kMostRanks = 8;
      const std::string more = silent.size() > kMostRanks ? ", ..." : "";
      const bool one = silent.size() == 1;
      silent.resize(std::min(silent.size(), kMostRanks));
      return fmt::format("; rank{} {}{} wrote nothing to {} log", one ? "" : "s", fmt::join(silent, ", "),
                         more, one ? "its" : "their");
    }
    return last == nullptr ? "; its log is empty" : "; the last line of its log: " + last->last_line();
  }

  void Stop(v1::Outcome outcome, std::string message) {
    stopped_ = true;
    result_.outcome = outcome;
    result_.message = std::move(message);
    supervisor_.Terminate();
    SetPhase(Phase::kTerminating, kForeignTerminateLimit);
  }

  void SetPhase(Phase phase, std::chrono::milliseconds limit) {
    phase_ = phase;
    phase_end_ = clock_.now() + limit;
  }

  bool AllEnded() const {
    return std::all_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.ended; });
  }

  EngineRunResult Finish() {
    if (!stopped_ && verdict_.failed()) {
      // A rank without memory ends its peers, whose ends may be seen first.
      FailureVerdict cause = verdict_;
      if (out_of_memory_) {
        cause = {};
        cause.Add(*out_of_memory_);
      }
      JobResult told;
      cause.Tell(told);
      result_.outcome = told.outcome;
      result_.failure = told.failure;
      result_.message = told.message;
    } else if (!stopped_) {
      result_.outcome = v1::OUTCOME_MEASURED;
    }
    for (Process& process : processes_) result_.logs.push_back(std::move(process.reader));
    result_.wall_s = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::move(result_);
  }

  const EngineRun& run_;
  const std::atomic<bool>* cancel_;
  const Clock::time_point start_ = Clock::now();
  AwakeClock clock_;                          // of all limits
  std::optional<Clock::time_point> stepped_;  // when a log last told of a step
  JobSupervisor supervisor_;
  std::vector<Process> processes_;
  FailureVerdict verdict_;
  std::optional<RankFailure> out_of_memory_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point phase_end_ = Clock::time_point::max();
  bool stopped_ = false;  // by a limit, by the caller, or because a process could not start
  EngineRunResult result_;
};

}  // namespace

EngineRunResult RunEngine(const EngineRun& run, const std::atomic<bool>* cancel,
                          const std::function<void(const std::vector<int>& pids)>& started) {
  return EngineWatch(run, cancel).Run(started);
}

absl::Status ReadEngineVersions(std::vector<EngineFile>& engines, const std::string& supervisor_path,
                                const std::atomic<bool>* cancel) {
  for (EngineFile& engine : engines) {
    if (engine.version_command.empty()) continue;
    const EngineRunResult result = RunEngine({.processes = {{.command = {.arguments = engine.version_command,
                                                                         .environment = {},
                                                                         .foreign = true,
                                                                         .directory = engine.directory}}},
                                              .rules = engine.log,
                                              .size = {},
                                              .limits = {},
                                              .time_limit = kVersionLimit,
                                              .supervisor_path = supervisor_path},
                                             cancel);
    const auto wrong = [&](std::string_view why) {
      return absl::FailedPreconditionError(fmt::format(
          "engine {}: version: the command {}; correct it, or give the version as a text", engine.name, why));
    };
    if (result.outcome != v1::OUTCOME_MEASURED) return wrong("failed: " + result.message);
    const std::string& output = result.logs.front().tail();
    std::string line = base::CleanUtf8(output.substr(0, output.find('\n')), output.size());
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    engine.version = base::OneLine(line, kLongestVersionLine);
    if (engine.version.empty()) return wrong("printed no line");
  }
  return absl::OkStatus();
}

}  // namespace autocfg::worker
