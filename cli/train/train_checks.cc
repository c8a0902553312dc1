#include "cli/train/train_checks.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/input/files.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/cost/memory_model.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

// Returns the remaining ways to save activation memory in `plan`, such as "a smaller mbs, recompute=full or
// ".
std::string WhatElseSavesMemory(const ParallelPlan& plan) {
  std::vector<std::string_view> ways;
  if (plan.micro_batch > 1) ways.emplace_back("a smaller mbs");
  if (plan.recompute != Recompute::kFull || plan.recompute_layers != 0) ways.emplace_back("recompute=full");
  return ways.empty() ? "" : fmt::format("{} or ", fmt::join(ways, ", "));
}

}  // namespace

absl::Status CheckTogether(const TrainArgs& args, const TrainRun& run) {
  if (run.device != "cpu" && run.device != "cuda" && !args.save.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--save: the {} device computes no weights; leave it out", run.device));
  }
  if (run.slice && !args.save.empty())
    return absl::InvalidArgumentError("--save: a slice has the weights of one rank alone; leave it out");
  if (run.device == "dry" && !args.trace.empty())
    return absl::InvalidArgumentError(
        "--trace: the dry device takes no time; leave it out, or give --device paced");
  return absl::OkStatus();
}

absl::Status CheckFiles(const TrainArgs& args) {
  if (!args.data.empty()) {
    if (auto status = CheckReadable(args.data); !status.ok()) return Where("--data", status);
  }
  if (!args.init.empty()) {
    if (auto status = CheckReadable(args.init); !status.ok()) return Where("--init", status);
  }
  if (!args.save.empty()) {
    if (const auto path = ReplaceablePath(args.save); !path.ok()) return Where("--save", path.status());
  }
  if (!args.trace.empty()) {
    if (auto status = CheckWritable(args.trace); !status.ok()) return Where("--trace", status);
    std::error_code ignored;
    const auto place = [&](const std::string& file) {
      return std::filesystem::weakly_canonical(std::filesystem::absolute(file, ignored), ignored);
    };
    if (!args.save.empty() && place(args.trace) == place(args.save)) {
      return absl::InvalidArgumentError(
          fmt::format("--trace: {} is also the file of --save; give another", args.trace));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const TrainRun& train) {
  if (train.device == "dry") return absl::OkStatus();
  const BestPlan& run = train.what;
  const std::int64_t capacity = train.capacity.bytes - train.capacity.overhead_bytes;
  const MemoryBytes memory = train.slice
                                 ? RankMemory(run.model, run.workload, run.plan, train.slice->pipeline())
                                 : WorstRankMemory(run.model, run.workload, run.plan);
  if (memory.Arena() <= capacity) return absl::OkStatus();
  const std::pair<const char*, std::int64_t> regions[] = {
      {"parameters", memory.parameters}, {"gradients", memory.gradients},
      {"optimizer", memory.optimizer},   {"activations", memory.activations},
      {"workspace", memory.workspace},   {"communication", memory.communication}};
  const auto largest = *std::max_element(std::begin(regions), std::end(regions),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
  return absl::FailedPreconditionError(fmt::format(
      "does not fit: plan {} needs {} bytes a rank ({}), {} bytes over the {} that a rank may use ({}); "
      "largest region: {} ({}); use {}more ranks",
      ShortPlanText(run.plan), memory.Arena(), base::BytesText(memory.Arena()), memory.Arena() - capacity,
      capacity, base::BytesText(std::max<std::int64_t>(capacity, 0)), largest.first,
      base::BytesText(largest.second), WhatElseSavesMemory(run.plan)));
}

}  // namespace autocfg::cli
