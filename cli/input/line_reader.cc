#include "cli/input/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "cli/input/files.h"
#include "fmt/format.h"

namespace autocfg::cli {

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path, std::size_t most) {
  if (path == "-")
    return std::unique_ptr<LineReader>(new LineReader("standard input", STDIN_FILENO, false, most));
  AUTOCFG_ASSIGN_OR_RETURN(const auto fd, OpenToRead(path));
  return std::unique_ptr<LineReader>(new LineReader(path, fd, true, most));
}

LineReader::~LineReader() {
  if (owned_) close(fd_);
}

absl::StatusOr<bool> LineReader::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  char bytes[1 << 16];
  for (;;) {
    const ssize_t got = read(fd_, bytes, sizeof bytes);
    if (got > 0) {
      buffer_.append(bytes, static_cast<std::size_t>(got));
      return true;
    }
    if (got == 0) return false;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {  // an open pipe without data yet
      pollfd pipe{fd_, POLLIN, 0};
      if (poll(&pipe, 1, -1) > 0 || errno == EINTR) continue;
    }
    return absl::InvalidArgumentError(fmt::format("{}: cannot be read ({}); give another file", name_,
                                                  std::generic_category().message(errno)));
  }
}

absl::StatusOr<LineReader::Got> LineReader::Next(std::string& line) {
  std::size_t searched = begin_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    const std::size_t size = (end == std::string::npos ? buffer_.size() : end) - begin_;
    if (end != std::string::npos) {
      const bool too_long = std::exchange(skipping_, false) || size > most_;
      if (!too_long) line.assign(buffer_, begin_, size);
      begin_ = end + 1;
      return too_long ? Got::kTooLong : Got::kLine;
    }
    if (skipping_ || size > most_) {
      skipping_ = true;
      begin_ = buffer_.size();
    }
    const std::size_t kept = buffer_.size() - begin_;
    AUTOCFG_ASSIGN_OR_RETURN(const auto more, Fill());
    if (!more) {
      if (std::exchange(skipping_, false)) return Got::kTooLong;
      if (kept == 0) return Got::kEnd;
      line = std::exchange(buffer_, {});
      begin_ = 0;
      return Got::kLine;
    }
    searched = begin_ + kept;
  }
}

}  // namespace autocfg::cli
