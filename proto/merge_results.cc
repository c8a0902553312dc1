#include "proto/merge_results.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "fmt/format.h"
#include "google/protobuf/repeated_field.h"
#include "proto/convert/step_timeline.h"
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

using Seconds = google::protobuf::RepeatedField<double>;

// Raises each of `steps` to the same step of `other` if that is slower. Returns false if the numbers of steps
// differ.
bool SlowDownTo(const Seconds& other, Seconds& steps) {
  if (other.size() != steps.size()) return false;
  for (int i = 0; i < steps.size(); ++i) steps[i] = std::max(steps[i], other[i]);
  return true;
}

// Requires: at least one step.
void SetMedian(v1::Measurement& measurement) {
  const std::vector<double> steps(measurement.step_time_s().begin(), measurement.step_time_s().end());
  const double median = base::Median(steps);
  measurement.set_median_step_time_s(median);
  measurement.set_ci95_s(base::MedianCi95(steps).value_or(median));
}

// Gives `merged` the steps and losses that the logs of the shares tell of: the slowest share's time of each
// of the last steps, as many as all shares have that have any.
void KeepToldSteps(std::span<const v1::Measurement> shares, v1::Measurement& merged) {
  merged.clear_step_time_s();
  Seconds& steps = *merged.mutable_step_time_s();
  bool any = false;
  for (const v1::Measurement& share : shares) {
    const Seconds& told = share.step_time_s();
    if (told.empty()) continue;
    if (!std::exchange(any, true)) {
      steps = told;
      merged.set_first_loss(share.first_loss());
      merged.set_last_loss(share.last_loss());
      continue;
    }
    const int common = std::min(steps.size(), told.size());
    steps.erase(steps.begin(), steps.end() - common);
    for (int i = 0; i < common; ++i) steps[i] = std::max(steps[i], told[told.size() - common + i]);
  }
}

// Adds the device time and takes the larger memory.
void AddUsage(const v1::Measurement& one, v1::Measurement& all) {
  all.set_planned_memory_bytes(std::max(all.planned_memory_bytes(), one.planned_memory_bytes()));
  all.set_peak_memory_bytes(std::max(all.peak_memory_bytes(), one.peak_memory_bytes()));
  all.set_device_overhead_bytes(std::max(all.device_overhead_bytes(), one.device_overhead_bytes()));
  all.set_device_s(all.device_s() + one.device_s());
}

// Returns the seconds that a rank works on its microbatches, with its tensor group.
double WorkedSeconds(const v1::Breakdown& breakdown) {
  return breakdown.compute() + breakdown.recompute() + breakdown.tp_comm();
}

// Takes over the breakdown of `one` if it worked longer. Type: TrainResult or Measurement.
template <typename Result>
void TakeLongerWork(const Result& one, Result& all) {
  if (!one.has_breakdown_s()) return;
  if (!all.has_breakdown_s() || WorkedSeconds(one.breakdown_s()) > WorkedSeconds(all.breakdown_s()))
    *all.mutable_breakdown_s() = one.breakdown_s();
}

}  // namespace

absl::StatusOr<v1::TrainResult> MergeRanks(std::span<const v1::TrainResult> ranks) {
  v1::TrainResult merged = ranks.front();
  std::vector<v1::StepTimeline> timelines;
  for (const v1::TrainResult& one : ranks) {
    if (one.has_timeline()) timelines.push_back(one.timeline());
  }
  if (!timelines.empty()) *merged.mutable_timeline() = MergeTimelines(timelines);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const v1::TrainResult& one = ranks[rank];
    if (one.has_slice() != merged.has_slice()) {
      return absl::InternalError(fmt::format("rank {} ran {}, rank 0 {}", rank,
                                             one.has_slice() ? "a slice" : "with its peers",
                                             merged.has_slice() ? "a slice" : "with its peers"));
    }
    if (!SlowDownTo(one.step_time_s(), *merged.mutable_step_time_s())) {
      return absl::InternalError(fmt::format("rank {} timed {} steps, rank 0 {}", rank,
                                             one.step_time_s_size(), merged.step_time_s_size()));
    }
    if (one.planned_memory_bytes().total() > merged.planned_memory_bytes().total())
      *merged.mutable_planned_memory_bytes() = one.planned_memory_bytes();
    merged.set_peak_memory_bytes(std::max(merged.peak_memory_bytes(), one.peak_memory_bytes()));
    merged.set_device_overhead_bytes(std::max(merged.device_overhead_bytes(), one.device_overhead_bytes()));
    merged.mutable_trace()->MergeFrom(one.trace());
    TakeLongerWork(one, merged);
  }
  return merged;
}

std::optional<v1::Measurement> MeasurementOf(const v1::TrainResult& run) {
  if (run.step_time_s().empty()) return std::nullopt;
  v1::Measurement measurement;
  *measurement.mutable_step_time_s() = run.step_time_s();
  SetMedian(measurement);
  measurement.set_planned_memory_bytes(run.planned_memory_bytes().total());
  measurement.set_peak_memory_bytes(run.peak_memory_bytes());
  measurement.set_device_overhead_bytes(run.device_overhead_bytes());
  measurement.set_slice(run.has_slice());
  if (run.has_breakdown_s()) *measurement.mutable_breakdown_s() = run.breakdown_s();
  if (!run.losses().empty()) {
    measurement.set_first_loss(run.losses(0));
    measurement.set_last_loss(run.losses(run.losses_size() - 1));
  }
  return measurement;
}

std::optional<v1::Measurement> MergeMeasurements(std::span<const v1::Measurement> shares) {
  v1::Measurement merged = shares.front();
  if (!merged.engine().empty()) KeepToldSteps(shares, merged);
  if (merged.step_time_s().empty()) return std::nullopt;
  std::vector<std::string> builds;
  std::vector<std::string> devices;
  std::vector<std::string> versions;
  merged.set_device_s(0);
  for (const v1::Measurement& share : shares) {
    if (share.engine() != merged.engine() || share.slice() != merged.slice()) return std::nullopt;
    if (merged.engine().empty() && !SlowDownTo(share.step_time_s(), *merged.mutable_step_time_s()))
      return std::nullopt;
    AddText(versions, share.engine_version());
    AddUsage(share, merged);
    TakeLongerWork(share, merged);
    merged.set_ranks_per_core(std::max(merged.ranks_per_core(), share.ranks_per_core()));
    merged.set_ranks_per_device(std::max(merged.ranks_per_device(), share.ranks_per_device()));
    AddText(builds, share.build_id());
    AddText(devices, share.device_fingerprint());
  }
  SetMedian(merged);
  merged.set_build_id(Joined(builds));
  merged.set_engine_version(Joined(versions));
  merged.set_device_fingerprint(Joined(devices));
  return merged;
}

v1::Measurement PoolTrials(std::span<const v1::Measurement> trials) {
  v1::Measurement pooled = trials.back();
  pooled.clear_step_time_s();
  pooled.set_device_s(0);
  for (const v1::Measurement& trial : trials) {
    pooled.mutable_step_time_s()->MergeFrom(trial.step_time_s());
    AddUsage(trial, pooled);
    if (trial.has_breakdown_s()) *pooled.mutable_breakdown_s() = trial.breakdown_s();
  }
  SetMedian(pooled);
  return pooled;
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
        seen.back().time.set_host_s(0);
      }
      Seen& op = seen[place->second];
      const auto merge = [&](double before, double one) {
        return op.communicates ? std::max(before, one) : before + share.ranks * one;
      };
      op.time.set_seconds(merge(op.time.seconds(), time.seconds()));
      op.time.set_host_s(merge(op.time.host_s(), time.host_s()));
      op.ranks += share.ranks;
    }
  }
  for (Seen& op : seen) {
    if (!op.communicates) {
      op.time.set_seconds(op.time.seconds() / op.ranks);
      op.time.set_host_s(op.time.host_s() / op.ranks);
    }
    *merged.add_ops() = std::move(op.time);
  }
  return merged;
}

}  // namespace autocfg
