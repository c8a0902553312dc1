// Options of the plan that a user says beside a framework's file: what the file leaves to a script, or to the
// framework. Pure functions, thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

// Parses "recompute=full,attention=unfused". InvalidArgument: an unknown option or value, or an option that
// is named twice.
absl::StatusOr<std::map<std::string, std::string>> ParseSaidOptions(std::string_view text);

// Sets the options of `said` that the file leaves open (RunDraft::unsaid). Fails for one that the file says
// otherwise.
void ApplySaidOptions(std::span<const SayingSetting> table, const std::map<std::string, std::string>& said,
                      SettingReader& read, RunDraft& run);

}  // namespace autocfg
