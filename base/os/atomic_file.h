// New content for a file, written beside it and put in its place at once. Use from one thread. Errors are the
// system's; whoever knows what the file is for puts them into words.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

namespace autocfg {

// Where `path` leads, symbolic links followed, also where nothing is there yet. `ends_at` true: not beyond
// this one.
std::filesystem::path FollowLinks(
    std::filesystem::path path,
    const std::function<bool(const std::filesystem::path&)>& ends_at = [](const auto&) { return false; });

// What is written lies beside `path` under a name that nothing had before: a link or a file that is there
// already is not written through. Readers of `path` see the old content or the new one, never a part.
class AtomicFile {
 public:
  // Of no symbolic link, which would be replaced itself (FollowLinks).
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without Finish nothing stays behind, and `path` is as it was
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  std::error_code Open();  // first, once
  std::error_code Append(std::string_view bytes);
  // What was appended is on the disk, as far as the system can tell.
  std::error_code Sync();
  // In its place, and both the content and the name are on the disk. Last, once.
  std::error_code Finish();

 private:
  const std::string path_;
  std::string temporary_;  // empty: there is none
  int fd_ = -1;
};

}  // namespace autocfg
