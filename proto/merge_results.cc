#include "proto/merge_results.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "search/ops/op_desc.h"

namespace autocfg {
namespace {

// Appends `text` unless it is empty or already present.
void AddText(std::vector<std::string>& texts, const std::string& text) {
  if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : " + ") + text;
  return all;
}

}  // namespace

std::optional<v1::Measurement> MergeMeasurements(std::span<const v1::Measurement> shares) {
  v1::Measurement merged = shares.front();
  std::vector<std::string> builds;
  std::vector<std::string> devices;
  std::vector<double> steps(merged.step_time_s().begin(), merged.step_time_s().end());
  merged.set_device_s(0);
  for (const v1::Measurement& share : shares) {
    if (static_cast<std::size_t>(share.step_time_s_size()) != steps.size() || steps.empty() ||
        share.slice() != merged.slice()) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i] = std::max(steps[i], share.step_time_s(static_cast<int>(i)));
    merged.set_planned_memory_bytes(std::max(merged.planned_memory_bytes(), share.planned_memory_bytes()));
    merged.set_peak_memory_bytes(std::max(merged.peak_memory_bytes(), share.peak_memory_bytes()));
    merged.set_device_overhead_bytes(std::max(merged.device_overhead_bytes(), share.device_overhead_bytes()));
    merged.set_ranks_per_core(std::max(merged.ranks_per_core(), share.ranks_per_core()));
    merged.set_ranks_per_device(std::max(merged.ranks_per_device(), share.ranks_per_device()));
    merged.set_device_s(merged.device_s() + share.device_s());
    AddText(builds, share.build_id());
    AddText(devices, share.device_fingerprint());
  }
  merged.mutable_step_time_s()->Assign(steps.begin(), steps.end());
  const double median = base::Median(steps);
  merged.set_median_step_time_s(median);
  merged.set_ci95_s(base::MedianCi95(steps).value_or(median));
  merged.set_build_id(Joined(builds));
  merged.set_device_fingerprint(Joined(devices));
  return merged;
}

v1::CalibrateResult MergeCalibrations(std::span<const ShareCalibration> shares) {
  if (shares.size() == 1) return shares.front().result;
  struct Seen {
    v1::OpTime time;  // sum over ranks for compute ops, maximum for communication ops
    int ranks = 0;
    bool communicates = false;
  };
  std::vector<Seen> seen;
  std::map<std::string, std::size_t> index;
  v1::CalibrateResult merged;
  for (const ShareCalibration& share : shares) {
    merged.set_device_overhead_bytes(
        std::max(merged.device_overhead_bytes(), share.result.device_overhead_bytes()));
    for (const v1::OpTime& time : share.result.ops()) {
      const auto [place, is_new] = index.try_emplace(time.op().SerializeAsString(), seen.size());
      if (is_new) {
        const auto kind = ParseOpKind(time.op().kind());
        seen.push_back({time, 0, kind && IsCommunication(*kind)});
        seen.back().time.set_seconds(0);
      }
      Seen& op = seen[place->second];
      op.time.set_seconds(op.communicates ? std::max(op.time.seconds(), time.seconds())
                                          : op.time.seconds() + share.ranks * time.seconds());
      op.ranks += share.ranks;
    }
  }
  for (Seen& op : seen) {
    if (!op.communicates) op.time.set_seconds(op.time.seconds() / op.ranks);
    *merged.add_ops() = std::move(op.time);
  }
  return merged;
}

}  // namespace autocfg
