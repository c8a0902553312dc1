// The frameworks that a run can be exported to. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/frameworks/exported_run.h"
#include "search/frameworks/launch.h"
#include "search/frameworks/refusals.h"

namespace autocfg {

struct ExportedFile {
  std::string text;  // the whole file
  // The evidence, if the format has no comments: what stands in a file beside it.
  std::string evidence = {};
  // What had to be translated, a sentence each. They stand in the evidence too.
  std::vector<std::string> translated = {};
  Launch launch = {};  // starts it; {file} in its arguments is the file's path
};

struct ExportTarget {
  std::string_view name;
  std::string_view summary;    // of the file
  std::string_view file_name;  // by default
  std::string_view version;    // of the framework whose rules it follows; empty: this program's own
  // Refuses what the target cannot express of the model and the precision.
  void (*check)(const ExportedRun& run, Refusals& refuse);
  // Requires a legal plan in canonical form with a definite split, and a run that the target can express.
  ExportedFile (*write)(const ExportedRun& run);
};

// What `autocfg train --input` and `predict --input` take (docs/formats.md, "best.json").
ExportedFile WriteOwnForm(const ExportedRun& run);

// The frameworks in the order of the documentation, then our own form.
std::span<const ExportTarget> ExportTargets();

// Returns the target; null if there is none of this name.
const ExportTarget* FindExportTarget(std::string_view name);

// Returns "unknown target 'megatorn'; expected megatron, nemo, ...". `more`: other names that are taken.
std::string UnknownExportTarget(std::string_view name, const std::vector<std::string>& more = {});

// Returns the file of a run for the target. The plan becomes canonical first. InvalidArgument: the plan is
// illegal, or its split is auto. FailedPrecondition names all that the target cannot express.
absl::StatusOr<ExportedFile> Export(const ExportedRun& run, const ExportTarget& target);

// Returns the comments above a file, each with "# " before it: the title, the evidence, what was translated,
// the variables that the run needs, the line that starts it.
std::string HeaderOf(std::string_view title, const ExportedRun& run, const ExportedFile& file);

// Returns a batch script for Slurm that contains the target's file and starts it. Errors as of Export;
// InvalidArgument too for a target whose file this program itself takes, since `train` runs on one machine.
absl::StatusOr<ExportedFile> ExportSlurmScript(const ExportedRun& run, const ExportTarget& engine);

}  // namespace autocfg
