// A step as a Chrome trace (the "Trace Event Format" that chrome://tracing and Perfetto read). Pure,
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "search/schedule/program.h"
#include "search/schedule/trace.h"

namespace autocfg {

enum class TraceKind : std::uint8_t { kMeasured, kEmulated, kPredicted };
std::string_view Name(TraceKind kind);  // "measured", "emulated", "predicted"

// Where the times are from.
struct TraceOrigin {
  TraceKind kind = TraceKind::kPredicted;
  std::string device;   // what ran it: "cpu", "paced"; empty where nothing did
  std::string cluster;  // whose figures the times are; empty where they are measured
  // tensor and pipeline coordinate of a rank that ran alone
  std::optional<std::pair<std::int64_t, std::int64_t>> slice;
};

// A JSON object with `traceEvents`: a process for each rank that has rows, named with its stages, and in it a
// thread for each of its lanes. Every row is a complete event ("X"; `ts` and `dur` in microseconds, to the
// nanosecond) whose name is ToString(action); its arguments are the action's index in the rank's program, its
// kind, and its stage and microbatch where it has them.
//
// `otherData` is {"plan", "kind", "device", "cluster", "slice": {"tensor", "pipeline"}}, the last three null
// where there is none; each process is labelled with its kind, and as a slice. Names are the same whatever
// the kind, so that traces can be joined on them.
//
// The compute lane, and every other that has rows, is filled: where it does nothing between the step's begin
// (0, or the first row's start where that is earlier) and its end (the last of all rows), an event "idle"
// stands. Events of one lane do not overlap: an action that was issued while the one before it was still open
// begins where that one ends.
//
// `rows` are of that program, of any of its ranks, in any order (throws std::out_of_range for a rank or
// action that it does not have).
std::string ChromeTrace(const Program& program, std::span<const TraceRow> rows, const TraceOrigin& origin);

}  // namespace autocfg
