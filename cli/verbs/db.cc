// autocfg db: looks after the database file itself. `db backup` copies it, also while a server or a search
// uses it.
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/input/service_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "server/store/sqlite/backup.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BackupArgs {
  std::string database;
  std::string output;
  bool force = false;
  bool json = false;
};

int RunBackup(const BackupArgs& args) {
  if (args.output.empty()) return Fail(kExitUsage, "--output is missing; name the file to write");
  const auto path = server::DatabasePath(args.database);
  if (!path.ok()) return Fail(path.status());
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error of the write
  const Interrupt interrupt;
  const auto began = std::chrono::steady_clock::now();
  const auto backup = server::BackUpSqlite(
      *path, args.output, {.replace = args.force, .stop = [&interrupt] { return interrupt.requested(); }});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (absl::IsCancelled(backup.status())) return Fail(kExitInterrupted, "interrupted; nothing was written");
  if (!backup.ok()) return Fail(backup.status());
  if (args.json) {
    return Answer(Json{{"database", backup->database},
                       {"output", args.output},
                       {"bytes", backup->bytes},
                       {"studies", backup->studies},
                       {"version", backup->version},
                       {"wall_s", took.count()}}
                      .dump(2) +
                  "\n");
  }
  return Answer(fmt::format("{}: {} stud{}, {}, checked, in {}\n", args.output,
                            base::CountText(backup->studies), backup->studies == 1 ? "y" : "ies",
                            base::BytesText(backup->bytes), base::SecondsText(took.count())));
}

void AddBackup(CLI::App& db, Verb& chosen) {
  CLI::App* verb = db.add_subcommand(
      "backup", "copy the database, also while a server or a search uses it, and check the copy");
  const auto args = std::make_shared<BackupArgs>();
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_option("--output", args->output, "the file to write");
  verb->add_flag("--force", args->force, "replace an existing file");
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunBackup(*args); }; });
}

}  // namespace

void AddDb(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("db", "look after the database file: back it up");
  verb->require_subcommand(0, 1);
  AddBackup(*verb, chosen);
}

}  // namespace autocfg::cli
