// autocfg export: writes the plan that a search found as a file of a training framework.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/service_options.h"
#include "cli/input/training_options.h"
#include "cli/study/export_source.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "search/frameworks/export_target.h"

namespace autocfg::cli {
namespace {

constexpr std::string_view kSlurmScript = "sbatch";
constexpr std::string_view kEvidenceEnd = ".evidence.txt";

struct ExportArgs {
  ServiceOptions service;
  std::string study, input, to, engine, output, tokens;
};

std::vector<std::string> TargetNames() {
  std::vector<std::string> names;
  for (const ExportTarget& target : ExportTargets()) names.emplace_back(target.name);
  return names;
}

absl::StatusOr<const ExportTarget*> TargetNamed(std::string_view option, const std::string& name,
                                                const std::vector<std::string>& more) {
  if (const ExportTarget* target = FindExportTarget(name)) return target;
  return absl::InvalidArgumentError(fmt::format("{}: {}", option, UnknownExportTarget(name, more)));
}

absl::StatusOr<ExportedRun> RunOf(const ExportArgs& args) {
  if (args.input.empty() == args.study.empty())
    return absl::InvalidArgumentError("give --input FILE or --study ID: the plan to export, one of them");
  if (!args.input.empty()) {
    if (args.service.remote() || !args.service.database.empty()) {
      return absl::InvalidArgumentError(fmt::format("{} is for a stored study; name one with --study",
                                                    args.service.remote() ? "--coordinator" : "--db"));
    }
    return RunOfInput(args.input);
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto reader, StudyReader::Open(args.service));
  return RunOfStudy(*reader, args.study);
}

// Returns the targets that a batch script can start.
std::vector<std::string> StartedNames() {
  std::vector<std::string> names;
  for (const ExportTarget& target : ExportTargets()) {
    if (!target.version.empty()) names.emplace_back(target.name);
  }
  return names;
}

absl::StatusOr<ExportedFile> FileOf(const ExportArgs& args) {
  const bool script = args.to == kSlurmScript;
  if (!script && !args.engine.empty())
    return absl::InvalidArgumentError("--engine is for --to sbatch; leave it out");
  if (script && args.engine.empty()) {
    return absl::InvalidArgumentError(fmt::format("--to sbatch starts a framework; name it with --engine {}",
                                                  base::ChoiceText(StartedNames())));
  }
  if (script && FindExportTarget(args.engine) == nullptr) {
    return absl::InvalidArgumentError(fmt::format("--engine: unknown target '{}'; expected {}",
                                                  base::Printable(args.engine),
                                                  base::ChoiceText(StartedNames())));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto target,
                           script ? TargetNamed("--engine", args.engine, {})
                                  : TargetNamed("--to", args.to, {std::string(kSlurmScript)}));
  AUTOCFG_ASSIGN_OR_RETURN(auto run, RunOf(args));
  if (!run.evidence.trial.empty()) Note(run.evidence.trial + "; its plan is exported all the same");
  if (!args.tokens.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(run.tokens, ParseTokens("--tokens", args.tokens));
  }
  if (script) return ExportSlurmScript(run, *target);
  // A name that would end the comment keeps the usual one.
  if (base::Printable(args.output) == args.output && !args.output.empty())
    run.file_path = ShellWord(args.output);
  return Export(run, *target);
}

// Fails if the file, or the one with the evidence beside it, is one that is read.
absl::Status CheckExportedOver(const ExportArgs& args) {
  std::vector<FileOfOption> read = FilesOf(args.service);
  read.push_back({"--input", args.input});
  AUTOCFG_RETURN_IF_ERROR(CheckOtherFile({"--output", args.output}, read));
  return args.output.empty() ? absl::OkStatus()
                             : CheckOtherFile({"--output", args.output + std::string(kEvidenceEnd)}, read);
}

int RunExport(const ExportArgs& args) {
  if (auto status = CheckExportedOver(args); !status.ok()) return Fail(status);
  const auto file = FileOf(args);
  if (!file.ok()) return Fail(file.status());
  for (const std::string& translated : file->translated) Note("translated: " + translated);
  if (args.output.empty()) {
    if (!file->evidence.empty()) Note("the evidence stands in a file beside it if --output names one");
    return Answer(file->text);
  }
  if (auto status = WriteFileAtomically(args.output, file->text); !status.ok())
    return Fail(Where("--output", status));
  if (!file->evidence.empty()) {
    const std::string beside = args.output + std::string(kEvidenceEnd);
    if (auto status = WriteFileAtomically(beside, file->evidence); !status.ok())
      return Fail(Where("--output", status));
    Note(fmt::format("the evidence is in {}", beside));
  }
  return Answer(fmt::format("wrote {}\n", args.output));
}

}  // namespace

void AddExport(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("export", "write the plan that a search found as a file of a training framework");
  const auto args = std::make_shared<ExportArgs>();
  verb->add_option("study,--study", args->study, "the study's number, or a trial of it: 3/trials/7");
  verb->add_option("--input", args->input, "a file that search --output wrote");
  std::vector<std::string> names = TargetNames();
  names.emplace_back(kSlurmScript);
  verb->add_option("--to", args->to, base::ChoiceText(names))->required();
  verb->add_option("--engine", args->engine, "with --to sbatch: the framework that the script starts");
  verb->add_option("--tokens", args->tokens, "of the whole run (1T): the number of steps, and days");
  verb->add_option("--output", args->output, "the file to write; standard output if not given");
  AddServiceOptions(verb, args->service);
  verb->callback([args, &chosen] { chosen = [args] { return RunExport(*args); }; });
}

}  // namespace autocfg::cli
