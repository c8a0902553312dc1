// The file with the token of a caller. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace autocfg {

// Returns the token in a file, without the line break that ends it. InvalidArgument, with the file: it cannot
// be read, or holds no token.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Returns a warning if every user of the machine can read the file; else nothing.
std::string TokenFileWarning(const std::string& path);

// A token that follows its file, so that one that is replaced before it expires needs no restart.
class FollowedToken {
 public:
  // `token`: what the file holds now. With an empty `path`, the token never changes.
  FollowedToken(std::string token, std::string path);

  // Returns the file's token, read again if the file has changed. While it holds none: the last one.
  std::string Latest();

 private:
  using Mark = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static Mark MarkOf(const std::string& path);

  const std::string path_;
  absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  Mark mark_ ABSL_GUARDED_BY(mutex_) = {};  // of the file when it was read; none yet
};

}  // namespace autocfg
