#include "server/store/schema.h"

#include "SQLiteCpp/Transaction.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// States are the numbers of StudyState and TrialState of the API. `change` columns hold the value that the
// counter of that name had at the row's last change. What is only read as a whole is kept as a serialized
// message.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('change', 0), ('fencing_token', 0);

CREATE TABLE studies (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL,
  state INTEGER NOT NULL,
  change INTEGER NOT NULL,
  next_trial INTEGER NOT NULL DEFAULT 1,
  wall_s REAL NOT NULL DEFAULT 0,
  plan_cpu_s REAL NOT NULL DEFAULT 0,
  study BLOB NOT NULL
) STRICT;
CREATE INDEX studies_by_fingerprint ON studies (fingerprint);
CREATE INDEX studies_by_state ON studies (state);

CREATE TABLE trials (
  study INTEGER NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  plan_text TEXT NOT NULL,
  repeat INTEGER NOT NULL,
  state INTEGER NOT NULL,
  message TEXT NOT NULL DEFAULT '',
  change INTEGER NOT NULL,
  trial BLOB NOT NULL,
  PRIMARY KEY (study, number),
  UNIQUE (study, plan_text, repeat)
) STRICT;
CREATE INDEX trials_by_change ON trials (study, change);

-- The queue, in the order of id. Trial 0 is the calibration of its study.
-- `losses` counts the attempts that ended without an answer.
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  study INTEGER NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  trial INTEGER NOT NULL,
  ranks INTEGER NOT NULL,
  state INTEGER NOT NULL,
  message TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,
  losses INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  job BLOB NOT NULL,
  UNIQUE (study, trial)
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, id);

CREATE TABLE workers (
  worker TEXT PRIMARY KEY,
  boot_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  active INTEGER NOT NULL,
  slots INTEGER NOT NULL,
  registered_s REAL NOT NULL,
  inventory BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One try at a job: its lease while it runs, its record afterwards.
CREATE TABLE attempts (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  state INTEGER NOT NULL,
  worker TEXT NOT NULL REFERENCES workers (worker),
  epoch INTEGER NOT NULL,
  lease_id TEXT NOT NULL UNIQUE,
  fencing_token INTEGER NOT NULL UNIQUE,
  expires_s REAL NOT NULL,
  start_s REAL NOT NULL,
  end_s REAL,
  message TEXT NOT NULL DEFAULT '',
  out_of_memory BLOB,
  PRIMARY KEY (job, number)
) STRICT;
CREATE INDEX attempts_by_state ON attempts (state, expires_s);

CREATE TABLE measurements (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  median_step_time_s REAL NOT NULL,
  device_s REAL NOT NULL,
  build_id TEXT NOT NULL,
  device_fingerprint TEXT NOT NULL,
  measurement BLOB NOT NULL,
  PRIMARY KEY (job, attempt),
  FOREIGN KEY (job, attempt) REFERENCES attempts (job, number) ON DELETE CASCADE
) STRICT;

CREATE TABLE calibrations (
  study INTEGER PRIMARY KEY REFERENCES studies (id) ON DELETE CASCADE,
  device_overhead_bytes INTEGER NOT NULL,
  result BLOB NOT NULL
) STRICT;

CREATE TABLE refused_reports (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  received_s REAL NOT NULL,
  worker TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  lease_id TEXT NOT NULL,
  fencing_token INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  outcome INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;

-- What a request with an id did, so that the same request does it once.
CREATE TABLE requests (
  request_id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE trial_logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  text TEXT NOT NULL,
  FOREIGN KEY (job, attempt) REFERENCES attempts (job, number) ON DELETE CASCADE
) STRICT;
CREATE INDEX trial_logs_by_attempt ON trial_logs (job, attempt);
)sql";

constexpr const char* kMigrations[] = {kVersion1};

}  // namespace

std::span<const char* const> StoreMigrations() { return kMigrations; }

absl::Status Migrate(SQLite::Database& db, std::span<const char* const> migrations, const std::string& path) {
  const std::int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  const auto known = static_cast<std::int64_t>(migrations.size());
  if (version < 0 || version > known) {
    return absl::FailedPreconditionError(
        fmt::format("database {} has version {}, and this program reads versions up to {}: use a newer "
                    "autocfg or another --db",
                    path, version, known));
  }
  for (std::int64_t next = version; next < known; ++next) {
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    db.exec(migrations[static_cast<std::size_t>(next)]);
    db.exec(fmt::format("PRAGMA user_version = {}", next + 1));
    transaction.commit();
  }
  return absl::OkStatus();
}

}  // namespace autocfg
