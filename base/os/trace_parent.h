// The trace that a call or a process belongs to, as W3C Trace Context and OpenTelemetry hand it on: in the
// metadata `traceparent` of calls and in the environment variable TRACEPARENT.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace autocfg::base {

// Lower-case hexadecimal digits, of which trace and span are not all 0.
struct TraceParent {
  std::string trace;  // 32 digits: the same for all that one command causes
  std::string span;   // 16 digits: the part of it that caused this
  std::string flags;  // 2 digits; 01: it is sampled
};

// Returns nothing if the text is not a valid traceparent. Of later versions than 00, only what 00 has is
// read.
std::optional<TraceParent> ParseTraceParent(std::string_view text);

// Returns 00-TRACE-SPAN-FLAGS.
std::string TraceParentText(const TraceParent& parent);

// Returns a span of its own in the trace. Thread-safe.
TraceParent NewSpan(const TraceParent& parent);

// Returns the trace of this process: that of TRACEPARENT if it is valid, else a new, sampled one. The same at
// each call. Thread-safe unless the environment changes concurrently.
const TraceParent& OwnTrace();

// Returns the trace of a text, and the text of a new span in it; empty if the text is not valid.
std::string TraceOf(std::string_view text);
std::string NewSpanText(std::string_view text);

}  // namespace autocfg::base
