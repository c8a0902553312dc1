#include "search/question/defaults.h"

#include <optional>
#include <utility>

#include "base/subject.h"
#include "fmt/format.h"
#include "search/text/engines.h"
#include "search/text/typical_figures.h"

namespace autocfg {
namespace {

// Returns the default precision of predicted or measured steps.
std::string_view DefaultPrecision(const ClusterSpec& cluster, DeviceTimes times) {
  if (cluster.groups.empty()) return "bf16";
  const DeviceSpec& device = cluster.groups.front().device;
  if (device.kind == DeviceKind::kCpu) return "fp32";
  const bool has_fp16_alone = device.flops_per_s_bf16 == 0 && device.flops_per_s_fp16 > 0;
  return has_fp16_alone && times == DeviceTimes::kPredicted ? "fp16" : "bf16";
}

// Returns a note on why the default precision of predicted steps is not bf16; empty if it is.
std::string PrecisionNote(const ClusterSpec& cluster) {
  if (cluster.groups.empty()) return "";
  const DeviceSpec& device = cluster.groups.front().device;
  const std::string_view name =
      device.name.empty() ? std::string_view("the device") : std::string_view(device.name);
  if (device.kind_assumed) {
    return fmt::format(
        "predicted in fp32: {} is taken for a CPU, since it has no rate in bf16 or fp16; give kind cuda if "
        "it is a GPU",
        name);
  }
  if (DefaultPrecision(cluster, DeviceTimes::kPredicted) != "fp16") return "";
  return fmt::format("predicted in fp16, since {} has no bf16", name);
}

// Returns a note that the engine's figures of time do not act; empty if they do, or if it is our own.
std::string CalibratedEngineNote(const ClusterSpec& cluster) {
  if (!cluster.calibration || cluster.engine.name == kOwnEngine) return "";
  return fmt::format(
      "the cluster is calibrated, so steps take what its measured ones say; the engine {} decides on legal "
      "plans and memory alone",
      cluster.engine.name);
}

}  // namespace

DeviceTimes DeviceTimesOfSearch(const ClusterSpec& cluster, EngineDevice device, bool predict_only) {
  const bool predicted = IsEmulated(device) || (predict_only && !cluster.local);
  return predicted ? DeviceTimes::kPredicted : DeviceTimes::kMeasured;
}

absl::StatusOr<Precision> ResolveDefaults(std::string_view engine, std::string_view precision,
                                          DeviceTimes times, ClusterSpec& cluster,
                                          std::vector<std::string>& notes) {
  const bool predicted = times == DeviceTimes::kPredicted;
  const auto add = [&](std::string note) {
    if (!note.empty()) notes.push_back(std::move(note));
  };
  if (!engine.empty()) {
    absl::StatusOr<EngineProfile> named = EngineNamed(std::string(engine));
    if (!named.ok()) {
      return base::OptionError(absl::StatusCode::kInvalidArgument, "request", "engine",
                               base::ProblemOf(named.status()));
    }
    cluster.engine = *std::move(named);
  }
  if (predicted) add(CalibratedEngineNote(cluster));
  if (predicted && precision.empty()) add(PrecisionNote(cluster));
  const std::string_view name = precision.empty() ? DefaultPrecision(cluster, times) : precision;
  const absl::StatusOr<Precision> resolved = ParsePrecision(name);
  if (!resolved.ok()) {
    return base::OptionError(absl::StatusCode::kInvalidArgument, "request", "precision",
                             base::ProblemOf(resolved.status()));
  }
  add(predicted ? AssumeTypicalFigures(cluster) : AssumeTypicalLinkFigures(cluster));
  notes.insert(notes.end(), cluster.read_as.begin(), cluster.read_as.end());
  return *resolved;
}

}  // namespace autocfg
