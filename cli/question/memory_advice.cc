#include "cli/question/memory_advice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg::cli {
namespace {

// Returns the lowest stage of zero that shards a region of states; 0 if none does.
std::int64_t ZeroStageOf(std::int64_t MemoryBytes::*region) {
  if (region == &MemoryBytes::optimizer) return 1;
  if (region == &MemoryBytes::gradients) return 2;
  if (region == &MemoryBytes::parameters) return 3;
  return 0;
}

}  // namespace

std::string MemoryAdvice(const ParallelPlan& plan, const MemoryBytes& memory) {
  const MemoryRegion& largest = *std::max_element(
      kArenaRegions.begin(), kArenaRegions.end(),
      [&](const MemoryRegion& a, const MemoryRegion& b) { return memory.*a.bytes < memory.*b.bytes; });
  std::vector<std::string> ways;
  if (const std::int64_t stage = ZeroStageOf(largest.bytes); stage > 0) {
    if (BatchRanks(plan) > 1 && plan.zero_stage < stage) ways.push_back(fmt::format("zero={}", stage));
  } else {
    if (plan.micro_batch > 1) ways.emplace_back("a smaller mbs");
    if (SplitsLayers(plan) && !SplitsSequence(plan)) ways.emplace_back("sp=1");
    if (plan.recompute != Recompute::kFull || plan.recompute_layers != 0) ways.emplace_back("recompute=full");
  }
  // Of "optimizer states are", or "workspace is".
  const std::size_t end = largest.subject.rfind(' ');
  const bool many = largest.subject.substr(end) == " are";
  return fmt::format("{} {} {}; use {}{}more ranks", largest.subject.substr(0, end), many ? "take" : "takes",
                     base::BytesText(memory.*largest.bytes), fmt::join(ways, ", "),
                     ways.empty() ? "" : " or ");
}

}  // namespace autocfg::cli
