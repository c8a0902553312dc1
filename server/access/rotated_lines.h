// A file of lines, which is rotated at 16 MiB; eight older ones are kept (FILE.1, ...). Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace spdlog {
class logger;
}

namespace autocfg::server {

class RotatedLines {
 public:
  // Appends to the file, and creates it if there is none. InvalidArgument: it is no regular file.
  // Unavailable: it cannot be written.
  static absl::StatusOr<std::unique_ptr<RotatedLines>> Open(const std::string& path);

  // Writes a line. If somebody has removed or renamed the file, begins it anew. A line that cannot be written
  // is reported on the program's log.
  void Write(const std::string& line);

 private:
  explicit RotatedLines(std::string path) : path_(std::move(path)) {}
  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex mutex_;
  std::shared_ptr<spdlog::logger> lines_ ABSL_GUARDED_BY(mutex_);  // null: the file could not be begun anew
};

}  // namespace autocfg::server
