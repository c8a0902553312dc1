#include "worker/launcher/rank_link.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/status_macros.h"

namespace autocfg::worker {
namespace {

// Matches "[time] [trainer] [info] words", spdlog's format of the trainer's own log. Such lines do not
// explain an exit.
bool IsInformation(std::string_view line) {
  return line.starts_with('[') &&
         (line.find("] [info] ") != line.npos || line.find("] [debug] ") != line.npos);
}

}  // namespace

absl::StatusOr<RankLink::Frame> RankLink::MakeFrame(const v1::LauncherMessage& message) {
  std::string bytes;
  AUTOCFG_RETURN_IF_ERROR(AppendFrame(message, bytes));
  return std::make_shared<const std::string>(std::move(bytes));
}

void RankLink::Queue(Frame frame) {
  out_.push_back(std::move(frame));
  Flush();
}

void RankLink::Flush() {
  while (!out_.empty()) {
    const std::string& frame = *out_.front();
    const ssize_t n =
        ::send(rank_.socket.get(), frame.data() + sent_, frame.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<std::size_t>(n);
      if (sent_ < frame.size()) continue;
      out_.pop_front();
      sent_ = 0;
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {  // the rank is gone; read what it sent before
      out_.clear();
      sent_ = 0;
    }
  }
}

std::size_t RankLink::Receive(std::size_t most) {
  std::array<char, 16 << 10> bytes;
  most = std::min(most, bytes.size());
  while (!input_ended_ && most > 0) {
    const ssize_t n = ::recv(rank_.socket.get(), bytes.data(), most, MSG_DONTWAIT);
    if (n > 0) {
      in_.Append(std::string_view(bytes.data(), static_cast<std::size_t>(n)));
      return static_cast<std::size_t>(n);
    }
    if (n < 0 && errno == EAGAIN) return 0;
    if (n == 0 || errno != EINTR) input_ended_ = true;
  }
  return 0;
}

std::size_t RankLink::UnreadBytes() const {
  int bytes = 0;
  return ::ioctl(rank_.socket.get(), FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes)
                                                                         : 0;
}

void RankLink::StopReceiving() {
  input_ended_ = true;
  in_.Clear();
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

}  // namespace autocfg::worker
