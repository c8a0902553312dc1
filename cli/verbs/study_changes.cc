// autocfg cancel: cancels a running or unfinished search.
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/os/host.h"
#include "cli/client/study_names.h"
#include "cli/input/service_options.h"
#include "cli/report/report.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "proto/client/study_client.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/study_states.h"

namespace autocfg::cli {
namespace {

struct CancelArgs {
  ServiceOptions service;
  std::string study;
};

// Cancels a study directly in the database file. Used if no process has the database open.
absl::StatusOr<v1::Study> CancelInFile(const std::string& database, const std::string& name) {
  const auto path = server::DatabasePath(database);
  if (!path.ok()) return path.status();
  auto store = server::OpenSqliteStore(*path);
  if (!store.ok()) return store.status();
  return server::ChangeState(**store, name, base::RandomId(),
                             absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), server::kCancelStudy);
}

int RunCancel(const CancelArgs& args) {
  std::string name;
  Endpoint endpoint;
  {
    const auto reader = StudyReader::Open(args.service);
    if (!reader.ok()) return Fail(reader.status());
    const auto study = (*reader)->StudyNamed(args.study);
    if (!study.ok()) return Fail(study.status());
    name = study->name();
    endpoint = (*reader)->endpoint();
  }
  const auto cancelled = endpoint.target.empty() ? CancelInFile(args.service.database, name)
                                                 : StudyClient(endpoint).CancelStudy(name);
  if (!cancelled.ok()) return Fail(cancelled.status());
  return Answer(fmt::format("study {} {}\n", LastPart(name), StateText(cancelled->state())));
}

}  // namespace

void AddCancel(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("cancel", "cancel a study; its measurements are kept");
  const auto args = std::make_shared<CancelArgs>();
  verb->add_option("study,--study", args->study, "the study's number")->required();
  AddServiceOptions(verb, args->service);
  verb->callback([args, &chosen] { chosen = [args] { return RunCancel(*args); }; });
}

}  // namespace autocfg::cli
