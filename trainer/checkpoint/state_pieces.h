// The training state of a rank in pieces: consecutive elements of its part of a parameter, with their
// moments. A file of a checkpoint is a list of pieces that say where they lie in the whole parameter, so any
// other layout finds its own elements in them. A layout that shards states only needs other lists. Pure
// functions, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/layout/parameters.h"

namespace autocfg::trainer {

// kWeight: the master copy if the precision has one, else the value.
enum class StateKind : std::uint8_t { kWeight, kFirstMoment, kSecondMoment };
inline constexpr std::array kStateKinds = {StateKind::kWeight, StateKind::kFirstMoment,
                                           StateKind::kSecondMoment};
std::string_view Name(StateKind kind);

// A piece that this rank writes.
struct OwnedPiece {
  std::size_t parameter = 0;  // index in MemoryLayout::parameters
  ElementRange range;
  // Flat, `count` elements each; by StateKind. Moments that the optimizer does not have are absent.
  std::array<Tensor, kStateKinds.size()> states;
};

// Returns the pieces that this rank writes. Over all ranks, each element of the model is in exactly one.
std::vector<OwnedPiece> PiecesToSave(const RankShape& shape, const MemoryLayout& layout);

// A tensor that this rank reads. If its type is narrower than the stored one, it gets rounded values.
struct StateTarget {
  std::size_t parameter = 0;
  StateKind kind = StateKind::kWeight;
  ElementRange range;
  Tensor tensor;  // flat, `count` elements
};

// Returns every tensor of the rank's state.
std::vector<StateTarget> TargetsToLoad(const MemoryLayout& layout);

// A piece in a file. Of `parameter`, the place in the whole parameter is set: name, shapes, parts, sharding
// and shard.
struct StoredPiece {
  Parameter parameter;
  ElementRange range;
};

// Returns the name of a piece's tensor in a file: "transformer.wte.weight/m/0".
std::string StoredName(const Parameter& parameter, StateKind kind, ElementRange range);

// The metadata of a file that tell the places of its pieces.
std::map<std::string, std::string> MetadataOf(const std::vector<OwnedPiece>& pieces,
                                              const std::vector<Parameter>& parameters);
// Returns the pieces of a file, in the order of their writing. Throws BadInput, which names the file, if they
// are not consistent with themselves and the file's tensors. Optimizers differ in their moments, so a moment
// may be absent from all pieces.
std::vector<StoredPiece> StoredPieces(const SafetensorsFile& file);

// Elements that are contiguous in a stored piece and in a target.
struct SharedRun {
  std::int64_t from = 0;  // element of the piece's tensor
  std::int64_t to = 0;    // element of the target's tensor
  std::int64_t count = 0;
};

// Returns the elements of `range` of `wanted` that the piece holds, in ascending order, as few runs as
// possible. Requires two parts of the same whole parameter.
std::vector<SharedRun> SharedRuns(const StoredPiece& piece, const Parameter& wanted, ElementRange range);

// Returns how many elements of `range` are elements of the model: all but padding.
std::int64_t ModelElements(const Parameter& parameter, ElementRange range);

}  // namespace autocfg::trainer
