// A file opened for reading at offsets, or written anew and put in place at once when complete. Movable; use
// from one thread. Errors are thrown as BadInput, naming the path and the reason.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/os/atomic_file.h"

namespace autocfg {

class File {
 public:
  static File OpenToRead(const std::string& path);  // a regular file

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::int64_t Size() const;

  // Exactly `bytes` bytes; an early end of the file is an error.
  void ReadAt(std::int64_t offset, void* data, std::int64_t bytes) const;

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

// Writes beside `path`, or beside what it leads to where it is a symbolic link; Finish puts it in its place,
// on the disk (base/os/atomic_file.h). Without Finish nothing stays behind. What is there and is no regular
// file is never replaced: BadInput.
class FileReplacement {
 public:
  explicit FileReplacement(std::string path);
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  void Append(const void* data, std::int64_t bytes);
  void Finish();

 private:
  void Check(const std::error_code& error, const char* what) const;

  const std::string path_;
  AtomicFile file_;
};

}  // namespace autocfg
