// Saves and restores the whole state of a run: weights, moments of the optimizer, and how many steps are
// done. Each rank writes the pieces that it owns to its own file and reads the elements that it holds from
// all files, so the plan may differ. A rank copies through buffers of a few MiB, whatever the model. One
// rank, one thread; collective over the world. Errors are thrown as BadInput, which names the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "trainer/checkpoint/checkpoint_directory.h"
#include "trainer/checkpoint/run_identity.h"
#include "trainer/checkpoint/state_pieces.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/rank_exchange.h"

namespace autocfg::trainer {

// What saving and restoring need of a rank. All members must outlive the call.
struct RankState {
  const RankShape& shape;
  const MemoryLayout& layout;
  const RunIdentity& run;
  RankExchange& exchange;
  Device& device;
  Stream& stream;
};

// Writes the checkpoint of a step: the rank's file of its `pieces` (PiecesToSave), then, on rank 0, the
// manifest of all files. `directory` is rank 0's, null on any other rank, and `path` its path. Returns the
// checkpoint's path on rank 0. When a rank returns, the checkpoint is complete and durable.
std::string SaveTrainingState(const std::string& path, CheckpointDirectory* directory, std::int64_t step,
                              const std::vector<OwnedPiece>& pieces, const RankState& rank);

struct RestoredState {
  std::int64_t step = 0;
  std::vector<std::string> notes;  // for the user: which checkpoint was taken, and why none newer
};

// Restores `targets` (TargetsToLoad) from the newest checkpoint of `path` (FindCheckpoints) that is complete
// and undamaged; rank 0 chooses. Leaves padding as it is. Throws if there is none, if it is of another run,
// or if it has `last_step` steps or more.
RestoredState LoadTrainingState(const std::string& path, std::int64_t last_step,
                                const std::vector<StateTarget>& targets, const RankState& rank);

}  // namespace autocfg::trainer
