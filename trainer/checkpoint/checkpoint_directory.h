// A directory of checkpoints: DIR/step-N holds the one after N steps. It is written as DIR/step-N.partial and
// gets its name when it is complete and durable, so a crash at any moment leaves the older ones as they are.
// Errors name the path: BadInput of what is there, WriteFailed of what cannot be written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/os/file_lock.h"
#include "trainer/checkpoint/manifest.h"

namespace autocfg::trainer {

struct CheckpointPlace {
  std::int64_t step = 0;  // by its name; 0 if a user gave it another one
  std::string path;
};

// Returns the checkpoints that `path` names, newest first: those of a directory of checkpoints, or `path`
// itself if it is one. They need not be complete. Throws if there are none.
std::vector<CheckpointPlace> FindCheckpoints(const std::string& path);

// Reads the manifest of a checkpoint and checks that its files are there in full size. Throws otherwise.
Manifest OpenCheckpoint(const std::string& path);

// Returns where the ranks write the checkpoint of a step.
std::string PartialPath(const std::string& directory, std::int64_t step);

// Rank 0's side of writing. Holds the directory until its destruction, so that two runs cannot mix their
// files there. One thread.
class CheckpointDirectory {
 public:
  // Number of complete checkpoints that are kept.
  static constexpr int kKept = 2;

  // Creates the directory if it is absent; its parent must exist. `resumes`: the run continues from a
  // checkpoint of this directory. Throws if it does not and there are checkpoints, which then would be
  // another run's; if something else has the name of a checkpoint, which one might replace; or if another
  // process holds the directory.
  CheckpointDirectory(std::string path, bool resumes);

  // Creates PartialPath, empty. Before, removes what interrupted runs left.
  void Begin(std::int64_t step);

  // Writes the manifest and gives the checkpoint its name, replacing one of the same step. Then removes
  // older ones: kKept complete ones are left, and none that is broken. Returns the checkpoint's path. The
  // ranks' files must be complete and durable.
  std::string Commit(const Manifest& manifest);

 private:
  void RemoveLeftovers() const;
  void RemoveOlder(std::int64_t step) const;

  const std::string path_;
  base::FileLock lock_;
};

// Returns true if `path` is the directory itself or lies directly in it.
bool IsOfDirectory(const std::string& path, const std::string& directory);

}  // namespace autocfg::trainer
