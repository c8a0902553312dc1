// A plan: every choice that makes a run. Plain values; the text and JSON forms are in search/text.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace autocfg {

enum class Schedule : std::uint8_t { kGPipe, kOneFOneB, kInterleaved, kZeroBubbleH1 };
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
enum class Attention : std::uint8_t { kFused, kUnfused };
enum class SplitMode : std::uint8_t { kEven, kAuto, kExplicit };

struct ParallelPlan {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;
  std::int64_t micro_batch = 1;
  std::int64_t virtual_stages = 1;
  Schedule schedule = Schedule::kOneFOneB;
  SplitMode split = SplitMode::kEven;
  std::vector<std::int64_t> split_layers = {};  // layers per stage, kExplicit only
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_layers = 0;  // kFull: the first K layers of every virtual stage; 0 = all
  Attention attention = Attention::kFused;
  bool sequence_parallel = false;
  std::int64_t zero_stage = 0;
  std::int64_t tp_overlap = 1;
  bool grad_overlap = false;
  bool param_overlap = false;
  bool p2p_overlap = false;
  bool scatter_gather = false;

  auto operator<=>(const ParallelPlan&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// Ranks that the plan uses.
constexpr std::int64_t RankCount(const ParallelPlan& plan) { return plan.tp * plan.pp * plan.dp; }

}  // namespace autocfg
