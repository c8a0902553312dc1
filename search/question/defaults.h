// What a question of a prediction or a search leaves open, resolved alike for the command line, request
// lines, the API and studies. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/states/precision.h"

namespace autocfg {

// Whether the cluster's devices are measured, or predicted from their figures.
enum class DeviceTimes { kMeasured, kPredicted };

// Returns that of a search: the devices of a described cluster are predicted if the search measures nothing,
// or emulates them on `device`.
DeviceTimes DeviceTimesOfSearch(const ClusterSpec& cluster, EngineDevice device, bool predict_only);

// Sets the engine (empty: it stays) and the figures that a described cluster lacks: all if devices are
// predicted (AssumeTypicalFigures), else those of links alone. Returns the precision; if it is empty, bf16,
// or fp32 on CPUs, or fp16 on predicted devices that have a rate in it and none in bf16 (V100). Appends notes
// on what was assumed and read otherwise than written. InvalidArgument about an option of "request": an
// unknown engine or precision.
absl::StatusOr<Precision> ResolveDefaults(std::string_view engine, std::string_view precision,
                                          DeviceTimes times, ClusterSpec& cluster,
                                          std::vector<std::string>& notes);

}  // namespace autocfg
