#include "proto/rpc/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::size_t kLongestToken = 4096;

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string token(kLongestToken + 1, '\0');
  in.read(token.data(), static_cast<std::streamsize>(token.size()));
  if (in.bad() || (in.gcount() == 0 && !in.eof())) {
    return absl::InvalidArgumentError(fmt::format("{}: cannot be read ({}); name a file with a token",
                                                  base::Printable(path),
                                                  std::generic_category().message(errno)));
  }
  token.resize(static_cast<std::size_t>(in.gcount()));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const auto plain = [](char c) { return c > ' ' && c < 0x7f; };
  if (token.empty() || token.size() > kLongestToken || !std::all_of(token.begin(), token.end(), plain)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: holds no token; write the line there that `autocfg token create` prints",
                    base::Printable(path)));
  }
  return token;
}

std::string TokenFileWarning(const std::string& path) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0 || (found.st_mode & S_IROTH) == 0) return "";
  return fmt::format("{}: every user of this machine can read this token; chmod 600 makes it yours alone",
                     base::Printable(path));
}

FollowedToken::FollowedToken(std::string token, std::string path)
    : path_(std::move(path)), token_(std::move(token)) {}

FollowedToken::Mark FollowedToken::MarkOf(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {static_cast<std::int64_t>(found.st_ino), static_cast<std::int64_t>(found.st_size),
          static_cast<std::int64_t>(found.st_mtim.tv_sec), static_cast<std::int64_t>(found.st_mtim.tv_nsec)};
}

std::string FollowedToken::Latest() {
  absl::MutexLock lock(&mutex_);
  if (path_.empty()) return token_;
  // Taken before the file is read: a change meanwhile is seen at the next call.
  if (const Mark now = MarkOf(path_); now != mark_) {
    mark_ = now;
    if (auto token = ReadTokenFile(path_); token.ok()) token_ = *std::move(token);
  }
  return token_;
}

}  // namespace autocfg
