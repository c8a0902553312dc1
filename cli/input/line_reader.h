// Reads the lines of a file, a pipe or standard input as they arrive. The input may be of any length. Use
// from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace autocfg::cli {

class LineReader {
 public:
  // Opens `path`; "-" is standard input. Errors as of OpenToRead (cli/input/files.h). Lines longer than `most`
  // bytes are dropped.
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path, std::size_t most);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Got : std::uint8_t { kLine, kTooLong, kEnd };
  // Waits for the next line and returns it without its line feed. Text after the last line feed is a line if
  // it is not empty. InvalidArgument if reading fails.
  absl::StatusOr<Got> Next(std::string& line);

  // Returns true if the next line is already buffered, so that answers need not be flushed before it is read.
  bool HasNext() const { return buffer_.find('\n', begin_) != std::string::npos; }

 private:
  LineReader(std::string name, int fd, bool owned, std::size_t most)
      : name_(std::move(name)), fd_(fd), owned_(owned), most_(most) {}
  // Reads more bytes into the buffer; returns false at the end.
  absl::StatusOr<bool> Fill();

  const std::string name_;
  const int fd_;
  const bool owned_;
  const std::size_t most_;
  std::string buffer_;  // bytes read but not yet returned start at begin_
  std::size_t begin_ = 0;
  bool skipping_ = false;  // inside a line that is too long
};

}  // namespace autocfg::cli
