// What is known of a training framework: how its file is written, read and changed, and which plans it cannot
// express. Each framework defines its adapter in a directory of its own; the shared files ask the adapter and
// name no framework. Plain values; pure functions, thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"
#include "search/frameworks/said_options.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/frameworks/settings/unmodelled.h"
#include "search/frameworks/split_settings.h"
#include "search/plan/legality.h"

namespace autocfg {

enum class SettingsForm { kFlags, kYaml, kJson, kToml, kOverrides };

struct FrameworkAdapter {
  ExportTarget target;  // the file, with its writer
  // Whether it is a target of exports. If not, the writer writes the settings that the plan decides alone,
  // from which the lines to change follow.
  bool exported = true;
  std::span<const LegalityRule> rules;  // as of FrameworkRules

  // How the file is read.
  void (*read)(const ReadingOptions& options, SettingReader& read, RunDraft& run);
  std::span<const SayingSetting> saying;
  std::span<const HarmlessSetting> harmless;
  std::span<const UnmodelledSetting> unmodelled = {};
  SettingsForm form;
  bool may_have_braces = false;  // YAML may be one object in braces, with commas
  bool several_files = false;    // a run may be several files, whose settings count together
  // Gives settings the names that the readers ask for; null: the file has them.
  void (*normalize)(SettingsText& settings) = nullptr;
  FlagForm flags = {};  // of flags
  // Returns the adapter of the program that the settings are for, if that is another: a fork that trains with
  // another engine. Null: this one's.
  const FrameworkAdapter* (*fork_of)(const SettingsText& settings) = nullptr;
  std::string_view engine = {};  // whose figures predict its runs; empty: those of the framework's name
  // Takes what is said at launch into the settings, for JSON and TOML.
  void (*take_launch)(const std::vector<LaunchWord>& words, SettingsText& settings) = &AddOverrides;
  // Makes options of the settings that the framework prints into its log; null: it prints none.
  void (*take_log)(SettingsText& settings) = nullptr;
  bool (*recognizes)(std::string_view text);  // whether the text is such a file, if it is JSON as the form is

  // How the file is changed for another plan.
  std::string_view global_batch = {};  // the setting that says it; empty: others make it up
  // Rows of settings that say the same in other ways, or that belong together: where one of a row changes,
  // those that the new plan does not need go.
  std::span<const std::span<const std::string_view>> spellings = {};
  std::string_view other_ranks = {};  // a degree whose value -1 is all ranks that are left
  bool has_padded_vocab = false;      // the file has the vocabulary with its padding, which tp decides
  // With this setting, the variables that other plans need must not be set; empty: it has no such setting.
  std::string_view refuses_environment = {};
  // Whether the training script says an option of the plan, and not the file.
  bool (*script_says)(std::string_view option,
                      const ParallelPlan& plan) = [](std::string_view, const ParallelPlan&) { return false; };
};

extern const FrameworkAdapter kMegatronAdapter;
extern const FrameworkAdapter kMegatronBridgeAdapter;
extern const FrameworkAdapter kMegatronDeepSpeedAdapter;  // a fork of Megatron-LM
extern const FrameworkAdapter kNemoAdapter;
extern const FrameworkAdapter kDeepSpeedAdapter;
extern const FrameworkAdapter kTorchtitanAdapter;
extern const FrameworkAdapter kNanotronAdapter;
extern const FrameworkAdapter kGptNeoxAdapter;
extern const FrameworkAdapter kAccelerateAdapter;
extern const FrameworkAdapter kMaxTextAdapter;

// In the order of the documentation.
std::span<const FrameworkAdapter* const> FrameworkAdapters();

// Returns the adapter of a framework, or of a fork; null for any other name.
const FrameworkAdapter* FindFrameworkAdapter(std::string_view framework);

// Returns whether a line of the text begins so.
bool HasLineThatBegins(std::string_view text, std::string_view with);

}  // namespace autocfg
