#include "cli/terminal/console.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/os/host.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

void Say(std::string_view message) {
  // One write per line, so that lines of several processes do not interleave.
  const std::string line = fmt::format("autocfg: {}\n", base::OneLine(message));
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
    case absl::StatusCode::kUnauthenticated:
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
  return Fail(kExitNegative,
              fmt::format("standard output: cannot write the answer ({}); redirect it elsewhere",
                          std::generic_category().message(errno)));
}

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-=,:+@%").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ProgramName(const std::string& argv0) {
  if (argv0.find('/') == std::string::npos) return "autocfg";  // found on PATH by the shell
  const std::string path = base::Environment("PATH");
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::filesystem::path found = std::filesystem::path(path.substr(start, end - start)) / "autocfg";
    std::error_code error;
    if (access(found.c_str(), X_OK) == 0) {  // the file that a shell would start
      return std::filesystem::equivalent(found, argv0, error) && !error ? "autocfg" : ShellWord(argv0);
    }
    start = end + 1;
  }
  return ShellWord(argv0);
}

}  // namespace autocfg::cli
