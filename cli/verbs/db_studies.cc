// autocfg db export, autocfg db import: a study as a file that another database takes.
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/portable/study_file.h"
#include "server/store/sqlite/sqlite_store.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExportStudyArgs {
  std::string database;
  std::string study;
  std::string output;
  bool force = false;
  bool json = false;
};

// Returns the reason for which a study is not exported: `status`, or that its search was interrupted.
absl::Status WhyNotExported(server::Store& store, std::int64_t id, const std::string& database,
                            const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return status;
  const auto socket = SocketPath(database);
  if (!socket.ok() || IsListening(*socket)) return status;
  const auto study = store.GetStudy(id);
  return study.ok() && study->state() == v1::STUDY_STATE_RUNNING ? InterruptedError(*study) : status;
}

int RunExportStudy(const ExportStudyArgs& args) {
  if (args.output.empty()) return Fail(kExitUsage, "--output is missing; name the file to write");
  if (auto status = CheckRegularName(args.output); !status.ok()) return Fail(Where("--output", status));
  const auto id = ParseWhole("--study", args.study);
  if (!id.ok()) return Fail(id.status());
  const auto path = ExistingDatabase(args.database);
  if (!path.ok()) return Fail(path.status());
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error of the write
  const auto store = server::OpenSqliteStoreReadOnly(*path);
  if (!store.ok()) return Fail(store.status());
  const auto copy = server::ReadStudyCopy(**store, *id);
  if (!copy.ok()) return Fail(WhyNotExported(**store, *id, *path, copy.status()));
  const auto written = server::WriteStudyFile(args.output, *copy, *path, args.force);
  if (!written.ok()) return Fail(written.status());
  if (args.json) {
    return Answer(Json{{"database", *path},
                       {"study", *id},
                       {"output", args.output},
                       {"trials", written->trials},
                       {"bytes", written->bytes}}
                      .dump(2) +
                  "\n");
  }
  return Answer(fmt::format("{}: study {}, {} trial{}, {}\n", args.output, *id,
                            base::CountText(written->trials), written->trials == 1 ? "" : "s",
                            base::BytesText(static_cast<std::int64_t>(written->bytes))));
}

void AddExportStudy(CLI::App& db, Verb& chosen) {
  CLI::App* verb = db.add_subcommand(
      "export",
      "write an ended study with its trials to a file, also while a server or a search uses the "
      "database");
  const auto args = std::make_shared<ExportStudyArgs>();
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_option("--study", args->study, "the study's number")->required();
  verb->add_option("--output", args->output, "the file to write");
  verb->add_flag("--force", args->force, "replace an existing file");
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunExportStudy(*args); }; });
}

struct ImportStudyArgs {
  std::string database;
  std::string file;
  bool json = false;
};

int RunImportStudy(const ImportStudyArgs& args) {
  if (auto status = CheckDatabaseOption(args.database); !status.ok()) return Fail(status);
  const auto copy = server::ReadStudyFile(args.file);
  if (!copy.ok()) return Fail(copy.status());
  const auto path = server::DatabasePath(args.database);
  if (!path.ok()) return Fail(path.status());
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error of the write
  auto store = server::OpenSqliteStore(*path);
  if (!store.ok()) return Fail(store.status());
  const auto study = (*store)->ImportStudy(*copy);
  if (!study.ok()) return Fail(Where(args.file, study.status()));
  store->reset();
  const auto number = server::ParseStudyName(study->name());
  if (!number.ok()) return Fail(number.status());
  if (args.json) {
    return Answer(
        Json{{"database", *path}, {"file", args.file}, {"study", *number}, {"trials", copy->trials.size()}}
            .dump(2) +
        "\n");
  }
  return Answer(fmt::format("study {}: {}, {} trials\n", *number, StateText(study->state()),
                            base::CountText(static_cast<std::int64_t>(copy->trials.size()))));
}

void AddImportStudy(CLI::App& db, Verb& chosen) {
  CLI::App* verb = db.add_subcommand(
      "import", "add a study that db export wrote, under a new number, to a database that nobody uses");
  const auto args = std::make_shared<ImportStudyArgs>();
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_option("FILE", args->file, "the file")->required();
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunImportStudy(*args); }; });
}

}  // namespace

void AddDbStudies(CLI::App& db, Verb& chosen) {
  AddExportStudy(db, chosen);
  AddImportStudy(db, chosen);
}

}  // namespace autocfg::cli
