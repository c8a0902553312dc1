#include "base/os/trace_parent.h"

#include <algorithm>

#include "base/os/host.h"

namespace autocfg::base {
namespace {

constexpr std::size_t kTraceDigits = 32, kSpanDigits = 16, kFlagDigits = 2;
constexpr std::size_t kLength = 2 + 1 + kTraceDigits + 1 + kSpanDigits + 1 + kFlagDigits;

bool AreDigits(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) {
  return AreDigits(text) && text.find_first_not_of('0') != std::string_view::npos;
}

std::string NewSpanId() {
  while (true) {
    std::string id = RandomId().substr(0, kSpanDigits);
    if (IsId(id)) return id;
  }
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(std::string_view text) {
  if (text.size() < kLength || text[2] != '-' || text[3 + kTraceDigits] != '-' ||
      text[4 + kTraceDigits + kSpanDigits] != '-')
    return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  if (!AreDigits(version) || version == "ff") return std::nullopt;
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return std::nullopt;
  TraceParent parent{.trace = std::string(text.substr(3, kTraceDigits)),
                     .span = std::string(text.substr(4 + kTraceDigits, kSpanDigits)),
                     .flags = std::string(text.substr(5 + kTraceDigits + kSpanDigits, kFlagDigits))};
  if (!IsId(parent.trace) || !IsId(parent.span) || !AreDigits(parent.flags)) return std::nullopt;
  return parent;
}

std::string TraceParentText(const TraceParent& parent) {
  return "00-" + parent.trace + "-" + parent.span + "-" + parent.flags;
}

TraceParent NewSpan(const TraceParent& parent) {
  return {.trace = parent.trace, .span = NewSpanId(), .flags = parent.flags};
}

const TraceParent& OwnTrace() {
  static const TraceParent kOwn = [] {
    if (const auto given = ParseTraceParent(Environment("TRACEPARENT"))) return *given;
    return TraceParent{.trace = NewSpanId() + NewSpanId(), .span = NewSpanId(), .flags = "01"};
  }();
  return kOwn;
}

std::string TraceOf(std::string_view text) {
  const auto parent = ParseTraceParent(text);
  return parent ? parent->trace : "";
}

std::string NewSpanText(std::string_view text) {
  const auto parent = ParseTraceParent(text);
  return parent ? TraceParentText(NewSpan(*parent)) : "";
}

}  // namespace autocfg::base
