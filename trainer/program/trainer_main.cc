#include "trainer/program/trainer_main.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "base/os/cpus.h"
#include "base/os/end_signals.h"
#include "base/os/host.h"
#include "base/os/process.h"
#include "base/os/process_limits.h"
#include "base/os/trace_parent.h"
#include "base/text.h"
#include "kernels/device.h"
#include "proto/convert/trainer_convert.h"
#include "proto/rank_messages.h"
#include "trainer/calibrate/calibrate.h"
#include "trainer/comm/communicator.h"
#include "trainer/layout/errors.h"
#include "trainer/program/launcher_channel.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

constexpr char kUsage[] =
    "usage: autocfg-trainer --launcher-fd=N [--cpu-list=0,1,...]\n"
    "       autocfg-trainer --version\n"
    "One rank of a training run. It is started by `autocfg` and `autocfg-worker`, not by hand.\n";

struct Arguments {
  int launcher_fd = -1;
  std::vector<int> cpus;
  bool version = false;
  bool help = false;
};

Arguments ParseArguments(int argc, char** argv) {
  constexpr std::string_view kFd = "--launcher-fd=";
  constexpr std::string_view kCpus = "--cpu-list=";
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--version") {
      result.version = true;
    } else if (argument == "--help" || argument == "-h") {
      result.help = true;
    } else if (argument.starts_with(kFd)) {
      const auto fd = base::ParseNumber<int>(argument.substr(kFd.size()), 0);
      if (!fd) throw BadInput(fmt::format("{} is not a file descriptor", argument));
      result.launcher_fd = *fd;
    } else if (argument.starts_with(kCpus)) {
      const auto cpus = base::ParseCpuList(argument.substr(kCpus.size()));
      if (!cpus)
        throw BadInput(fmt::format("{} is not a list of cores; use numbers and commas, e.g. 0,1", argument));
      result.cpus = *cpus;
    } else {
      throw BadInput(fmt::format("unknown argument {}; see --help", argument));
    }
  }
  if (!result.version && !result.help && result.launcher_fd < 0) {
    throw BadInput("--launcher-fd is missing: this program is started by a launcher; see --help");
  }
  return result;
}

void PinTo(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  try {
    base::RunOnCpus(cpus);
  } catch (const std::system_error& error) {
    throw BadInput(fmt::format("{}; the machine does not have them or does not grant them", error.what()));
  }
}

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kProgressPeriod{200};  // of a calibration
constexpr int kMostOpTimes = 64;  // in a message, whose size is limited (proto/rank_messages.h)

v1::RankMessage RunJob(LauncherChannel& channel) {
  const v1::RunSpec& spec = channel.run_spec();
  v1::RankMessage message;
  if (!spec.has_train() && !spec.has_calibrate()) throw BadInput("the launcher's run spec has no job");
  if (spec.has_train()) {
    const TrainConfig config = ParseTrainSpec(spec.train());
    CheckTrainConfig(config, spec.world_size());
    // A rank of a run with checkpoints ends when its launcher says so, after a step and its checkpoint.
    // Slurm, and systemd by default, send SIGTERM to all processes of a job; a terminal sends SIGHUP when it
    // closes.
    if (!config.checkpoint_path.empty()) base::EndSignals::Ignore();
    Backend backend = CreateTrainBackend(DeviceOf(spec), channel, config);
    *message.mutable_train_result() = Train(
        config, spec.rank(), spec.world_size(), backend,
        [&](const v1::Progress& progress) {
          v1::RankMessage report;
          *report.mutable_progress() = progress;
          channel.Send(report);
        },
        [&] { return channel.StopRequested(); });
  } else {
    Backend backend = CreateBackend(DeviceOf(spec), channel);
    v1::RankMessage report;  // with the op times that are not sent yet
    *message.mutable_calibrate_result() =
        Calibrate(spec.calibrate(), spec.rank(), spec.world_size(), backend,
                  [&, said = Clock::time_point()](const TimingProgress& done) mutable {
                    v1::Progress& progress = *report.mutable_progress();
                    if (done.timed) *progress.add_op_times() = ToProto(*done.timed);
                    const Clock::time_point now = Clock::now();
                    if (now - said < kProgressPeriod && progress.op_times_size() < kMostOpTimes) return;
                    if (spec.rank() != 0 && progress.op_times().empty()) return;
                    said = now;
                    progress.set_ops_passed(done.passed);
                    progress.set_ops_all(done.all);
                    progress.set_left_s(done.left_s);
                    progress.set_device_overhead_bytes(done.device_overhead_bytes);
                    channel.Send(report);
                    progress.clear_op_times();
                  });
  }
  return message;
}

v1::RankError Error(const char* code, const std::string& message) {
  v1::RankError error;
  error.set_code(code);
  // A message may quote a path, whose bytes need not be UTF-8.
  error.set_message(base::OneLine(base::CleanUtf8(message, message.size()), kMaxRankErrorBytes));
  return error;
}

// Runs one job and sends its result or error. The only place that catches the engine's exceptions.
int Serve(const Arguments& arguments) {
  std::optional<LauncherChannel> channel;
  try {
    channel.emplace(arguments.launcher_fd);
    PinTo(arguments.cpus);
    channel->Send(RunJob(*channel));
    return 0;
  } catch (...) {
    v1::RankMessage message;
    *message.mutable_error() = ToRankError(std::current_exception());
    fmt::print(stderr, "{}: {}\n", message.error().code(), message.error().message());
    if (!channel) return 1;
    try {
      channel->Send(message);
    } catch (const CommError& e) {
      fmt::print(stderr, "cannot report the error to the launcher: {}\n", e.what());
    }
    return 1;
  }
}

}  // namespace

v1::RankError ToRankError(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DoesNotFit& e) {
    v1::RankError result = Error("RESOURCE_EXHAUSTED", e.what());
    result.set_over_bytes(e.over_bytes);
    result.set_region(e.region);
    return result;
  } catch (const DeviceOutOfMemory& e) {
    v1::RankError result = Error("RESOURCE_EXHAUSTED", e.what());
    // With fragmentation, the free memory may exceed the request.
    result.set_over_bytes(
        std::max<std::int64_t>(e.wanted_bytes - std::max<std::int64_t>(e.available_bytes, 0), 0));
    return result;
  } catch (const std::bad_alloc&) {
    return Error("RESOURCE_EXHAUSTED", "the host has no memory left for the trainer itself");
  } catch (const BadInput& e) {
    return Error("INVALID_ARGUMENT", e.what());
  } catch (const NotSupported& e) {
    return Error("UNIMPLEMENTED", e.what());
  } catch (const CommError& e) {
    return Error("UNAVAILABLE", e.what());
  } catch (const std::exception& e) {
    return Error("INTERNAL", e.what());
  }
}

int TrainerMain(int argc, char** argv) {
  base::FailWritesBeyondFileSizeLimit();
  // The launcher keeps the contents of standard error and discards standard output.
  spdlog::set_default_logger(spdlog::stderr_logger_st("trainer"));
  if (const std::string trace = base::TraceOf(base::Environment("TRACEPARENT")); !trace.empty())
    spdlog::set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%n] [%l] [trace " + trace + "] %v");
  base::SetLogLevel(base::LogLevel::kInfo);
  Arguments arguments;
  try {
    arguments = ParseArguments(argc, argv);
  } catch (const BadInput& e) {
    fmt::print(stderr, "autocfg-trainer: {}\n", e.what());
    return 2;
  }
  if (arguments.help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (arguments.version) {
    fmt::print("autocfg-trainer {}\n", base::BuildId());
    return 0;
  }
  spdlog::debug("autocfg-trainer {}", base::BuildId());
  return Serve(arguments);
}

}  // namespace autocfg::trainer
