// The lines of a file, a pipe or standard input as they come, however many there are. Use from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace autocfg {

class LineReader {
 public:
  // "-" is standard input. Errors as OpenToRead (cli/files.h). Lines of more than `most` bytes are not kept.
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path, std::size_t most);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Got : std::uint8_t { kLine, kTooLong, kEnd };
  // The next line without its line feed; what stands behind the last line feed is a line where it is not
  // empty. Waits for it. InvalidArgument where reading fails.
  absl::StatusOr<Got> Next(std::string& line);

  // Whether the next line is here already, so that nobody need be shown what was answered so far.
  bool HasNext() const { return buffer_.find('\n', begin_) != std::string::npos; }

 private:
  LineReader(std::string name, int fd, bool owned, std::size_t most)
      : name_(std::move(name)), fd_(fd), owned_(owned), most_(most) {}
  // More bytes into the buffer; false at the end.
  absl::StatusOr<bool> Fill();

  const std::string name_;
  const int fd_;
  const bool owned_;
  const std::size_t most_;
  std::string buffer_;  // what was read and not yet handed out begins at begin_
  std::size_t begin_ = 0;
  bool skipping_ = false;  // within a line that is too long
};

}  // namespace autocfg
