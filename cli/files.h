// Files that verbs read and write. Errors name the file and the cause. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace autocfg {

// A whole text file of at most 16 MiB, or what comes through a pipe until its end. Waits for no writer that
// is not there. NotFound, PermissionDenied or InvalidArgument (a directory, a device, too large, a pipe that
// stays silent for 10 s).
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// A descriptor, the caller's to close, that reads a regular file or a pipe from its beginning; does not
// block. Waits for no writer.
absl::StatusOr<int> OpenToRead(const std::string& path);

// OK where it is a regular file that can be opened for reading.
absl::Status CheckReadable(const std::string& path);

// OK where WriteFileAtomically(path) can be expected to work: tried with a file of another name in the same
// directory, which is removed again.
absl::Status CheckWritable(const std::string& path);

// The path without symbolic links, where CheckWritable is OK and it is a regular file or none yet: for a
// writer that replaces it.
absl::StatusOr<std::string> ReplaceablePath(const std::string& path);

// Readers of `path` see the old content or the new one, never a part; durable when it returns OK. A symbolic
// link stays and what it leads to is replaced; a device, a pipe or a descriptor (/dev/stdout) is written to.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace autocfg
