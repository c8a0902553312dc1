// What the readers of the frameworks' files fill in, and what they share. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
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
  bool ranks_count = false;             // in place of those that a script starts
  std::int64_t vocab = 0;               // if the file leaves it to a tokenizer; 0: not given
  std::int64_t seq_len = 0;             // in place of the file's; 0: not given
  bool fused_attention = true;          // DeviceSpec::fused_attention of the cluster, if one is given
  LaunchWords launch = {};              // in place of what the file says
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
  // Figures of the engine that the file sets otherwise than the engine's file, as EngineText writes them.
  std::vector<std::string> engine_settings = {};
};

// The setting of a framework's file that says an option of the plan, by its text name.
struct SayingSetting {
  std::string_view option, setting;
};

// Returns the product of two sizes, or a bound that no run reaches.
constexpr std::int64_t Times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kNeverReached = std::int64_t{1} << 40;
  return b != 0 && a > kNeverReached / b ? kNeverReached : a * b;
}

// The settings of a file that say how many ranks train.
struct RankSettings {
  std::string_view nodes, ranks_of_node;
  bool nodes_at_launch = false;  // without `nodes`, as many as the given ranks need; else one
};

// Sets ranks: nodes times ranks of a node if the file says both, else those that were given. Fails if neither
// is known.
void ReadRanks(const RankSettings& settings, const ReadingOptions& options, SettingReader& read,
               RunDraft& run);

// Returns the tokens of the vocabulary that the file says by `name`; 0: it does not, or only a run would say
// them and --vocab does.
std::int64_t ReadVocabSize(std::string_view name, const ReadingOptions& options, SettingReader& read);

// Fails if the file says a vocabulary, by `name`, and --vocab another.
void CheckSaidVocab(std::string_view name, std::int64_t vocab, const ReadingOptions& options,
                    SettingReader& read);

// Reads the sizes of axes. An axis whose setting is missing has one rank.
void ReadAxes(std::span<const SayingSetting> axes, SettingReader& read, RunDraft& run);

// Calls visit(setting, size) for each of these axes.
template <typename Visit>
void ForEachAxis(std::span<const SayingSetting> axes, const ParallelPlan& plan, const Visit& visit) {
  for (const auto& [axis, setting] : axes) visit(setting, plan.*FindAxis(axis)->size);
}

// Sets dp to the ranks that the other axes leave. Fails at the first of these that has a setting if they do
// not divide.
void SetDataRanks(std::span<const SayingSetting> axes, SettingReader& read, RunDraft& run);

// Checks that the global batch divides by mbs and dp; `name` is the setting that says it.
void CheckBatch(std::string_view name, SettingReader& read, const RunDraft& run);

// Notes that the file does not say the global batch, which is then the framework's default.
void NoteDefaultBatch(std::string_view name, SettingReader& read, const RunDraft& run);

// Sets what the split of a file's stages says: even if they are alike.
void SetStages(std::vector<std::int64_t> layers, RunDraft& run);

// Settings that say the optimizer of a file.
struct OptimizerSettings {
  std::string_view name, momentum;
  std::string_view otherwise = "adam";  // the framework's default
  double default_momentum = 0;          // of its SGD
};

// Sets the optimizer. Fails at one that is not modelled. The fused, sharded and other forms of Adam count as
// AdamW.
void ReadOptimizer(const OptimizerSettings& settings, SettingReader& read, RunDraft& run);

// Sets the chunks of tensor communication that overlaps, if the switch `name` is on.
void ReadTensorOverlap(std::string_view name, SettingReader& read, RunDraft& run);

}  // namespace autocfg
