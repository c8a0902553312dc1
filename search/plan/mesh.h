// The axes of a plan, their sizes, and sets of them. What depends on the sizes of several axes goes through
// the table here, so that an axis is a row and its field; house_test finds code that combines sizes by name.
// Plain values and pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace autocfg {

// Sizes of the mesh of ranks, one per axis.
struct MeshOptions {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;

  auto operator<=>(const MeshOptions&) const = default;  // NOLINT(modernize-use-nullptr): false positive
  template <typename H>
  friend H AbslHashValue(H h, const MeshOptions& mesh) {
    return H::combine(std::move(h), mesh.tp, mesh.pp, mesh.dp);
  }
};

// In the order of ranks, the fastest first (Narayanan et al. 2021, section 3.2): ranks that are next to each
// other differ in their tensor coordinate.
enum class Axis : std::uint8_t { kTensor, kData, kPipeline };
inline constexpr std::size_t kAxisCount = static_cast<std::size_t>(Axis::kPipeline) + 1;

// What the ranks of an axis split.
enum class Splits : std::uint8_t {
  kLayer,  // each layer
  kBatch,  // the batch: ranks have the same weights, or parts of their states
  kDepth,  // the layers
};

struct AxisRow {
  Axis axis;
  std::string_view name;  // in a plan's text
  std::int64_t MeshOptions::*size;
  Splits splits;
};

inline constexpr std::array<AxisRow, kAxisCount> kAxes = {{
    {Axis::kTensor, "tp", &MeshOptions::tp, Splits::kLayer},
    {Axis::kData, "dp", &MeshOptions::dp, Splits::kBatch},
    {Axis::kPipeline, "pp", &MeshOptions::pp, Splits::kDepth},
}};

static_assert([] {
  for (std::size_t i = 0; i < kAxisCount; ++i) {
    if (kAxes[i].axis != static_cast<Axis>(i)) return false;
  }
  return true;
}());

constexpr std::int64_t SizeOf(const MeshOptions& mesh, Axis axis) {
  return mesh.*kAxes[static_cast<std::size_t>(axis)].size;
}

// A set of axes.
struct AxisSet {
  std::uint32_t bits = 0;

  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits(1U << static_cast<unsigned>(axis)) {}  // NOLINT: an axis is a set
  constexpr bool Holds(Axis axis) const { return (bits >> static_cast<unsigned>(axis) & 1U) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits |= b.bits;
    return a;
  }
  constexpr bool operator==(const AxisSet&) const = default;
};
constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

inline constexpr AxisSet kEveryAxis = [] {
  AxisSet axes;
  for (const AxisRow& row : kAxes) axes = axes | row.axis;
  return axes;
}();
constexpr AxisSet AxesThatSplit(Splits what) {
  AxisSet axes;
  for (const AxisRow& row : kAxes) {
    if (row.splits == what) axes = axes | row.axis;
  }
  return axes;
}

// Ranks of a group that spans the axes. Requires sizes whose product fits.
constexpr std::int64_t SizeOf(const MeshOptions& mesh, AxisSet axes) {
  std::int64_t size = 1;
  for (const AxisRow& row : kAxes) {
    if (axes.Holds(row.axis)) size *= mesh.*row.size;
  }
  return size;
}

// Ranks that the plan uses.
constexpr std::int64_t RankCount(const MeshOptions& mesh) { return SizeOf(mesh, kEveryAxis); }

// How many ranks split each layer, the batch, or the layers.
template <Splits kWhat>
constexpr std::int64_t RanksThatSplit(const MeshOptions& mesh) {
  constexpr AxisSet kAxesOf = AxesThatSplit(kWhat);
  return SizeOf(mesh, kAxesOf);
}
constexpr std::int64_t BatchRanks(const MeshOptions& mesh) { return RanksThatSplit<Splits::kBatch>(mesh); }
constexpr bool SplitsLayers(const MeshOptions& mesh) { return RanksThatSplit<Splits::kLayer>(mesh) > 1; }
constexpr bool SplitsDepth(const MeshOptions& mesh) { return RanksThatSplit<Splits::kDepth>(mesh) > 1; }

constexpr bool HasPositiveSizes(const MeshOptions& mesh) {
  for (const AxisRow& row : kAxes) {
    if (mesh.*row.size < 1) return false;
  }
  return true;
}

// Whether the sizes make more ranks than `most`, whatever they are. Requires positive sizes.
constexpr bool HasMoreRanks(const MeshOptions& mesh, std::int64_t most) {
  for (const AxisRow& row : kAxes) {
    if (mesh.*row.size > most) return true;
    most /= mesh.*row.size;
  }
  return false;
}

// A mesh of the same size on each axis.
constexpr MeshOptions UniformMesh(std::int64_t size) {
  MeshOptions mesh;
  for (const AxisRow& row : kAxes) mesh.*row.size = size;
  return mesh;
}

constexpr const AxisRow* FindAxis(std::string_view name) {
  for (const AxisRow& row : kAxes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Returns the mesh with as many data ranks as make up `ranks`; nothing if the other sizes do not divide them.
// Requires positive sizes.
constexpr std::optional<MeshOptions> WithDataRanks(MeshOptions mesh, std::int64_t ranks) {
  mesh.dp = 1;
  if (HasMoreRanks(mesh, ranks) || ranks % RankCount(mesh) != 0) return std::nullopt;
  mesh.dp = ranks / RankCount(mesh);
  return mesh;
}

}  // namespace autocfg
