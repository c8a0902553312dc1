// Reads and writes the files of verbs. Errors name the file and the cause. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace autocfg::cli {

// Reads a whole text file of at most 16 MiB, or a pipe until its end. Does not block if a pipe has no writer.
// Errors: NotFound, PermissionDenied, or InvalidArgument (a directory, a device, too large, or a pipe silent
// for 10 s).
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// Opens a regular file or a pipe for reading from its beginning, without blocking or waiting for a writer.
// The caller closes the descriptor.
absl::StatusOr<int> OpenToRead(const std::string& path);

// Returns OK if `path` is a regular file that can be opened for reading.
absl::Status CheckReadable(const std::string& path);

// Returns OK if WriteFileAtomically(path) is expected to succeed. Tries it with a file of another name in the
// same directory, which is removed again.
absl::Status CheckWritable(const std::string& path);

// InvalidArgument for "-": the name of a regular file is needed, and who writes that means standard output.
absl::Status CheckRegularName(const std::string& path);

// Returns `path` with symbolic links resolved, for a writer that replaces the file. Fails as CheckWritable
// does, and if the path exists and is not a regular file.
absl::StatusOr<std::string> ReplaceablePath(const std::string& path);

// A file as an option names it: {"--output", "best.json"}. An empty path: the option is not given.
struct FileOfOption {
  std::string option, path;
};

// InvalidArgument if `written` is one of the files, also through links: to write it would lose that file. A
// text of `others` that names no file, such as a preset, is none. `--output: run.sh is also the file of FILE;
// name another file`.
absl::Status CheckOtherFile(const FileOfOption& written, const std::vector<FileOfOption>& others);

// InvalidArgument if both are the same file, which may not exist yet: each would replace the other.
absl::Status CheckBothWritten(const FileOfOption& written, const FileOfOption& also_written);

// Returns OK if `path` is a directory that can be written to, or can be created in a directory that exists.
absl::Status CheckWritableDirectory(const std::string& path);

// Returns OK if `path` is a directory that can be read.
absl::Status CheckReadableDirectory(const std::string& path);

// Writes a file atomically: readers see the old or the new content, never a part. The content is durable once
// OK is returned. Symbolic links are followed and kept. A device, a pipe or a descriptor (/dev/stdout) is
// written in place.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace autocfg::cli
