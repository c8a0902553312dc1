#include "search/frameworks/framework_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/frameworks/adapter.h"
#include "search/frameworks/batch_script.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

absl::StatusOr<SettingsText> SettingsOf(const FrameworkAdapter& adapter, std::string_view file,
                                        std::string_view text, const LaunchWords& launch) {
  if (adapter.take_log != nullptr && IsLogOfSettings(text)) {
    auto settings = ReadLogSettings(file, text);
    if (!settings.ok()) return settings;
    adapter.take_log(*settings);
    AddFlags(launch.arguments, *settings);
    return settings;
  }
  if (adapter.form == SettingsForm::kFlags && IsArgumentsYaml(text))
    return ReadArgumentsYaml(file, text, launch);
  if (adapter.form == SettingsForm::kFlags) return ReadFlagSettings(file, text, adapter.flags, launch);
  auto settings = adapter.form == SettingsForm::kYaml        ? ReadYamlSettings(file, text, launch)
                  : adapter.form == SettingsForm::kJson      ? ReadJsonSettings(file, text)
                  : adapter.form == SettingsForm::kOverrides ? ReadOverrideSettings(file, text)
                                                             : ReadTomlSettings(file, text);
  if (!settings.ok()) return settings;
  if (adapter.form != SettingsForm::kYaml) adapter.take_launch(launch.arguments, *settings);
  if (adapter.normalize != nullptr) adapter.normalize(*settings);
  return settings;
}

// Names the model after the first preset of its shape: figures that cost nothing, and what is dropped, may
// differ. `tp` pads the vocabulary, which some files have with its padding.
void NameByShape(std::int64_t tp, ModelSpec& model) {
  for (const std::string& name : ModelPresetNames()) {
    auto preset = ModelPreset(name);
    if (!preset.ok()) continue;
    FillDefaults(*preset);
    if (PaddedVocab(*preset, tp) == model.vocab) preset->vocab = model.vocab;
    preset->max_seq_len = model.max_seq_len;
    preset->name = model.name;
    preset->norm_eps = model.norm_eps;
    preset->dropout = model.dropout;
    preset->attention_dropout = model.attention_dropout;
    preset->rope_theta = model.rope_theta;
    preset->rope_scaling = model.rope_scaling;
    preset->rope_scaling_parameters = model.rope_scaling_parameters;
    preset->init_std = model.init_std;
    preset->vocab_multiple = model.vocab_multiple;
    if (*preset != model) continue;
    model.name = name;
    return;
  }
}

// Returns the text of the engine of this name with the settings of the run.
absl::StatusOr<std::string> EngineOf(std::string_view name, const RunDraft& run) {
  if (run.engine_settings.empty()) return std::string(name);
  const auto engine = EngineNamed(fmt::format("{}:{}", name, fmt::join(run.engine_settings, ",")));
  if (!engine.ok()) return engine.status();
  return EngineText(*engine);
}

}  // namespace

std::vector<std::string> FrameworkNames() {
  std::vector<std::string> names;
  for (const FrameworkAdapter* adapter : FrameworkAdapters()) names.emplace_back(adapter->target.name);
  return names;
}

std::string_view OtherFormOf(std::string_view text) {
  // Words that a file of the program has, and none of a framework.
  static constexpr std::pair<std::string_view, std::array<std::string_view, 2>> kForms[] = {
      {"LLaMA-Factory", {"finetuning_type:", "model_name_or_path:"}},
  };
  for (const auto& [program, words] : kForms) {
    if (std::ranges::all_of(words, [&](std::string_view word) { return text.find(word) != text.npos; }))
      return program;
  }
  return {};
}

std::string_view FrameworkOf(std::string_view text) {
  if (IsBatchScript(text)) {
    const auto held = FileHeldBy("", text);
    // Any reader says what is wrong.
    return held.ok() ? FrameworkOf(held->text) : FrameworkAdapters().front()->target.name;
  }
  if (!OtherFormOf(text).empty()) return {};
  const bool json = base::Trimmed(text).starts_with('{');
  for (const FrameworkAdapter* adapter : FrameworkAdapters()) {
    const bool has_form = (adapter->form == SettingsForm::kJson) == json || adapter->may_have_braces;
    if (has_form && adapter->recognizes(text)) return adapter->target.name;
  }
  return {};
}

bool TakesSeveralFiles(std::string_view framework) {
  const FrameworkAdapter* adapter = FindFrameworkAdapter(framework);
  return adapter != nullptr && adapter->several_files;
}

absl::StatusOr<SettingsText> ReadSettings(std::string_view framework, std::string_view file,
                                          std::string_view text, const LaunchWords& launch) {
  const FrameworkAdapter* adapter = FindFrameworkAdapter(framework);
  if (adapter == nullptr) {
    return base::InvalidArgument(
        file, fmt::format("unknown framework '{}'; expected {}", base::Printable(framework),
                          base::ChoiceText(FrameworkNames())));
  }
  if (text.size() > kMostSettingsBytes) {
    return base::InvalidArgument(
        file, fmt::format("it has {} bytes; the limit is {}; give the settings alone", text.size(),
                          kMostSettingsBytes));
  }
  if (text.find('\0') != std::string_view::npos)
    return base::InvalidArgument(file, "it is no text file: it has zero bytes; give the framework's file");
  if (base::Trimmed(text).empty())
    return base::InvalidArgument(file, "it is empty; give the framework's file");
  if (!IsBatchScript(text)) return SettingsOf(*adapter, file, text, launch);
  AUTOCFG_ASSIGN_OR_RETURN(const auto held, FileHeldBy(file, text));
  const std::string_view holds = FrameworkOf(held.text);
  if (!holds.empty() && holds != framework) {
    return base::InvalidArgument(
        file,
        fmt::format("the batch script holds a file of {}, not of {}; leave --from out", holds, framework));
  }
  auto settings = SettingsOf(*adapter, file, held.text, launch);
  if (settings.ok()) {
    settings->text = std::string(text);
    settings->end = held.end;
  }
  return settings;
}

absl::StatusOr<FrameworkRun> ReadFrameworkFile(std::string_view framework, std::string_view file,
                                               std::string_view text, const ReadingOptions& options) {
  auto settings = ReadSettings(framework, file, text, options.launch);
  if (!settings.ok()) return settings.status();
  const FrameworkAdapter* named = FindFrameworkAdapter(framework);
  const FrameworkAdapter* fork = named->fork_of == nullptr ? nullptr : named->fork_of(*settings);
  const FrameworkAdapter& adapter = fork == nullptr ? *named : *fork;
  for (const NamedText& file_of_option : settings->named) {
    if (!file_of_option.text) continue;
    if (absl::Status status = AddNamedJson(file_of_option, *settings); !status.ok()) return status;
  }
  FrameworkRun result{.framework = std::string(adapter.target.name),
                      .engine = {},
                      .model = {},
                      .workload = {},
                      .plan = {},
                      .notes = settings->notes,
                      .settings = *std::move(settings)};
  SettingReader read(result.settings);
  RunDraft run;
  RefuseUnmodelled(adapter.unmodelled, read);
  adapter.read(options, read, run);
  if (options.vocab > 0 && run.model.vocab != options.vocab) {
    read.Fail(fmt::format("the model has {} tokens, and --vocab is {}; leave --vocab out", run.model.vocab,
                          options.vocab));
  }
  if (read.ok()) ApplySaidOptions(adapter.saying, options.plan, read, run);
  read.NoteRepeated();
  const std::vector<const Setting*> unread = read.FinishNames();
  RefuseUnreadSplits(adapter.harmless, unread, read);
  if (!read.ok()) return read.status();
  FillDefaults(run.model, run.workload.seq_len);
  if (absl::Status status = Validate(run.model); !status.ok()) return base::Within(file, status);
  if (absl::Status status = Validate(run.workload, run.model); !status.ok())
    return base::Within(file, status);
  DropRestatedDefaults(run.plan);
  if (absl::Status status = CheckLegal(run, run.ranks); !status.ok()) return base::Within(file, status);
  if (!options.model) NameByShape(run.plan.tp, run.model);
  result.model = std::move(run.model);
  result.workload = run.workload;
  result.plan = Canonical(run.plan);
  result.ranks = run.ranks;
  result.ranks_per_node = run.ranks_per_node;
  AUTOCFG_ASSIGN_OR_RETURN(result.engine,
                           EngineOf(adapter.engine.empty() ? adapter.target.name : adapter.engine, run));
  if (IsBatchScript(text)) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto each, RanksOfNode(file, text, run.ranks));
    if (result.ranks_per_node == 0) result.ranks_per_node = each;
  }
  result.notes.insert(result.notes.end(), read.notes().begin(), read.notes().end());
  for (const Setting* setting : unread)
    result.ignored.push_back({setting->name, result.settings.Line(setting->at)});
  if (const std::size_t others = unread.size(); others > 0) {
    result.notes.push_back(fmt::format("{} setting{} that say{} nothing of model, batch or plan {} left out",
                                       others, others == 1 ? "" : "s", others == 1 ? "s" : "",
                                       others == 1 ? "is" : "are"));
  }
  return result;
}

}  // namespace autocfg
