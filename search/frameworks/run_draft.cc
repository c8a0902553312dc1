#include "search/frameworks/run_draft.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/framework_rules.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {

void ReadRanks(const RankSettings& settings, const ReadingOptions& options, SettingReader& read,
               RunDraft& run) {
  std::string why = "the file does not say how many ranks train";
  const auto whole = [&](std::string_view name, std::int64_t otherwise) {
    const Setting* setting = read.Find(name);
    if (setting == nullptr) return otherwise;
    if (setting->unknown.empty() && setting->values.size() == 1) {
      if (const auto value = base::ParseNumber<std::int64_t>(setting->values.front(), 1)) return *value;
    }
    why = fmt::format("line {}: the number of ranks cannot be known: {}", read.text().Line(setting->at),
                      setting->unknown.empty() ? base::Printable(setting->values.front()) : setting->unknown);
    return std::int64_t{0};
  };
  const std::int64_t of_node = whole(settings.ranks_of_node, 0);
  const bool at_launch =
      settings.nodes_at_launch && of_node > 0 && options.ranks > of_node && options.ranks % of_node == 0;
  const std::int64_t count = whole(settings.nodes, at_launch ? options.ranks / of_node : 1);
  if (at_launch && !read.Has(settings.nodes))
    read.Note(fmt::format("{} is missing: read as {}, for {} ranks", settings.nodes, count, options.ranks));
  constexpr std::int64_t kMostRanks = std::int64_t{1} << 31;
  if (of_node > 0 && count > 0 && of_node < kMostRanks / count) {
    run.ranks = of_node * count;
    run.ranks_per_node = of_node;
    if (!options.ranks_count || run.ranks == options.ranks) return;
    read.Note(fmt::format("the file starts {} ranks: read with the {} of --ranks", run.ranks, options.ranks));
    run.ranks = options.ranks;
    if (run.ranks % of_node != 0) run.ranks_per_node = 0;
  } else if (options.ranks > 0) {
    run.ranks = options.ranks;
  } else {
    read.Fail(why + "; give --ranks or --cluster");
    run.ranks = 1;
  }
}

std::int64_t ReadVocabSize(std::string_view name, const ReadingOptions& options, SettingReader& read) {
  const Setting* setting = read.Find(name);
  if (setting != nullptr && !setting->unknown.empty() && options.vocab > 0) return 0;
  return read.Whole(name, 0);
}

void CheckSaidVocab(std::string_view name, std::int64_t vocab, const ReadingOptions& options,
                    SettingReader& read) {
  if (vocab == 0 || options.vocab == 0 || vocab == options.vocab) return;
  read.Fail(*read.Find(name),
            fmt::format("says {} tokens, and --vocab {}; change one of them", vocab, options.vocab));
}

void ReadAxes(std::span<const SayingSetting> axes, SettingReader& read, RunDraft& run) {
  for (const auto& [axis, setting] : axes) run.plan.*FindAxis(axis)->size = read.Whole(setting, 1);
}

void SetDataRanks(std::span<const SayingSetting> axes, SettingReader& read, RunDraft& run) {
  if (const std::optional<MeshOptions> mesh = WithDataRanks(run.plan, run.ranks)) {
    static_cast<MeshOptions&>(run.plan) = *mesh;
    return;
  }
  std::vector<std::string> sizes;
  for (const auto& [axis, setting] : axes)
    sizes.push_back(fmt::format("{}={}", axis, run.plan.*FindAxis(axis)->size));
  const bool launched = read.Has(kLaunchNodes) || read.Has(kLaunchRanks);
  const std::string problem =
      fmt::format("{} ranks do not divide by {}; change one of them{}", run.ranks, fmt::join(sizes, " x "),
                  launched ? ", or give other ranks by --ranks" : "");
  const auto said = std::find_if(axes.begin(), axes.end(), [&](const SayingSetting& axis) {
    return read.Find(axis.setting) != nullptr;
  });
  if (said != axes.end()) {
    read.Fail(*read.Find(said->setting), fmt::format("does not fit: {}", problem));
  } else {
    read.Fail(problem);
  }
  run.plan.dp = 1;
}

void CheckBatch(std::string_view name, SettingReader& read, const RunDraft& run) {
  const std::int64_t batch = run.workload.global_batch, dp = BatchRanks(run.plan), mbs = run.plan.micro_batch;
  if (batch % dp == 0 && batch / dp % mbs == 0) return;
  const std::string problem = fmt::format(
      "{} sequences do not divide by {} data ranks x micro batch {}; change one of them", batch, dp, mbs);
  if (const Setting* setting = read.Find(name)) {
    read.Fail(*setting, fmt::format("does not fit: {}", problem));
  } else {
    read.Fail(problem);
  }
}

void NoteDefaultBatch(std::string_view name, SettingReader& read, const RunDraft& run) {
  const std::int64_t ranks = BatchRanks(run.plan);
  read.Note(fmt::format(
      "{} is missing: the framework then takes {} sequences a step, {} on each of {} data "
      "rank{}",
      name, run.workload.global_batch, run.workload.global_batch / ranks, ranks, ranks == 1 ? "" : "s"));
}

void SetStages(std::vector<std::int64_t> layers, RunDraft& run) {
  const bool even =
      std::all_of(layers.begin(), layers.end(), [&](std::int64_t count) { return count == layers.front(); });
  run.plan.split = even ? SplitMode::kEven : SplitMode::kExplicit;
  run.plan.split_layers.clear();
  if (!even) run.plan.split_layers = std::move(layers);
}

void ReadOptimizer(const OptimizerSettings& settings, SettingReader& read, RunDraft& run) {
  static constexpr std::pair<std::string_view, OptimizerKind> kNames[] = {
      {"adam", OptimizerKind::kAdamW},
      {"adamw", OptimizerKind::kAdamW},
      {"fused_adam", OptimizerKind::kAdamW},
      {"fusedadam", OptimizerKind::kAdamW},
      {"megatron_fused_adam", OptimizerKind::kAdamW},
      {"distributed_fused_adam", OptimizerKind::kAdamW},
      {"mcore_distributed_optim", OptimizerKind::kAdamW},
      {"sgd", OptimizerKind::kSgd},
      {"lion", OptimizerKind::kLion},
      {"adafactor", OptimizerKind::kAdafactor},
      {"muon", OptimizerKind::kMuon},
  };
  const std::string text = read.Text(settings.name, settings.otherwise);
  std::string name = text;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto known = std::ranges::find(kNames, name, &std::pair<std::string_view, OptimizerKind>::first);
  if (known == std::end(kNames)) {
    if (const Setting* setting = read.Find(settings.name)) {
      read.Fail(*setting,
                fmt::format("is '{}', which is not modelled; adam, sgd, lion, adafactor and muon can be "
                            "read",
                            base::Printable(text)));
    }
    return;
  }
  run.workload.optimizer = {.kind = known->second};
  const double momentum = read.Real(settings.momentum, settings.default_momentum);
  if (known->second != OptimizerKind::kSgd) return;
  if (!(momentum >= 0 && momentum < 1)) {
    if (const Setting* setting = read.Find(settings.momentum))
      read.Fail(*setting, fmt::format("is {}; it must be from 0 to below 1", momentum));
    return;
  }
  run.workload.optimizer.momentum = momentum;
}

void ReadTensorOverlap(std::string_view name, SettingReader& read, RunDraft& run) {
  if (!read.Flag(name) || !SplitsLayers(run.plan)) return;
  run.plan.tp_overlap = kChunksOfSwitch;
  read.NoteOf(*read.Find(name),
              fmt::format("is read as tp_overlap={}: the framework chooses the chunks", kChunksOfSwitch));
}

}  // namespace autocfg
