// A file of a training framework, written by us or by a person, read back into model, workload and plan. A
// batch script of ours is read as the file that it holds.
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/frameworks/run_draft.h"
#include "search/frameworks/settings/settings.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// A setting that says nothing of model, workload or plan.
struct IgnoredSetting {
  std::string name;
  std::int64_t line = 0;

  bool operator==(const IgnoredSetting&) const = default;
};

struct FrameworkRun {
  std::string framework;  // its name, or that of its fork
  std::string engine;     // whose figures predict the run, with those that the file sets (EngineText)
  ModelSpec model;        // named after the preset of its shape, if there is one
  Workload workload;
  ParallelPlan plan;  // legal, in canonical form
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 0;           // 0: the file does not say it
  std::vector<std::string> notes = {};       // what was read otherwise than written, or not at all
  std::vector<IgnoredSetting> ignored = {};  // in the order of the file
  SettingsText settings = {};
};

// The frameworks, in the order of the documentation.
std::vector<std::string> FrameworkNames();

// Returns the framework whose form the text has; empty if it has none.
std::string_view FrameworkOf(std::string_view text);

// Returns whether a run of the framework may be several files.
bool TakesSeveralFiles(std::string_view framework);

// Returns the program whose file the text is, if autocfg cannot read its files: "nanotron". Empty: no such
// program is known.
std::string_view OtherFormOf(std::string_view text);

// Returns the settings of a framework's file.
absl::StatusOr<SettingsText> ReadSettings(std::string_view framework, std::string_view file,
                                          std::string_view text, const LaunchWords& launch = {});

// `file`: its name, for messages. InvalidArgument names file and line: a text of another form, a value of a
// wrong type, settings that contradict each other, a misspelt one, a part that autocfg does not model, or a
// plan that is illegal, or a setting that is unknown and may change how the work is split. Settings that say
// nothing of model, workload or plan are left out; a note counts them.
absl::StatusOr<FrameworkRun> ReadFrameworkFile(std::string_view framework, std::string_view file,
                                               std::string_view text, const ReadingOptions& options = {});

}  // namespace autocfg
