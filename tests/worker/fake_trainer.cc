// Replaces autocfg-trainer in the launcher's tests: a rank that behaves as the name of its run spec's model,
// or AUTOCFG_FAKE_TRAINER_MODE, says. See kModes below. In a list separated by commas, each rank has its own
// mode.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/framing.h"
#include "search/ops/memory_sizes.h"
#include "trainer/comm/comm_world.h"
#include "trainer/program/launcher_channel.h"

namespace autocfg::worker {
namespace {

class HostStream final : public Stream {
 public:
  void Synchronize() override {}
};

void SendResult(trainer::LauncherChannel& channel, double loss = 0) {
  v1::RankMessage message;
  message.mutable_train_result()->add_losses(loss);
  message.mutable_train_result()->add_step_time_s(1);
  channel.Send(message);
}

int SendError(trainer::LauncherChannel& channel, const std::string& code, const std::string& text) {
  v1::RankMessage message;
  message.mutable_error()->set_code(code);
  message.mutable_error()->set_message(text);
  if (code == "RESOURCE_EXHAUSTED") message.mutable_error()->set_over_bytes(4096);
  channel.Send(message);
  return 1;
}

[[noreturn]] void Hang() {
  for (;;) ::pause();
}

void AskWithoutReading(trainer::LauncherChannel& channel, const std::string& name) {
  v1::RankMessage message;
  message.mutable_gather_request()->set_name(name);
  message.mutable_gather_request()->set_value(std::string(1000, 'x'));
  channel.Send(message);
}

// Returns the bytes of all values; of mixed up values, nothing.
std::optional<double> GatherWithProgress(trainer::LauncherChannel& channel) {
  double total = 0;
  for (int round = 0; round < 50; ++round) {
    // Includes values of nearly the largest size. Those of several ranks exceed a socket's buffer.
    const std::string value(round == 10 ? 60'000 : 1 + channel.rank(),
                            static_cast<char>('a' + channel.rank()));
    const auto values = channel.AllGather("round " + std::to_string(round), value);
    for (int rank = 0; rank < channel.size(); ++rank) {
      if (values[rank].empty() || values[rank][0] != 'a' + rank) return std::nullopt;
      total += static_cast<double>(values[rank].size());
    }
    v1::RankMessage progress;
    progress.mutable_progress()->set_step(round + 1);
    channel.Send(progress);
  }
  return total;
}

int Gather(trainer::LauncherChannel& channel) {
  const std::optional<double> total = GatherWithProgress(channel);
  if (!total) return SendError(channel, "INTERNAL", "mixed up");
  SendResult(channel, *total);
  return 0;
}

// Writes the job and the visible GPUs, one line per rank, to the file in AUTOCFG_FAKE_TRAINER_LOG. Then
// answers as a rank does: one second per step, one microsecond per op.
int AnswerAll(trainer::LauncherChannel& channel) {
  const v1::RunSpec& spec = channel.run_spec();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* file = std::getenv("AUTOCFG_FAKE_TRAINER_LOG");
  const std::string work = spec.has_train() ? "train " + spec.train().workload().precision() +
                                                  (spec.train().has_slice() ? " slice" : "")
                                            : "calibrate";
  const std::string line = work + " on " + spec.device() + ": rank " + std::to_string(spec.rank()) + " of " +
                           std::to_string(spec.world_size()) + ", CUDA_VISIBLE_DEVICES " +
                           (visible != nullptr ? visible : "not set") + "\n";
  const int fd = ::open(file != nullptr ? file : "/dev/stderr", O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 1;
  ::close(fd);
  v1::RankMessage message;
  if (spec.has_calibrate()) {
    for (const v1::OpDesc& op : spec.calibrate().ops()) {
      auto& time = *message.mutable_calibrate_result()->add_ops();
      *time.mutable_op() = op;
      time.set_seconds(1e-6);
    }
    message.mutable_calibrate_result();
  } else {
    auto& result = *message.mutable_train_result();
    for (std::int64_t step = 0; step < spec.train().steps(); ++step) {
      const bool slice = spec.train().has_slice();
      if (!slice) result.add_losses(1);
      if (!slice) result.add_grad_norms(1);
      if (step >= spec.train().warmup_steps_untimed()) result.add_step_time_s(1);
    }
    if (spec.train().has_slice()) *result.mutable_slice() = spec.train().slice();
    result.mutable_planned_memory_bytes()->set_total(1000);
    result.set_peak_memory_bytes(1000);
  }
  channel.Send(message);
  return 0;
}

// Prints its arguments, inherited descriptors and signal state to standard error.
int Describe(trainer::LauncherChannel& channel, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) std::fprintf(stderr, "argument %s\n", argument.c_str());
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd > 3 && fd != ::dirfd(directory)) {
      char target[256] = {};
      if (::readlinkat(::dirfd(directory), entry->d_name, target, sizeof target - 1) > 0 &&
          std::string(target).find("anon_inode") == std::string::npos) {  // own descriptor, not inherited
        std::fprintf(stderr, "descriptor %d %s\n", fd, target);
      }
    }
  }
  ::closedir(directory);
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  struct sigaction pipe_action {};
  ::sigaction(SIGPIPE, nullptr, &pipe_action);
  std::fprintf(stderr, "SIGTERM blocked %d\n", ::sigismember(&blocked, SIGTERM));
  std::fprintf(stderr, "SIGPIPE ignored %d\n", pipe_action.sa_handler == SIG_IGN);
  std::fprintf(stderr, "group leader %d\n", ::getpgrp() == ::getpid());
  rlimit core{};
  ::getrlimit(RLIMIT_CORE, &core);
  std::fprintf(stderr, "core limit %d\n", static_cast<int>(core.rlim_cur));
  SendResult(channel);
  return 0;
}

// Finishes once the file in the run spec's init_path exists.
int AwaitFile(trainer::LauncherChannel& channel) {
  while (::access(channel.run_spec().train().init_path().c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  SendResult(channel);
  return 0;
}

// Returns this rank's mode from a list; a single mode applies to all ranks.
std::string ModeOf(const trainer::LauncherChannel& channel, const std::string& modes) {
  if (modes.find(',') == std::string::npos) return modes;
  std::size_t begin = 0;
  for (int rank = 0; rank < channel.rank(); ++rank) begin = modes.find(',', begin) + 1;
  return modes.substr(begin, modes.find(',', begin) - begin);
}

void Flood() {
  const std::string line(1023, '.');
  for (int i = 0; i < 4096; ++i) std::fprintf(stderr, "%s\n", line.c_str());
  std::fprintf(stderr, "the end\n");
}

int LeaveGrandchild(trainer::LauncherChannel& channel) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_IGN);
    Hang();
  }
  std::fprintf(stderr, "%d\n", static_cast<int>(child));
  SendResult(channel);
  return 0;
}

// Leaves a process behind that is in a session of its own and ignores SIGTERM. Returns its pid.
pid_t LeaveDaemon() {
  int pipe[2];
  if (::pipe(pipe) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    ::signal(SIGTERM, SIG_IGN);
    const pid_t daemon = ::fork();
    if (daemon == 0) Hang();
    const bool sent = ::write(pipe[1], &daemon, sizeof daemon) == sizeof daemon;
    ::_exit(sent ? 0 : 1);
  }
  pid_t daemon = -1;
  const bool received = ::read(pipe[0], &daemon, sizeof daemon) == sizeof daemon;
  ::waitpid(child, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  return received ? daemon : -1;
}

// Leaves a daemon behind and reports its pid as the number of a step.
void ReportDaemon(trainer::LauncherChannel& channel) {
  v1::RankMessage message;
  message.mutable_progress()->set_step(LeaveDaemon());
  channel.Send(message);
}

// Leaves a chain of processes behind, each of which starts the next in a session of its own and ends. Their
// standard error is the file in the run spec's init_path.
void LeaveChain(const trainer::LauncherChannel& channel) {
  const int file = ::open(channel.run_spec().train().init_path().c_str(), O_WRONLY | O_CREAT, 0600);
  if (file < 0 || ::fork() != 0) return;
  ::dup2(file, STDERR_FILENO);
  for (;;) {
    ::setsid();
    const pid_t next = ::fork();
    if (next != 0) ::_exit(0);
  }
}

// Starts processes in sessions of their own that ignore SIGTERM. Each starts the next one: half as a child.
[[noreturn]] void StartMany(int count) {
  for (int i = 0; i < count; ++i) {
    if (::fork() != 0) {
      if (i % 2 == 0) Hang();
      ::_exit(0);
    }
    ::setsid();
    ::signal(SIGTERM, SIG_IGN);
    if (i % 2 == 1 && ::fork() == 0) Hang();
  }
  Hang();
}

// A child takes memory, and keeps it.
[[noreturn]] void TakeMemory(std::size_t bytes) {
  if (::fork() != 0) Hang();
  ::setsid();
  std::vector<char> memory(bytes, 'x');
  for (;;) {
    ::pause();
    memory.back() = 'y';
  }
}

// Writes bytes to the launcher until it is ended.
[[noreturn]] void WriteWithoutEnd(const std::string& bytes) {
  for (;;) {
    if (::send(trainer::kLauncherFd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) Hang();
  }
}

// Leaves a process behind that sends valid messages without end, once this rank has ended.
void LeaveFlood() {
  v1::RankMessage message;
  message.mutable_progress()->set_step(1);
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) {
    if (!AppendFrame(message, bytes).ok()) return;
  }
  const pid_t rank = ::getpid();
  if (::fork() != 0) return;
  while (::getppid() == rank) std::this_thread::yield();
  WriteWithoutEnd(bytes);
}

// Announces a message of 200 MB and begins to send it.
[[noreturn]] void SendHugeMessage() {
  const std::uint32_t length = 200'000'000;
  std::string bytes(1 << 20, '\0');
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xff);
  WriteWithoutEnd(bytes);
}

// Sends parts of a result without end, each within the limit of a message.
[[noreturn]] void SendEndlessResult() {
  v1::RankMessage part;
  part.set_more(true);
  part.mutable_train_result()->add_trace()->set_lane(std::string(60'000, 'x'));
  std::string bytes;
  if (!AppendFrame(part, bytes).ok()) Hang();
  WriteWithoutEnd(bytes);
}

// Asks for gatherings without end and reads no values.
[[noreturn]] void GatherWithoutReading() {
  v1::RankMessage message;
  message.mutable_gather_request()->set_name("a");
  message.mutable_gather_request()->set_value(std::string(60'000, 'x'));
  std::string bytes;
  if (!AppendFrame(message, bytes).ok()) Hang();
  WriteWithoutEnd(bytes);
}

// Performs UCX all-reduces between processes: `rounds` times, or without end.
int Reduce(trainer::LauncherChannel& channel, int rounds) {
  HostStream stream;
  std::vector<std::int32_t> staging(kCollectiveStagingBytes / 4);
  Tensor staging_tensor{staging.data(), DType::kI32, 1, {static_cast<std::int64_t>(staging.size())}};
  std::vector<std::int64_t> ranks;
  for (int rank = 0; rank < channel.size(); ++rank) ranks.push_back(rank);
  double last = 0;
  {
    auto world = trainer::CreateUcxWorld(channel);
    auto group = world->CreateGroup(CommGroup::kWorld, ranks, staging_tensor);
    for (int round = 0; rounds == 0 || round < rounds; ++round) {
      const std::int64_t n = round % 3 == 0 ? 100 : round % 3 == 1 ? 100'000 : 1'000'000;
      std::vector<float> data(n, static_cast<float>(channel.rank() + 1));
      group->AllReduce(Tensor{data.data(), DType::kF32, 1, {n}}, trainer::ReduceOp::kSum, stream)->Wait();
      last = data.back();
      if (data.front() != last) return SendError(channel, "INTERNAL", "wrong sum");
      if (round == 3) {  // reported once, so that tests know when all ranks are midway
        v1::RankMessage progress;
        progress.mutable_progress()->set_step(round);
        channel.Send(progress);
      }
    }
    group->Barrier();
  }
  SendResult(channel, last);
  return 0;
}

int Run(const std::vector<std::string>& arguments) {
  trainer::LauncherChannel channel(trainer::kLauncherFd);
  using Mode = std::function<int()>;
  const std::map<std::string, Mode> kModes = {
      {"ok", [&] { return SendResult(channel), 0; }},
      {"gather", [&] { return Gather(channel); }},
      {"gather_then_hang",
       [&]() -> int {
         GatherWithProgress(channel);
         Hang();
       }},
      {"gather_other_name", [&] { return channel.AllGather("other", ""), 0; }},
      {"gather_name", [&] { return channel.AllGather("name", ""), 0; }},
      {"answer", [&] { return AnswerAll(channel); }},
      {"describe", [&] { return Describe(channel, arguments); }},
      {"segfault",
       [] {
         ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would convert it to an exit
         return ::raise(SIGSEGV);
       }},
      {"kill", [] { return ::raise(SIGKILL); }},
      {"abort", [] { return std::abort(), 0; }},
      {"kill_late",
       [] {
         std::this_thread::sleep_for(std::chrono::milliseconds(150));
         return ::raise(SIGKILL);
       }},
      {"exit_5",
       [] {
         std::fprintf(stderr, "first line\nthe disk is full\n\n");
         return 5;
       }},
      {"kill_after_information",
       [] {
         std::fprintf(stderr, "a word of its own\n[2026-01-01 00:00:00.000] [trainer] [info] own kernels\n");
         return ::raise(SIGKILL);
       }},
      {"silent", [] { return 0; }},
      {"result_then_exit_7", [&] { return SendResult(channel), 7; }},
      {"out_of_memory", [&] { return SendError(channel, "RESOURCE_EXHAUSTED", "4096 bytes over"); }},
      {"bad_input", [&] { return SendError(channel, "INVALID_ARGUMENT", "no such file\nx.json"); }},
      {"unimplemented", [&] { return SendError(channel, "UNIMPLEMENTED", "gpus are not supported yet"); }},
      {"internal", [&] { return SendError(channel, "INTERNAL", "a bug"); }},
      {"unavailable", [&] { return SendError(channel, "UNAVAILABLE", "a peer is gone"); }},
      {"internal_late",
       [&] {
         std::this_thread::sleep_for(std::chrono::milliseconds(150));
         return SendError(channel, "INTERNAL", "the cause");
       }},
      {"hang", [] { return Hang(), 0; }},
      {"hang_hard",
       [] {
         ::signal(SIGTERM, SIG_IGN);
         return Hang(), 0;
       }},
      {"unread_reply",
       [&] {
         AskWithoutReading(channel, "a");
         return Hang(), 0;
       }},
      {"flood",
       [&] {
         Flood();
         return SendResult(channel), 0;
       }},
      {"flood_then_fail",
       [&] {
         Flood();
         return SendError(channel, "INTERNAL", "a bug");
       }},
      {"not_utf8",
       [] {
         std::fprintf(stderr, "broken \xc3\xff bytes\n");
         return 6;
       }},
      {"await_file", [&] { return AwaitFile(channel); }},
      {"garbage",
       [] {
         const std::string bytes(64, '\xff');
         return ::send(trainer::kLauncherFd, bytes.data(), bytes.size(), 0) > 0 ? (Hang(), 0) : 1;
       }},
      {"close_and_hang",
       [] {
         ::shutdown(trainer::kLauncherFd, SHUT_WR);
         return Hang(), 0;
       }},
      {"grandchild", [&] { return LeaveGrandchild(channel); }},
      {"daemon", [&] { return ReportDaemon(channel), SendResult(channel), 0; }},
      {"daemon_then_fail", [&] { return ReportDaemon(channel), SendError(channel, "INTERNAL", "a bug"); }},
      {"daemon_then_await_file", [&] { return ReportDaemon(channel), AwaitFile(channel); }},
      {"many_processes", [] { return StartMany(40), 0; }},
      {"much_memory", [] { return TakeMemory(std::size_t{512} << 20), 0; }},
      {"daemon_then_hang", [&] { return ReportDaemon(channel), Hang(), 0; }},
      {"chain", [&] { return LeaveChain(channel), SendResult(channel), 0; }},
      {"flooding_grandchild",
       [&] {
         SendResult(channel);
         LeaveFlood();
         return 0;
       }},
      {"huge_message", [] { return SendHugeMessage(), 0; }},
      {"endless_result", [] { return SendEndlessResult(), 0; }},
      {"endless_gathering", [] { return GatherWithoutReading(), 0; }},
      {"too_many_steps",
       [&] {
         v1::RankMessage message;
         for (int step = 0; step < 100'000; ++step) message.mutable_train_result()->add_losses(1);
         channel.Send(message);
         return Hang(), 0;
       }},
      {"two_results", [&] { return SendResult(channel), SendResult(channel), Hang(), 0; }},
      {"reduce", [&] { return Reduce(channel, 30); }},
      {"reduce_forever", [&] { return Reduce(channel, 0); }},
  };
  const char* named = std::getenv("AUTOCFG_FAKE_TRAINER_MODE");
  const auto mode =
      kModes.find(ModeOf(channel, named != nullptr ? named : channel.run_spec().train().model().name()));
  if (mode == kModes.end()) return SendError(channel, "INTERNAL", "no such mode of the fake trainer");
  return mode->second();
}

}  // namespace
}  // namespace autocfg::worker

int main(int argc, char** argv) {
  return autocfg::worker::Run(std::vector<std::string>(argv + 1, argv + argc));
}
