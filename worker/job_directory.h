// A directory of one job in shared memory, where its ranks' UCX segments have their names. UCX unlinks a
// segment once its peer has mapped it, but a rank that is killed in between leaves the name; with the
// directory it goes. Not copyable; use from one thread.
//
// The directory is locked as long as its owner lives, so that a launcher that was killed is tidied up after
// by the next one.
#pragma once

#include <string>
#include <vector>

#include "base/os/unique_fd.h"

namespace autocfg {

class JobDirectory {
 public:
  // Removes what dead owners left under `parent`, then makes a directory of its own. Where that cannot be
  // done (no such file system, no right), there is none: UCX then uses its default place, and an error in the
  // log says so.
  explicit JobDirectory(const std::string& parent = "/dev/shm");
  ~JobDirectory();  // removes it with all that is in it
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  const std::string& path() const { return path_; }  // empty: none

  // What to add to a rank's environment, as NAME=value; nothing where the user's environment already says
  // where UCX is to go.
  std::vector<std::string> Environment() const;

 private:
  std::string path_;
  UniqueFd lock_;
};

}  // namespace autocfg
