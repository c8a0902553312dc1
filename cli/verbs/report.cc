// autocfg report: writes what is known of a study as one page of HTML that opens without a network.
#include <memory>
#include <string>

#include "cli/client/study_names.h"
#include "cli/input/files.h"
#include "cli/input/service_options.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

struct ReportArgs {
  ServiceOptions service;
  std::string study, output;
};

int RunReport(const ReportArgs& args) {
  if (const auto status = CheckWritable(args.output); !status.ok()) return Fail(Where("--output", status));
  const auto reader = StudyReader::Open(args.service);
  if (!reader.ok()) return Fail(reader.status());
  const auto study = (*reader)->StudyNamed(args.study);
  if (!study.ok()) return Fail(study.status());
  const auto id = ParseStudyId(study->name());
  if (!id.ok()) return Fail(id.status());
  const auto page = (*reader)->Report(*id);
  if (!page.ok()) return Fail(Where("--study", page.status()));
  if (const auto status = WriteFileAtomically(args.output, *page); !status.ok())
    return Fail(Where("--output", status));
  return Answer(fmt::format("wrote {}\n", args.output));
}

}  // namespace

void AddReport(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("report", "write a page about a study: the answer, charts, timelines");
  const auto args = std::make_shared<ReportArgs>();
  verb->add_option("study,--study", args->study, "the study's number (default: the newest)");
  verb->add_option("--output", args->output, "the file to write, such as report.html")->required();
  AddServiceOptions(verb, args->service);
  verb->callback([args, &chosen] { chosen = [args] { return RunReport(*args); }; });
}

}  // namespace autocfg::cli
