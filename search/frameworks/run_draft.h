// What the readers of the frameworks' files fill in, and what they share. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/frameworks/settings/settings.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// What a file does not say, or what stands in its place.
struct ReadingOptions {
  std::optional<ModelSpec> model = {};  // in place of the file's
  std::int64_t ranks = 0;               // if the file does not say how many; 0: not given
  std::int64_t vocab = 0;               // in place of the file's; 0: not given
  std::int64_t seq_len = 0;             // the same
  // Options of the plan by their text names, if the file leaves them open (ParseSaidOptions).
  std::map<std::string, std::string> plan = {};
};

struct RunDraft {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  std::int64_t ranks = 0;
  std::int64_t ranks_per_node = 0;  // 0: the file does not say it
  // Options of the plan, by their text names, that the file leaves to a script or to the framework.
  std::vector<std::string_view> unsaid = {};
};

// Returns the product of two sizes, or a bound that no run reaches.
constexpr std::int64_t Times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kNeverReached = std::int64_t{1} << 40;
  return b != 0 && a > kNeverReached / b ? kNeverReached : a * b;
}

// Sets ranks: `nodes` times `ranks_of_node` if the file says both (one node is the default), else those that
// were given. Fails if neither is known.
void ReadRanks(std::string_view nodes, std::string_view ranks_of_node, const ReadingOptions& options,
               SettingReader& read, RunDraft& run);

// Sets dp to the ranks that tp and pp leave. Fails at `tp_name` if they do not divide.
void SetDataRanks(std::string_view tp_name, SettingReader& read, RunDraft& run);

// Checks that the global batch divides by mbs and dp; `name` is the setting that says it.
void CheckBatch(std::string_view name, SettingReader& read, const RunDraft& run);

// Notes that the file does not say the global batch, which is then the framework's default.
void NoteDefaultBatch(std::string_view name, SettingReader& read, const RunDraft& run);

// Sets what the split of a file's stages says: even if they are alike.
void SetStages(std::vector<std::int64_t> layers, RunDraft& run);

// Sets the chunks of tensor communication that overlaps, if the switch `name` is on.
void ReadTensorOverlap(std::string_view name, SettingReader& read, RunDraft& run);

}  // namespace autocfg
