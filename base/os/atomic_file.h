// Atomic replacement of a file: writes a temporary file in the same directory, then renames it. Not
// thread-safe. Errors are the system's; the caller words the message.
#pragma once

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

// Writes to a new temporary file beside `path`; an existing file or link is never written through. Readers of
// `path` see the old content or the new content, never a mix.
class AtomicFile {
 public:
  // `path` must not be a symbolic link, which would itself be replaced (see FollowLinks).
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without Finish: deletes the temporary file; `path` is unchanged
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  std::error_code Open();  // call first, once
  std::error_code Append(std::string_view bytes);
  // Flushes the appended bytes to the disk, as far as the system can tell.
  std::error_code Sync();
  // Replaces `path`, and flushes the content and the name to the disk. Call last, once.
  std::error_code Finish();

 private:
  const std::string path_;
  std::string temporary_;  // empty: no temporary file
  int fd_ = -1;
};

}  // namespace autocfg::base
