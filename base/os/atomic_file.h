// Atomic replacement of a file: writes a temporary file in the same directory, then renames it. Not
// thread-safe. Errors are the system's; the caller words the message.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

namespace autocfg::base {

// Returns the target of `path` after following symbolic links. The target need not exist. Stops at the first
// path for which `ends_at` is true.
std::filesystem::path FollowLinks(
    std::filesystem::path path,
    const std::function<bool(const std::filesystem::path&)>& ends_at = [](const auto&) { return false; });

// Returns true if `path` exists, with its links followed, and is no regular file: a device, a pipe, a
// directory. Nobody wants such a file replaced, or renamed as rotation does.
bool IsSpecialFile(const std::string& path);

// Writes to a new temporary file beside `path`; an existing file or link is never written through. Readers of
// `path` see the old content or the new content, never a mix.
class AtomicFile {
 public:
  // `path` must not be a symbolic link, which would itself be replaced (see FollowLinks).
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without Finish: deletes the temporary file; `path` is unchanged
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Call first, once. `mode`: permissions of the new file, which the process's umask reduces.
  std::error_code Open(mode_t mode = 0666);
  // Name of the temporary file, for a library that writes it by name; between Open and Finish.
  const std::string& temporary() const { return temporary_; }
  // Reserves space on the disk for this many bytes, if the file system can: ENOSPC, EDQUOT or EFBIG now and
  // not in the middle of writing. The file's length remains.
  std::error_code Reserve(std::int64_t bytes);
  std::error_code Append(std::string_view bytes);
  // Starts to flush what was written so far, without waiting. If it is called while a large file is written,
  // Sync waits for less, and so do other writers of the file system.
  void StartFlush();
  // Flushes the appended bytes to the disk, as far as the system can tell.
  std::error_code Sync();
  // Replaces `path`, and flushes the content and the name to the disk. With `replace` unset, EEXIST if `path`
  // exists. Call last, once.
  std::error_code Finish(bool replace = true);

 private:
  const std::string path_;
  std::string temporary_;  // empty: no temporary file
  int fd_ = -1;
};

}  // namespace autocfg::base
