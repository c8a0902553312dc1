// How the log of an engine tells what happened: the rules of its file (docs/engines.md, "Log"). A line of the
// log is text or a JSON object. Plain values, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "re2/re2.h"

namespace autocfg::worker {

// RE2 takes time linear in the line and bounded memory, whatever the pattern.
using Pattern = std::shared_ptr<const RE2>;

// A number of a line: what the pattern's one group matches, or a field of its object.
struct NumberRule {
  Pattern pattern = {};                 // null: a line of JSON
  std::vector<std::string> field = {};  // names, from the outermost object on
  double factor = 1;                    // to seconds, bytes or 1
};

// What the number of a step's speed is.
enum class SpeedKind : std::uint8_t {
  kStepTime,
  kSamplesPerSecond,
  kTokensPerSecond,
  kTokensPerSecondOfRank
};

struct LogRules {
  bool json = false;  // lines are JSON objects; those that are not match patterns alone
  SpeedKind speed_kind = SpeedKind::kStepTime;
  NumberRule speed;
  std::optional<NumberRule> step = {};  // the number of a step, on its line or before it
  std::int64_t first_step = 1;          // the number of the first step
  std::optional<NumberRule> loss = {};
  std::optional<NumberRule> peak_memory = {};
  // Each may be null. Of a run that failed, the last line that matches is its message: the pattern's group,
  // or the line.
  Pattern out_of_memory = {};
  std::vector<int> out_of_memory_statuses = {};  // exit statuses that mean it too
  Pattern failure = {};
  Pattern peer_lost = {};  // lines that say that another rank is gone; they do not count as `failure`
};

// InvalidArgument names the key: "log: step_time: pattern: missing ): ...".
absl::StatusOr<LogRules> ParseLogRules(const nlohmann::ordered_json& json);

}  // namespace autocfg::worker
