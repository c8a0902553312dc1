// A study as a file that other databases import: JSON lines, one for the study, one for each trial and one
// that closes the file (docs/formats.md, "A study as a file"). Files come from anywhere: reading bounds and
// checks everything. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace autocfg::server {

inline constexpr std::int64_t kStudyFileVersion = 1;
inline constexpr std::size_t kMostStudyFileBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMostStudyLineBytes = std::size_t{64} << 20;
inline constexpr std::int64_t kMostStudyFileTrials = 200'000;

// Reads an ended study from the store. NotFound. FailedPrecondition: it has not ended. Other errors: those of
// the store.
absl::StatusOr<Store::StudyCopy> ReadStudyCopy(Store& store, std::int64_t id);

struct WrittenStudyFile {
  std::size_t bytes = 0;
  std::int64_t trials = 0;
};
// Writes the file whole or not at all. `database`: the file that the copy is from, which is never replaced.
// AlreadyExists: the file exists and `replace` is not set. InvalidArgument: it is not a regular file, or
// belongs to that database or to another one in use. NotFound, PermissionDenied, FailedPrecondition,
// Unavailable: it cannot be written. Messages name the file.
absl::StatusOr<WrittenStudyFile> WriteStudyFile(const std::string& path, const Store::StudyCopy& copy,
                                                const std::string& database, bool replace);

// Reads and checks a file. NotFound, PermissionDenied, Unavailable: it cannot be read. InvalidArgument: it is
// no such file, is cut off or damaged, has a newer version, or what it says cannot be; names the line.
absl::StatusOr<Store::StudyCopy> ReadStudyFile(const std::string& path);

}  // namespace autocfg::server
