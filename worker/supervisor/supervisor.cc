#include "worker/supervisor/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "worker/supervisor/children.h"
#include "worker/supervisor/job_usage.h"
#include "worker/supervisor/start_rank.h"

namespace autocfg::worker {
namespace {

constexpr std::size_t kMaxOrderBytes = 128 << 10;
constexpr std::size_t kDescriptors = 2;  // with kStart
constexpr int kWaitMs = 5;               // while children end
// Between two looks at what the job takes: the second once that is above half of a limit.
constexpr std::chrono::milliseconds kLookPeriod{1000};
constexpr std::chrono::milliseconds kNearLookPeriod{100};
// Beyond the limit of processes, so many are counted at most.
constexpr std::int64_t kMoreProcesses = 1000;
constexpr std::int64_t kMostProcesses = 1 << 22;  // of a Linux machine

// Converts waitid's result to a waitpid status.
int WaitStatus(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

// Takes the descriptors out of a received message.
std::vector<base::UniqueFd> DescriptorsIn(msghdr& message) {
  std::vector<base::UniqueFd> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    std::array<int, kDescriptors> numbers{};
    const std::size_t bytes = std::min(part->cmsg_len - CMSG_LEN(0), sizeof numbers);
    std::memcpy(numbers.data(), CMSG_DATA(part), bytes);
    for (std::size_t i = 0; i < bytes / sizeof(int); ++i) found.emplace_back(numbers[i]);
  }
  return found;
}

}  // namespace

int Supervisor::Run() {
  // Blocked, so that no signal but SIGKILL ends this process before the job's others. Ranks unblock them.
  sigset_t all, child;
  sigfillset(&all);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  if (::sigprocmask(SIG_SETMASK, &all, nullptr) != 0) return errno;
  signals_ = base::UniqueFd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.ok()) return errno;
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return errno;
  for (bool more = true; more;) {
    pollfd fds[] = {{socket_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    if (::poll(fds, std::size(fds), UntilLook()) < 0 && errno != EINTR) return errno;
    if (fds[1].revents != 0) {
      signalfd_siginfo ignored{};
      while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
      }
      ReportEnds();
      ReapOrphans();
    }
    if (fds[0].revents != 0) more = TakeOrder();
    if (more) Look();
  }
  return 0;
}

int Supervisor::UntilLook() const {
  if ((limits_.processes == 0 && limits_.memory_bytes == 0) || ranks_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(next_look_ - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void Supervisor::Look() {
  if (UntilLook() != 0) return;
  const std::int64_t most = limits_.processes > 0 ? limits_.processes + kMoreProcesses : kMostProcesses;
  const std::vector<pid_t> processes = AllDescendants(static_cast<std::size_t>(most));
  Report report{.kind = Report::Kind::kOverLimit, .processes = static_cast<std::int64_t>(processes.size())};
  const bool too_many = limits_.processes > 0 && report.processes > limits_.processes;
  bool too_much = false;
  if (!too_many && limits_.memory_bytes > 0) {
    report.memory_bytes = PrivateBytes(processes);
    if (report.memory_bytes > limits_.memory_bytes) {
      report.memory_bytes = PrivateBytesCountedOnce(processes);
      too_much = report.memory_bytes > limits_.memory_bytes;
    }
  }
  if (too_many || too_much) {
    limits_ = {};
    killed_ = true;
    Signal(SIGKILL);
    Send(report);
    return;
  }
  const bool near = (limits_.processes > 0 && 2 * report.processes > limits_.processes) ||
                    (limits_.memory_bytes > 0 && 2 * report.memory_bytes > limits_.memory_bytes);
  next_look_ = std::chrono::steady_clock::now() + (near ? kNearLookPeriod : kLookPeriod);
}

bool Supervisor::TakeOrder() {
  std::string text(kMaxOrderBytes, '\0');
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
  iovec bytes{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (n < 0 && errno == EINTR) return true;
  std::vector<base::UniqueFd> descriptors;
  if (n > 0) descriptors = DescriptorsIn(message);
  const bool whole = n > 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  switch (whole ? static_cast<Order>(text.front()) : Order::kFinish) {
    case Order::kStart:
      if (descriptors.size() != kDescriptors) break;
      Start(std::string_view(text).substr(1, static_cast<std::size_t>(n) - 1), std::move(descriptors[0]),
            std::move(descriptors[1]));
      return true;
    case Order::kLimit:
      if (static_cast<std::size_t>(n) != 1 + sizeof limits_) break;
      std::memcpy(&limits_, text.data() + 1, sizeof limits_);
      return true;
    case Order::kTerminate: Signal(SIGTERM); return true;
    case Order::kKill:
      killed_ = true;
      Signal(SIGKILL);
      return true;
    case Order::kFinish:
      if (!whole) break;
      Finish();
      return false;
  }
  // The launcher is gone, or is not one.
  EndChildren({std::chrono::milliseconds(0), kOrphanKillLimit}, [this] { WaitForChild(); });
  return false;
}

void Supervisor::Start(std::string_view command, base::UniqueFd socket, base::UniqueFd log) {
  Report report{.kind = Report::Kind::kNotStarted, .place = static_cast<std::int32_t>(ranks_.size())};
  StartedRank started{.error = EINVAL};
  if (const auto decoded = DecodeRankCommand(command))
    started = StartRank(*decoded, ranks_.empty() ? 0 : ranks_.front().pid, socket, log);
  if (started.error == 0) {
    ranks_.push_back({.pid = started.pid});
    report.kind = Report::Kind::kStarted;
  }
  report.value = started.error == 0 ? started.pid : started.error;
  Send(report);
}

void Supervisor::Signal(int signal) {
  if (ranks_.empty()) return;
  const pid_t group = ranks_.front().pid;
  ::kill(-group, signal);
  for (const pid_t child : Children()) {
    if (::getpgid(child) != group) ::kill(child, signal);
  }
}

void Supervisor::ReportEnds() {
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    Rank& rank = ranks_[place];
    if (rank.ended) continue;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    if (info.si_pid != rank.pid) continue;
    rank.ended = true;
    Send(
        {.kind = Report::Kind::kEnded, .place = static_cast<std::int32_t>(place), .value = WaitStatus(info)});
  }
}

bool Supervisor::IsRank(pid_t pid) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [pid](const Rank& rank) { return rank.pid == pid; });
}

// Reaps processes that the ranks left behind and that have ended. Those behind an ended rank wait for the end
// of the job.
void Supervisor::ReapOrphans() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (IsRank(info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void Supervisor::WaitForChild() {
  pollfd fd{signals_.get(), POLLIN, 0};
  if (::poll(&fd, 1, kWaitMs) <= 0) return;
  signalfd_siginfo ignored{};
  while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
  }
}

void Supervisor::Finish() {
  const EndLimits limits{killed_ ? std::chrono::milliseconds(0) : kOrphanTerminateLimit, kOrphanKillLimit};
  const EndedChildren ended = EndChildren(limits, [this] { WaitForChild(); });
  Report report{.kind = Report::Kind::kFinished,
                .value = ended.signalled,
                .remaining = static_cast<std::int32_t>(ended.remaining.size())};
  std::copy_n(ended.remaining.begin(), std::min(ended.remaining.size(), report.examples.size()),
              report.examples.begin());
  Send(report);
}

// A failure means that the launcher is gone: the next order says so.
void Supervisor::Send(const Report& report) {
  while (::send(socket_.get(), &report, sizeof report, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

}  // namespace autocfg::worker
