// Files for reading at offsets, and files that replace another one atomically when complete. Movable; use
// from one thread. Errors of reading are thrown as BadInput, those of writing as WriteFailed; both name the
// path and the reason.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/os/atomic_file.h"

namespace autocfg::trainer {

class File {
 public:
  static File OpenToRead(const std::string& path);  // a regular file

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::int64_t Size() const;

  // Reads exactly `bytes` bytes; throws if the file ends earlier.
  void ReadAt(std::int64_t offset, void* data, std::int64_t bytes) const;

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

// Writes a temporary file beside `path`, or beside its target if it is a symbolic link. Finish moves it into
// place, durably (base/os/atomic_file.h). Without Finish the temporary file is removed. Throws BadInput
// instead of replacing anything but a regular file.
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
  base::AtomicFile file_;
};

}  // namespace autocfg::trainer
