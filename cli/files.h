// Files that verbs read and write. Errors name the file and the cause. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace autocfg {

// A whole text file of at most 16 MiB. NotFound, PermissionDenied or InvalidArgument (a directory, too
// large).
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// OK where a file can be opened for reading and is not a directory.
absl::Status CheckReadable(const std::string& path);

// OK where WriteFileAtomically(path) can be expected to work: tried with a file of another name in the same
// directory, which is removed again.
absl::Status CheckWritable(const std::string& path);

// Readers of `path` see the old content or the new one, never a part; durable when it returns OK.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace autocfg
