// Writes a step as a Chrome trace (the "Trace Event Format" that chrome://tracing and Perfetto read). Pure,
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "search/plan/cluster/engine_device.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action.h"
#include "search/schedule/program.h"

namespace autocfg {

enum class TraceKind : std::uint8_t { kMeasured, kEmulated, kPredicted };
std::string_view Name(TraceKind kind);  // "measured", "emulated", "predicted"

// Source of the times.
struct TraceOrigin {
  TraceKind kind = TraceKind::kPredicted;
  std::optional<EngineDevice> device;     // what ran the step; empty if nothing ran it
  std::string cluster;                    // whose figures the times use; empty if measured
  std::optional<SliceCoordinates> slice;  // if a single rank ran alone
};

// Returns a JSON object with `traceEvents`. Each rank that has rows is a process, named with its stages; each
// of its lanes is a thread. Every row is a complete event ("X"; `ts` and `dur` in microseconds, to the
// nanosecond) named ToString(action). Its arguments are the action's index in the rank's program, its kind,
// and its stage, microbatch and step if it has them.
//
// `otherData` is {"plan", "kind", "device", "cluster", "slice": {"tensor", "pipeline"}}; the last three are
// null if absent. Each process is labelled with its kind, and if it is a slice. Names do not depend on the
// kind, so that traces can be joined on them.
//
// In the compute lane, and in every other lane that has rows, "idle" events fill the gaps between the steps'
// begin (0, or the first row's start if earlier) and its end (the last end of all rows). Events of one lane
// do not overlap: an action issued before the previous one ended starts at that end.
//
// `rows` belong to `program`, to any of its ranks, in any order. Throws std::out_of_range for a rank or
// action that the program does not have.
std::string ChromeTrace(const Program& program, std::span<const TraceRow> rows, const TraceOrigin& origin);

}  // namespace autocfg
