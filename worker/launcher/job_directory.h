// A job's own directory in shared memory, for the UCX segments of its ranks. UCX unlinks a segment once its
// peer has mapped it, but a rank killed before that leaves the name behind. Deleting the directory deletes
// such names. Not copyable; not thread-safe.
//
// The directory is locked while its owner lives. The next launcher removes unlocked directories, which killed
// launchers left behind.
#pragma once

#include <string>
#include <vector>

#include "base/os/file_lock.h"

namespace autocfg::worker {

class JobDirectory {
 public:
  // Removes directories of dead owners under `parent`, then creates a new one. If that fails (missing file
  // system, no permission), logs an error and has no directory; UCX then uses its default location.
  explicit JobDirectory(const std::string& parent = "/dev/shm");
  ~JobDirectory();  // deletes the directory and its content
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  const std::string& path() const { return path_; }  // empty: no directory

  // Returns variables for the ranks' environment, as NAME=value. Empty if the user's environment already sets
  // UCX's location.
  std::vector<std::string> Environment() const;

 private:
  std::string path_;
  base::FileLock lock_;
};

}  // namespace autocfg::worker
