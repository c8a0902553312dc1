#include "trainer/run/buffer_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "search/schedule/action_kinds.h"

namespace autocfg::trainer {
namespace {

enum class Progress : std::uint8_t { kNotRun, kHasSlot, kInFlight, kHasInputGradient, kDone };

// The slots of one chunk, and the progress of its microbatches.
struct Chunk {
  std::vector<bool> taken;
  std::vector<Progress> progress;
};

[[noreturn]] void Wrong(const Action& action) {
  throw std::logic_error(fmt::format("{} is at an invalid position in the rank's program", ToString(action)));
}

}  // namespace

BufferPlan::BufferPlan(const RankShape& shape, const RankProgram& program)
    : uses_(shape.chunks.size(), std::vector<BufferUse>(static_cast<std::size_t>(shape.microbatches))) {
  std::vector<Chunk> chunks(uses_.size());
  for (Chunk& chunk : chunks) chunk.progress.assign(uses_.front().size(), Progress::kNotRun);
  std::int64_t sending = 0;
  std::int64_t backwards = 0;
  for (const Action& action : program) {
    const bool receives = action.kind == ActionKind::kRecvActivation;
    if (!receives && !IsStageCompute(action.kind)) continue;
    const std::size_t c = shape.ChunkOfStage(action.stage);
    Chunk& chunk = chunks.at(c);
    BufferUse& use = uses_[c].at(static_cast<std::size_t>(action.microbatch));
    Progress& progress = chunk.progress[static_cast<std::size_t>(action.microbatch)];
    if (receives || (action.kind == ActionKind::kForward && progress == Progress::kNotRun)) {
      if (progress != Progress::kNotRun) Wrong(action);
      progress = Progress::kHasSlot;
      const auto free = std::find(chunk.taken.begin(), chunk.taken.end(), false);
      use.slot = static_cast<std::size_t>(free - chunk.taken.begin());
      if (free == chunk.taken.end()) chunk.taken.push_back(false);
      chunk.taken[use.slot] = true;
    }
    if (action.kind == ActionKind::kForward) {
      if (progress != Progress::kHasSlot) Wrong(action);
      progress = Progress::kInFlight;
      if (!shape.chunks[c].last) use.output = sending++;
      continue;
    }
    if (MakesInputGradient(action.kind)) {
      if (progress != Progress::kInFlight) Wrong(action);
      progress = Progress::kHasInputGradient;
      use.gradient = backwards++;
    }
    if (FreesSlot(action.kind)) {
      if (progress != Progress::kHasInputGradient) Wrong(action);
      progress = Progress::kDone;
      chunk.taken[use.slot] = false;
    }
  }
  for (const Chunk& chunk : chunks) {
    if (std::any_of(chunk.progress.begin(), chunk.progress.end(),
                    [](Progress p) { return p != Progress::kDone; })) {
      throw std::logic_error("the rank's program omits a microbatch of one of its stages");
    }
  }
}

}  // namespace autocfg::trainer
