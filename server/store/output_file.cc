#include "server/store/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/os/atomic_file.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

// Files that SQLite and the programs keep beside a database.
constexpr std::string_view kCompanions[] = {"-wal", "-shm", "-journal", ".lock", ".sock"};

std::filesystem::path CanonicalPath(const std::filesystem::path& path, std::error_code& error) {
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : std::filesystem::weakly_canonical(absolute, error);
}

}  // namespace

// A full disk is FailedPrecondition, because another file may do; ResourceExhausted is a service without
// room.
absl::Status CannotWriteOutput(const std::string& given, int error) {
  const std::string message = fmt::format("{}: cannot be written: {}", given, std::strerror(error));
  switch (error) {
    case EEXIST:
      return absl::AlreadyExistsError(
          fmt::format("{}: exists; name another file, or replace it with --force", given));
    case ENOENT: return absl::NotFoundError(message + "; name a file in an existing directory");
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message + "; name a file that you may write");
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return absl::FailedPreconditionError(message + "; free some space, or name a file elsewhere");
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP: return absl::InvalidArgumentError(message + "; name another file");
    default: return absl::UnavailableError(message);
  }
}

absl::StatusOr<OutputFile> CheckOutputFile(const std::string& given, const std::string& database,
                                           bool replace) {
  if (given.empty()) return absl::InvalidArgumentError("an empty file name; name the file to write");
  std::error_code error;
  if (std::filesystem::is_directory(given, error))
    return absl::InvalidArgumentError(fmt::format("{}: is a directory; name a file", given));
  // Of the given name: where /dev/stdout is a pipe, the target of its link is not a path.
  if (base::IsSpecialFile(given))
    return absl::InvalidArgumentError(fmt::format("{}: is not a regular file; name one", given));
  const std::filesystem::path path = CanonicalPath(base::FollowLinks(given), error);
  if (error) return CannotWriteOutput(given, error.value());
  std::error_code unknown;
  const std::string source = CanonicalPath(database, unknown).string();
  OutputFile output{.path = path.string(), .lock = std::nullopt};
  const bool exists = std::filesystem::exists(path, error);
  if (exists && std::filesystem::equivalent(path, source, error))
    return absl::InvalidArgumentError(fmt::format("{}: is the database itself; name another file", given));
  for (const std::string_view suffix : kCompanions) {
    const std::string companion = source + std::string(suffix);
    if (output.path == companion || (exists && std::filesystem::equivalent(path, companion, error))) {
      return absl::InvalidArgumentError(
          fmt::format("{}: belongs to the database {}; name another file", given, source));
    }
  }
  if (exists) {
    if (!replace) return CannotWriteOutput(given, EEXIST);
    auto lock = InodeLock::Acquire(output.path);
    if (absl::IsFailedPrecondition(lock.status()))
      return absl::InvalidArgumentError(fmt::format("{}: is a database in use; name another file", given));
    if (absl::IsPermissionDenied(lock.status())) return CannotWriteOutput(given, EACCES);
    if (!lock.ok()) return lock.status();
    output.lock.emplace(*std::move(lock));
  }
  // SQLite would apply the log to the file.
  for (const char* const suffix : {"-wal", "-journal"}) {
    if (const auto bytes = std::filesystem::file_size(output.path + suffix, error); !error && bytes > 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: there is {}{}, the log of another database of this name; name another file", given,
                      given, suffix));
    }
  }
  return output;
}

}  // namespace autocfg::server
