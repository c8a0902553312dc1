// autocfg db: looks after the database file itself. `db backup` copies it and `db check` checks it, also
// while a server or a search uses it. `db prune` deletes what is old.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/input/files.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "proto/rpc/duration.h"
#include "server/store/sqlite/backup.h"
#include "server/store/sqlite/check.h"
#include "server/store/sqlite/sqlite_store.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLongestAgeSeconds = 100 * kYearSeconds;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

struct BackupArgs {
  std::string database;
  std::string output;
  bool force = false;
  bool json = false;
};

int RunBackup(const BackupArgs& args) {
  if (args.output.empty()) return Fail(kExitUsage, "--output is missing; name the file to write");
  if (auto status = CheckRegularName(args.output); !status.ok()) return Fail(Where("--output", status));
  const auto path = ExistingDatabase(args.database);
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

struct CheckArgs {
  std::string database;
  bool json = false;
};

int RunCheck(const CheckArgs& args) {
  const auto path = ExistingDatabase(args.database);
  if (!path.ok()) return Fail(path.status());
  const Interrupt interrupt;
  const auto check = server::CheckSqlite(*path, [&interrupt] { return interrupt.requested(); });
  if (absl::IsCancelled(check.status()))
    return Fail(kExitInterrupted, "interrupted; the check has no result");
  if (!check.ok()) return Fail(check.status());
  const bool intact = check->problems.empty();
  std::string answer;
  if (args.json) {
    answer =
        Json{{"database", check->database}, {"intact", intact},       {"problems", check->problems},
             {"version", check->version},   {"bytes", check->bytes},  {"unused_bytes", check->unused_bytes},
             {"studies", check->studies},   {"trials", check->trials}}
            .dump(2) +
        "\n";
  } else if (intact) {
    answer = fmt::format("{}: intact: {} stud{}, {} trial{}, {}, of which {} are unused; version {}\n",
                         check->database, base::CountText(check->studies), check->studies == 1 ? "y" : "ies",
                         base::CountText(check->trials), check->trials == 1 ? "" : "s",
                         base::BytesText(check->bytes), base::BytesText(check->unused_bytes), check->version);
  } else {
    answer = fmt::format("{}: damaged\n", check->database);
    for (const std::string& problem : check->problems) answer += fmt::format("  {}\n", problem);
  }
  if (const int code = Answer(answer); code != kExitDone || intact) return code;
  return Fail(kExitNegative,
              fmt::format("database {} is damaged; keep a copy, then restore a backup", check->database));
}

void AddCheck(CLI::App& db, Verb& chosen) {
  CLI::App* verb = db.add_subcommand(
      "check",
      "read the whole database and say whether it is intact, also while a server or a search uses it");
  const auto args = std::make_shared<CheckArgs>();
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunCheck(*args); }; });
}

struct PruneArgs {
  std::string database;
  std::string older_than;
  std::string keep_studies;
  std::string max_bytes;
  bool dry_run = false;
  bool json = false;
};

absl::StatusOr<server::RetentionLimits> LimitsOf(const PruneArgs& args) {
  server::RetentionLimits limits;
  if (!args.older_than.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(limits.studies_s,
                             ParseDuration("--older-than", args.older_than, 1, kLongestAgeSeconds));
  }
  if (!args.keep_studies.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(limits.studies, ParseWhole("--keep-studies", args.keep_studies));
  }
  if (!args.max_bytes.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(limits.bytes, ParseWholeWithUnit("--max-bytes", base::Quantity::kBytes,
                                                              args.max_bytes, 1, kMostBytes));
  }
  return limits;
}

int RunPrune(const PruneArgs& args) {
  const auto limits = LimitsOf(args);
  if (!limits.ok()) return Fail(limits.status());
  const auto path = ExistingDatabase(args.database);
  if (!path.ok()) return Fail(path.status());
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error of the write
  auto store = server::OpenSqliteStore(*path);
  if (!store.ok()) return Fail(store.status());
  const auto pruned =
      (*store)->Prune(*limits, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), args.dry_run);
  if (!pruned.ok()) return Fail(pruned.status());
  if (!args.dry_run) {
    if (const auto given = (*store)->GiveBackSpace(/*all=*/true); !given.ok()) return Fail(given.status());
  }
  store->reset();
  if (args.json) {
    return Answer(Json{{"database", *path},
                       {"dry_run", args.dry_run},
                       {"reduced", pruned->reduced},
                       {"deleted", pruned->deleted},
                       {"request_ids", pruned->requests},
                       {"op_times", pruned->op_times},
                       {"workers", pruned->workers},
                       {"bytes_before", pruned->bytes_before},
                       {"bytes_after", pruned->bytes_after}}
                      .dump(2) +
                  "\n");
  }
  const auto numbers = [](const std::vector<std::int64_t>& studies) {
    return studies.empty() ? "none" : fmt::format("{}", fmt::join(studies, ", "));
  };
  return Answer(fmt::format(
      "{}{}\n  studies that lose the details of their trials: {}\n  studies that are deleted: {}\n"
      "  {} request IDs, {} op times, {} workers\n  {} in use before, {} after\n",
      *path, args.dry_run ? ": would be pruned; nothing was changed" : ": pruned", numbers(pruned->reduced),
      numbers(pruned->deleted), base::CountText(pruned->requests), base::CountText(pruned->op_times),
      base::CountText(pruned->workers), base::BytesText(pruned->bytes_before),
      base::BytesText(pruned->bytes_after)));
}

void AddPrune(CLI::App& db, Verb& chosen) {
  CLI::App* verb = db.add_subcommand(
      "prune", "delete what is old from a database that nobody uses: details of ended studies first");
  const auto args = std::make_shared<PruneArgs>();
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_option("--older-than", args->older_than,
                   "studies that ended longer ago, such as 90d: their logs and request IDs go, and studies "
                   "without a result");
  verb->add_option("--keep-studies", args->keep_studies, "the same, of all but so many that ended last");
  verb->add_option("--max-bytes", args->max_bytes,
                   "while the database has more in use, such as 1GB: the same, the oldest first; then whole "
                   "studies");
  verb->add_flag("--dry-run", args->dry_run, "only say what would go");
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunPrune(*args); }; });
}

}  // namespace

void AddDb(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("db", "look after the database file: check, back up, move studies, prune");
  verb->require_subcommand(0, 1);
  AddCheck(*verb, chosen);
  AddBackup(*verb, chosen);
  AddDbStudies(*verb, chosen);
  AddPrune(*verb, chosen);
}

}  // namespace autocfg::cli
