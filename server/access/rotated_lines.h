// A file of lines, which is rotated at 16 MiB (base/os/streams/rotated_file_sink.h); eight older ones are
// kept. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace spdlog {
class logger;
}

namespace autocfg::server {

class RotatedLines {
 public:
  // Appends to the file, and creates it if there is none. InvalidArgument: it is no regular file.
  // Unavailable: it cannot be written.
  static absl::StatusOr<std::unique_ptr<RotatedLines>> Open(const std::string& path);

  // Writes a line. If somebody has removed or renamed the file, begins it anew, and says so on the program's
  // log, as it does of a line that cannot be written.
  void Write(const std::string& line);

 private:
  explicit RotatedLines(std::shared_ptr<spdlog::logger> lines) : lines_(std::move(lines)) {}

  const std::shared_ptr<spdlog::logger> lines_;
};

}  // namespace autocfg::server
