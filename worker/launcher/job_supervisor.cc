#include "worker/launcher/job_supervisor.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"
#include "worker/launcher/spawn.h"

namespace autocfg::worker {
namespace {

using Clock = std::chrono::steady_clock;

// For an answer of a supervisor that has the CPU; a busy machine may keep it waiting.
constexpr std::chrono::seconds kAnswerLimit{60};
// For the end of the supervisor, beyond the time that it gives what the ranks left behind.
constexpr std::chrono::seconds kFinishSlack{10};

// Sends one order, with the descriptors that go with it. Returns 0 or errno.
int SendOrder(int socket, Order order, const std::string& text, const std::vector<int>& descriptors) {
  std::string bytes(1, static_cast<char>(order));
  bytes += text;
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void LogEnd(const Report& report) {
  if (report.value > 0)
    spdlog::info("ended {} process{} that a job's ranks left behind", report.value,
                 report.value == 1 ? "" : "es");
  if (report.remaining == 0) return;
  std::vector<pid_t> examples;
  std::copy_if(report.examples.begin(), report.examples.end(), std::back_inserter(examples),
               [](pid_t pid) { return pid != 0; });
  spdlog::error("{} process{} that a job's ranks left behind {} not ended {} s after SIGKILL (pid {}{})",
                report.remaining, report.remaining == 1 ? "" : "es", report.remaining == 1 ? "has" : "have",
                kOrphanKillLimit.count(), fmt::join(examples, ", "),
                examples.size() < static_cast<std::size_t>(report.remaining) ? ", ..." : "");
}

std::string OverLimitText(const Report& report, const JobLimits& limits) {
  if (limits.processes > 0 && report.processes > limits.processes) {
    return fmt::format(
        "killed, because it had {} processes, above its limit of {}; start fewer, or raise --job-processes "
        "of "
        "autocfg-worker",
        report.processes, limits.processes);
  }
  return fmt::format(
      "killed, because it had {} of private memory, above its limit of {}; choose a plan that takes less, or "
      "raise --job-memory of autocfg-worker",
      base::BytesText(report.memory_bytes), base::BytesText(limits.memory_bytes));
}

}  // namespace

JobSupervisor::~JobSupervisor() { Finish(); }

absl::Status JobSupervisor::Start(const std::string& path, const JobLimits& limits) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return SystemError("cannot make a socket pair for a job's supervisor", errno);
  base::UniqueFd own(pair[0]);
  const base::UniqueFd childs = AboveStandard(base::UniqueFd(pair[1]));
  if (!childs.ok()) return SystemError("cannot prepare the descriptors of a job's supervisor", errno);
  AUTOCFG_ASSIGN_OR_RETURN(pid_, Spawn(path, childs.get()));
  socket_ = std::move(own);
  limits_ = limits;
  if (limits.processes == 0 && limits.memory_bytes == 0) return absl::OkStatus();
  const std::string bytes(reinterpret_cast<const char*>(&limits), sizeof limits);
  const int error = SendOrder(fd(), Order::kLimit, bytes, {});
  if (error != 0 && error != EPIPE) return SystemError("cannot set the limits of a job", error);
  return absl::OkStatus();
}

absl::StatusOr<pid_t> JobSupervisor::StartRank(const RankCommand& command, const base::UniqueFd& socket,
                                               const base::UniqueFd& log) {
  const std::string what = fmt::format("cannot start {}", command.arguments.front());
  const int error = SendOrder(fd(), Order::kStart, EncodeRankCommand(command), {socket.get(), log.get()});
  if (error != 0 && error != EPIPE) return SystemError(what, error);
  const auto report = Await(Report::Kind::kStarted, Report::Kind::kNotStarted, kAnswerLimit);
  if (!report) return absl::UnavailableError(what + ": the job's supervisor does not answer");
  if (report->kind == Report::Kind::kNotStarted) return SystemError(what, report->value);
  return report->value;
}

std::vector<JobSupervisor::RankExit> JobSupervisor::TakeExits() {
  Receive();
  return std::exchange(exits_, {});
}

void JobSupervisor::Tell(Order order) {
  // It may have too many orders unread; those that matter are repeated. If it is gone, Receive says so.
  if (socket_.ok()) SendOrder(fd(), order, "", {});
}

// Reads what has arrived.
void JobSupervisor::Receive() {
  while (socket_.ok()) {
    Report report;
    const ssize_t n = ::recv(socket_.get(), &report, sizeof report, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n != sizeof report) {
      lost_ = true;
      socket_.Reset();
    } else if (report.kind == Report::Kind::kEnded) {
      exits_.push_back({static_cast<std::size_t>(report.place), report.value});
    } else if (report.kind == Report::Kind::kOverLimit) {
      over_limit_ = OverLimitText(report, limits_);
    } else {
      answer_ = report;
    }
  }
}

std::optional<Report> JobSupervisor::Await(Report::Kind one, Report::Kind other, std::chrono::seconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    Receive();
    if (answer_ && (answer_->kind == one || answer_->kind == other))
      return std::exchange(answer_, std::nullopt);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (!socket_.ok() || left <= 0) return std::nullopt;
    pollfd poll_fd{fd(), POLLIN, 0};
    ::poll(&poll_fd, 1, static_cast<int>(left));
  }
}

void JobSupervisor::Finish() {
  if (pid_ < 0) return;
  Tell(Order::kFinish);
  const auto limit = std::chrono::ceil<std::chrono::seconds>(kOrphanTerminateLimit) + kOrphanKillLimit;
  if (const auto report = Await(Report::Kind::kFinished, Report::Kind::kFinished, limit + kFinishSlack)) {
    LogEnd(*report);
  } else if (lost_) {
    spdlog::error(
        "a job's supervisor (pid {}) ended early; processes that its ranks left behind may still run", pid_);
  } else {
    spdlog::error(
        "a job's supervisor (pid {}) does not answer and is killed; processes that its ranks left "
        "behind may still run",
        pid_);
    ::kill(pid_, SIGKILL);
  }
  socket_.Reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace autocfg::worker
