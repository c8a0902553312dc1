#include "worker/launcher/rank_link.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace autocfg::worker {
namespace {

// Converts waitid's result to a waitpid status.
int WaitStatus(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

// Matches "[time] [trainer] [info] words", spdlog's format of the trainer's own log. Such lines do not
// explain an exit.
bool IsInformation(std::string_view line) {
  return line.starts_with('[') &&
         (line.find("] [info] ") != line.npos || line.find("] [debug] ") != line.npos);
}

}  // namespace

absl::Status RankLink::Queue(const v1::LauncherMessage& message) {
  if (absl::Status status = AppendFrame(message, out_); !status.ok()) return status;
  Flush();
  return absl::OkStatus();
}

void RankLink::Flush() {
  std::size_t sent = 0;
  while (sent < out_.size()) {
    const ssize_t n =
        ::send(rank_.socket.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {  // the rank is gone; read what it sent before
      sent = out_.size();
    }
  }
  out_.erase(0, sent);
}

void RankLink::Receive() {
  std::array<char, 64 << 10> bytes;
  // Bounded, so that a rank that floods does not starve the others.
  for (int reads = 0; !input_ended_ && (reads < 64 || ended()); ++reads) {
    const ssize_t n = ::recv(rank_.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
      in_.Append(std::string_view(bytes.data(), static_cast<std::size_t>(n)));
    } else if (n < 0 && errno == EAGAIN) {
      return;
    } else if (n == 0 || errno != EINTR) {
      input_ended_ = true;
    }
  }
}

void RankLink::DrainLog() {
  std::array<char, 16 << 10> bytes;
  for (int reads = 0; rank_.log.ok() && reads < 16; ++reads) {
    const ssize_t n = ::read(rank_.log.get(), bytes.data(), bytes.size());
    if (n > 0) {
      log_tail_.append(bytes.data(), static_cast<std::size_t>(n));
      if (log_tail_.size() > kLogTailBytes) log_tail_.erase(0, log_tail_.size() - kLogTailBytes);
    } else if (n < 0 && errno == EAGAIN) {
      return;
    } else if (n == 0 || errno != EINTR) {
      rank_.log.Reset();
    }
  }
}

std::string RankLink::LastLogLine() const {
  constexpr std::string_view kWords = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (std::size_t end = log_tail_.size(); end > 0;) {
    const std::size_t word = log_tail_.find_last_of(kWords, end - 1);
    if (word == std::string::npos) return "";
    const std::size_t newline = log_tail_.rfind('\n', word);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    std::string line = log_tail_.substr(begin, log_tail_.find('\n', word) - begin);
    if (!IsInformation(line)) return line;
    end = begin;
  }
  return "";
}

bool RankLink::PollEnded() {
  if (ended()) return true;
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(rank_.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno == EINTR) continue;
    reaped_elsewhere_ = true;
    exit_status_ = 0;
    return true;
  }
  if (info.si_pid == rank_.pid) exit_status_ = WaitStatus(info);
  return ended();
}

void RankLink::Reap() {
  if (reaped_elsewhere_) return;
  while (::waitpid(rank_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace autocfg::worker
