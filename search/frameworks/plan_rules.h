// What the rules of the frameworks consist of (FrameworkAdapter::rules). Rules that read options of the
// layout beside later ones are last in a table: a search checks them plan by plan. Pure functions.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/layer_parts/layer_part_names.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {

// A string literal as an argument of kReads and Says.
template <std::size_t size>
struct LiteralText {
  constexpr LiteralText(const char (&literal)[size]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(literal, size, text);
  }
  char text[size] = {};
};

// The options that a rule reads: kReads<"pp", "schedule">.
template <LiteralText... names>
inline constexpr std::array<std::string_view, sizeof...(names)> kReads = {names.text...};

// Explains with the same text whatever the plan is.
template <LiteralText what>
std::string Says(const PlanCase&) {
  return what.text;
}

inline constexpr IllegalReason kCannot = IllegalReason::kNotExpressible;  // of each rule

inline bool IsFp32(const PlanCase& c) { return BaseName(c.workload.precision) == "fp32"; }
inline bool HasPartialShards(const ParallelPlan& plan) {
  return plan.zero_stage > 0 && StateShards(plan) != plan.dp;
}
inline std::string SaysSchedule(const PlanCase& c, std::string_view has) {
  return fmt::format("schedule={} (it has {})", Name(c.plan.schedule), has);
}
inline std::string SaysRecompute(const PlanCase& c) {
  return fmt::format("recompute={}", RecomputeText(c.plan));
}
// Whether recompute=selective names a part that is not in `has`.
constexpr bool RecomputesOtherParts(const ParallelPlan& plan, LayerParts has) {
  return plan.recompute == Recompute::kSelective && !has.Names(plan.recompute_parts);
}
inline std::string SaysOtherParts(const PlanCase& c, LayerParts has) {
  return fmt::format("{} (it recomputes {})", SaysRecompute(c), fmt::join(NamesOf(has), " and "));
}

// Their tensor parallelism splits the keys' and values' projections by columns, and needs a whole head of
// each.
inline constexpr LegalityRule kWholeKvHeads = {
    kCannot, "whole_kv_heads", kReads<"tp">,
    [](const PlanCase& c) { return KvReplicas(c.model, c.plan) > 1; },
    Says<"tp above the number of key-value heads">};

// Those who train with DeepSpeed sum gradients in bf16 under ZeRO alone (ReadDeepSpeedSums).
inline constexpr LegalityRule kSumsOfDeepSpeed = {
    kCannot, "narrow_gradients", kReads<"zero", "pp", "dp">,
    [](const PlanCase& c) {
      const Precision& types = c.workload.precision;
      return types.compute == DType::kBF16 && types.gradients == DType::kBF16 && c.plan.zero_stage == 0 &&
             BatchRanks(c.plan) > 1 && !SplitsDepth(c.plan);
    },
    Says<"zero=0 with gradients in bf16 (without ZeRO it sums them in fp32)">};

}  // namespace autocfg
