// Computes the bytes that a rank reserves, in closed form. Our own engine's equal the trainer's arena to the
// byte (a test compares them over random plans; docs/engine.md is the common specification), others' follow
// from their profiles. Pure functions, thread-safe; about a microsecond if all stages have the same number of
// layers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "search/plan/cluster/engine_profile.h"
#include "search/plan/run_view.h"

namespace autocfg {

struct MemoryBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;
  std::int64_t workspace = 0;
  std::int64_t communication = 0;
  std::int64_t allocator_reserve = 0;  // what the engine's allocator holds beside what is allocated
  std::int64_t device_overhead = 0;    // measured, not planned

  std::int64_t Arena() const;  // what is allocated: all but the last two
  std::int64_t Reserved() const { return Arena() + allocator_reserve; }
  std::int64_t Total() const { return Reserved() + device_overhead; }

  bool operator==(const MemoryBytes&) const = default;
};

// One row per region, in the order in which reports list them; the last two are outside the arena.
// Sums, conversions and reports go through the rows: a new region is a field and a row.
struct MemoryRegion {
  std::string_view name;     // in JSON and protobuf
  std::string_view label;    // in reports
  std::string_view subject;  // begins a sentence: "optimizer states are"
  std::int64_t MemoryBytes::*bytes;
};
inline constexpr std::array<MemoryRegion, 8> kMemoryRegions = {
    {{"parameters", "parameters", "parameters are", &MemoryBytes::parameters},
     {"gradients", "gradients", "gradients are", &MemoryBytes::gradients},
     {"optimizer", "optimizer", "optimizer states are", &MemoryBytes::optimizer},
     {"activations", "activations", "activations are", &MemoryBytes::activations},
     {"workspace", "workspace", "workspace is", &MemoryBytes::workspace},
     {"communication", "communication", "communication buffers are", &MemoryBytes::communication},
     {"allocator_reserve", "allocator", "the allocator's reserve is", &MemoryBytes::allocator_reserve},
     {"device_overhead", "device", "device overhead is", &MemoryBytes::device_overhead}}};
inline constexpr std::span<const MemoryRegion> kArenaRegions =
    std::span(kMemoryRegions).first(kMemoryRegions.size() - 2);
static_assert(sizeof(MemoryBytes) == kMemoryRegions.size() * sizeof(std::int64_t), "a region has no row");

// Whether a report shows the region: all but the reserve of an engine that has none.
inline bool IsShown(const MemoryRegion& region, const MemoryBytes& memory) {
  return region.bytes != &MemoryBytes::allocator_reserve || memory.allocator_reserve > 0;
}

inline std::int64_t MemoryBytes::Arena() const {
  std::int64_t sum = 0;
  for (const MemoryRegion& region : kArenaRegions) sum += this->*region.bytes;
  return sum;
}

// Returns the regions of a rank at a pipeline coordinate, over all its stages, without device overhead. They
// are the same for all its tensor and data coordinates. Requires a legal plan that CheckPredictable accepts,
// with a resolved split.
MemoryBytes RankMemory(const RunView& run, std::int64_t pipeline_rank,
                       const EngineProfile& engine = OwnEngine());

// Returns the bytes of each pipeline rank's arena.
std::vector<std::int64_t> RankArenas(const RunView& run, const EngineProfile& engine = OwnEngine());

// Returns the regions of the first pipeline rank with the largest arena.
MemoryBytes WorstRankMemory(const RunView& run, const EngineProfile& engine = OwnEngine());

}  // namespace autocfg
