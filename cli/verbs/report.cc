// autocfg report: writes what is known of a study, or what the file of a search holds, as one page of HTML
// that opens without a network.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "cli/client/study_names.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/service_options.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "server/report/report_json.h"
#include "server/report/study_report.h"

namespace autocfg::cli {
namespace {

struct ReportArgs {
  ServiceOptions service;
  std::string study, input, output;
};

absl::StatusOr<std::string> PageOfFile(const ReportArgs& args) {
  for (const auto& [option, given] : {std::pair("--study", !args.study.empty()),
                                      {"--coordinator", args.service.remote()},
                                      {"--db", !args.service.database.empty()}}) {
    if (given) {
      return absl::InvalidArgumentError(
          fmt::format("{} is for a stored study, and --input names a file; leave out one of them", option));
    }
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto file, LoadAnswerFile(args.input));
  if (!file.lacks.ok()) return Where(fmt::format("--input: {}", args.input), file.lacks);
  AUTOCFG_ASSIGN_OR_RETURN(const auto report, server::ReportOf(std::move(file.answer)));
  return server::PageOf(report);
}

absl::StatusOr<std::string> PageOfStudy(const ReportArgs& args) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto reader, StudyReader::Open(args.service));
  AUTOCFG_ASSIGN_OR_RETURN(const auto study, reader->StudyNamed(args.study));
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyId(study.name()));
  auto page = reader->Report(id);
  if (!page.ok()) return Where("--study", page.status());
  return page;
}

int RunReport(const ReportArgs& args) {
  if (const auto status = CheckWritable(args.output); !status.ok()) return Fail(Where("--output", status));
  std::vector<FileOfOption> read = FilesOf(args.service);
  read.push_back({"--input", args.input});
  if (const auto status = CheckOtherFile({"--output", args.output}, read); !status.ok()) return Fail(status);
  const auto page = args.input.empty() ? PageOfStudy(args) : PageOfFile(args);
  if (!page.ok()) return Fail(page.status());
  if (const auto status = WriteFileAtomically(args.output, *page); !status.ok())
    return Fail(Where("--output", status));
  return Answer(fmt::format("wrote {}\n", args.output));
}

}  // namespace

void AddReport(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("report", "write a page about a study: the answer, charts, timelines");
  const auto args = std::make_shared<ReportArgs>();
  verb->add_option("study,--study", args->study, "the study's number (default: the newest)");
  verb->add_option("--input", args->input, "a file that search --output wrote, in place of a study");
  verb->add_option("--output", args->output, "the file to write, such as report.html")->required();
  AddServiceOptions(verb, args->service);
  verb->callback([args, &chosen] { chosen = [args] { return RunReport(*args); }; });
}

}  // namespace autocfg::cli
