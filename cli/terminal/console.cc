#include "cli/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (!control) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

void Say(std::string_view message) {
  // One write per line, so that lines of several processes do not interleave.
  const std::string line = fmt::format("autocfg: {}\n", OneLine(message));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string Text(const absl::Status& status) { return std::string(status.message()); }

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return kExitDone;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted: return kExitUnreachable;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss: return kExitUsage;
    default: return kExitNegative;
  }
}

int Fail(int code, std::string_view message) {
  Say(message);
  return code;
}

int Fail(const absl::Status& status) { return Fail(ExitCodeOf(status), Text(status)); }

void Note(std::string_view message) { Say(fmt::format("note: {}", message)); }

absl::Status Where(std::string_view where, const absl::Status& status, std::string_view subject) {
  return !subject.empty() && base::SubjectOf(status) == subject ? base::WithSubject(where, status)
                                                                : base::Within(where, status);
}

int Answer(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return kExitDone;
  return Fail(kExitNegative, fmt::format("standard output: cannot write the answer ({})",
                                         std::generic_category().message(errno)));
}

int Columns(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col - 1;
}

bool CanDraw(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

bool WantsColor(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return CanDraw(fd) && (no_color == nullptr || *no_color == '\0');
}

}  // namespace autocfg::cli
