#include "server/store/sqlite/schema.h"

#include <sqlite3.h>

#include "SQLiteCpp/Statement.h"
#include "SQLiteCpp/Transaction.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

// States are the API's numbers of StudyState and TrialState. A `change` column holds the value of the counter
// of that name at the row's last change. Data that is only read as a whole is stored as a serialized message.
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

// An attempt has one or more shares, one per worker. In version 1 an attempt had one worker, which becomes
// its only share. Our own SQL functions read data inside serialized messages.
constexpr const char* kVersion2 = R"sql(
ALTER TABLE jobs ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN fewer_ranks INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET device = job_device(job), fewer_ranks = job_fewer_ranks(job);
CREATE INDEX jobs_by_study ON jobs (study, state, id);

-- `host` is the inventory's hostname, or else the worker's name.
ALTER TABLE workers ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN device_kind TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
UPDATE workers SET host = inventory_host(inventory, worker), device_kind = inventory_device_kind(inventory);

-- One try at a job. `stopping`: it runs, and its shares are told to stop.
CREATE TABLE attempts_2 (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  state INTEGER NOT NULL,
  stopping INTEGER NOT NULL DEFAULT 0,
  start_s REAL NOT NULL,
  end_s REAL,
  message TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job, number)
) STRICT;

-- A worker's part of an attempt: its lease while it runs, its record afterwards. `ending` is a ShareEnd, 0
-- while it runs. Its results are kept here until the attempt's other shares have ended too.
CREATE TABLE shares (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  first_rank INTEGER NOT NULL,
  ranks INTEGER NOT NULL,
  worker TEXT NOT NULL REFERENCES workers (worker),
  epoch INTEGER NOT NULL,
  lease_id TEXT NOT NULL UNIQUE,
  fencing_token INTEGER NOT NULL UNIQUE,
  expires_s REAL NOT NULL,
  ending INTEGER NOT NULL DEFAULT 0,
  end_s REAL,
  message TEXT NOT NULL DEFAULT '',
  device_s REAL NOT NULL DEFAULT 0,
  device_overhead_bytes INTEGER NOT NULL DEFAULT 0,
  measurement BLOB,
  calibration BLOB,
  out_of_memory BLOB,
  PRIMARY KEY (job, attempt, first_rank),
  FOREIGN KEY (job, attempt) REFERENCES attempts (job, number) ON DELETE CASCADE
) STRICT;
CREATE INDEX running_shares ON shares (worker, ranks) WHERE ending = 0;
CREATE INDEX running_shares_by_expiry ON shares (expires_s) WHERE ending = 0;

INSERT INTO attempts_2
  SELECT a.job, a.number, a.state, a.state = 2 AND j.state <> 2, a.start_s, a.end_s, a.message
  FROM attempts a JOIN jobs j ON j.id = a.job;
INSERT INTO shares (job, attempt, first_rank, ranks, worker, epoch, lease_id, fencing_token, expires_s, ending,
                    end_s, message, device_s, out_of_memory)
  SELECT a.job, a.number, 0, j.ranks, a.worker, a.epoch, a.lease_id, a.fencing_token, a.expires_s,
         CASE a.state WHEN 2 THEN 0 WHEN 3 THEN 11 WHEN 4 THEN 1 WHEN 5 THEN 2 WHEN 6 THEN 3 WHEN 7 THEN 8
                      WHEN 8 THEN 6 END,
         a.end_s, a.message,
         CASE WHEN a.end_s IS NULL THEN 0 WHEN m.device_s > 0 THEN m.device_s
              ELSE j.ranks * (a.end_s - a.start_s) END,
         a.out_of_memory
  FROM attempts a JOIN jobs j ON j.id = a.job
  LEFT JOIN measurements m ON m.job = a.job AND m.attempt = a.number;
DROP TABLE attempts;
ALTER TABLE attempts_2 RENAME TO attempts;
CREATE INDEX stopping_attempts ON attempts (job, number) WHERE stopping = 1;
)sql";

// Op times outlive their study: later studies with the same GPUs and build reuse them. A `partial`
// calibration holds the reused times while the rest is being measured.
constexpr const char* kVersion3 = R"sql(
CREATE TABLE op_times (
  device TEXT NOT NULL,
  build_id TEXT NOT NULL,
  ranks INTEGER NOT NULL,
  ranks_per_device INTEGER NOT NULL,
  workers INTEGER NOT NULL,
  op BLOB NOT NULL,
  seconds REAL NOT NULL,
  device_overhead_bytes INTEGER NOT NULL,
  time_budget_s REAL NOT NULL,
  measured_s REAL NOT NULL,
  PRIMARY KEY (device, build_id, ranks, ranks_per_device, workers, op)
) STRICT, WITHOUT ROWID;

ALTER TABLE calibrations ADD COLUMN reused_ops INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calibrations ADD COLUMN partial INTEGER NOT NULL DEFAULT 0;
)sql";

// A lease never lasts beyond `latest_s`, even with renewals (NULL: no limit).
constexpr const char* kVersion4 = R"sql(
ALTER TABLE shares ADD COLUMN latest_s REAL;
)sql";

// A job that can never run again is stored without its message, which is most of its size (DropDoneJobs in
// attempts.cc). The reports of a study are found by their leases when it is deleted.
constexpr const char* kVersion5 = R"sql(
UPDATE jobs SET job = x''
WHERE state NOT IN (1, 2)
    AND (state IN (3, 4) OR study IN (SELECT id FROM studies WHERE state IN (4, 5, 6)))
    AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job = jobs.id AND a.state = 2);

-- A trial of the same study whose hosts the job should not run on; 0: none.
ALTER TABLE jobs ADD COLUMN avoids_trial INTEGER NOT NULL DEFAULT 0;

CREATE INDEX reports_by_lease
  ON requests (CAST(CASE instr(subject, '/') WHEN 0 THEN subject
                         ELSE substr(subject, 1, instr(subject, '/') - 1) END AS TEXT))
  WHERE kind = 'report';
)sql";

// Seconds in which the host issues an op; 0: not measured.
constexpr const char* kVersion6 = R"sql(
ALTER TABLE op_times ADD COLUMN host_s REAL NOT NULL DEFAULT 0;
)sql";

// What trains a job; empty: the built-in engine. The engines that a worker offers beside it, a name a line.
constexpr const char* kVersion7 = R"sql(
ALTER TABLE jobs ADD COLUMN engine TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN engines TEXT NOT NULL DEFAULT '';
)sql";

// The timelines of a study's fastest plans, apart from the trials, which are listed without them. That of a
// share is kept until the attempt's other shares have ended too.
constexpr const char* kVersion8 = R"sql(
CREATE TABLE timelines (
  study INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  timeline BLOB NOT NULL,
  PRIMARY KEY (study, trial),
  FOREIGN KEY (study, trial) REFERENCES trials (study, number) ON DELETE CASCADE
) STRICT;
ALTER TABLE shares ADD COLUMN timeline BLOB;
)sql";

// Tokens of callers, each with a hash of its text.
constexpr const char* kVersion9 = R"sql(
CREATE TABLE tokens (
  name TEXT PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  token BLOB NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

// `seen_s`, `gone_s`: when a pruning first saw that the request was stored, that the worker was gone (NULL:
// not yet). `reduced`: the study has lost the details of its trials.
constexpr const char* kVersion10 = R"sql(
ALTER TABLE requests ADD COLUMN seen_s REAL;
ALTER TABLE workers ADD COLUMN gone_s REAL;
ALTER TABLE studies ADD COLUMN reduced INTEGER NOT NULL DEFAULT 0;
CREATE INDEX shares_by_worker ON shares (worker);
)sql";

// Whose work comes next (server/store/turns/fair_share.h). `use` is of devices, as AddUse returns it; of a
// study for its weight. `queued`: jobs. `bytes`: stored of an ended study; NULL: not counted yet. Triggers
// keep what follows from other tables, so that no writer can forget it.
constexpr const char* kVersion11 = R"sql(
CREATE TABLE turns (
  study INTEGER PRIMARY KEY REFERENCES studies (id) ON DELETE CASCADE,
  owner TEXT NOT NULL,
  weight REAL NOT NULL,
  use REAL NOT NULL DEFAULT -1e9,
  open INTEGER NOT NULL,
  running INTEGER NOT NULL,
  queued INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER
) STRICT;
INSERT INTO turns (study, owner, weight, open, running, queued)
  SELECT s.id, study_owner(s.study), 1, s.state NOT IN (4, 5, 6), s.state = 2,
         (SELECT count(*) FROM jobs j WHERE j.study = s.id AND j.state = 1)
  FROM studies s;
CREATE INDEX ready_turns ON turns (owner, use, study, weight) WHERE running = 1 AND queued > 0;
CREATE INDEX turns_by_owner ON turns (owner, open, bytes);
CREATE TRIGGER study_moves AFTER UPDATE OF state ON studies WHEN old.state <> new.state BEGIN
  UPDATE turns SET open = new.state NOT IN (4, 5, 6), running = new.state = 2 WHERE study = new.id;
END;
CREATE TRIGGER job_queues AFTER INSERT ON jobs WHEN new.state = 1 BEGIN
  UPDATE turns SET queued = queued + 1 WHERE study = new.study;
END;
CREATE TRIGGER job_moves AFTER UPDATE OF state ON jobs WHEN (old.state = 1) <> (new.state = 1) BEGIN
  UPDATE turns SET queued = queued + (new.state = 1) - (old.state = 1) WHERE study = new.study;
END;

-- `started_s`: when it was last given a job.
CREATE TABLE owners (
  owner TEXT PRIMARY KEY,
  use REAL NOT NULL DEFAULT -1e9,
  started_s REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Of a job: its time limit; 0: none.
ALTER TABLE jobs ADD COLUMN limit_s REAL NOT NULL DEFAULT 0;
UPDATE jobs SET limit_s = job_limit(job) WHERE state = 1;

-- Trials whose measurements later studies may reuse. `work`: what was measured (op_times_key.h).
CREATE TABLE results (
  study INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  work TEXT NOT NULL,
  device TEXT NOT NULL,
  build_id TEXT NOT NULL,
  ranks INTEGER NOT NULL,
  ranks_per_device INTEGER NOT NULL,
  workers INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  measured_s REAL NOT NULL,
  PRIMARY KEY (study, trial),
  FOREIGN KEY (study, trial) REFERENCES trials (study, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX results_by_work ON results (work, measured_s);
-- The trial whose measurement this one has (empty: its own), and the median step time of that.
ALTER TABLE trials ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE trials ADD COLUMN source_s REAL;
CREATE INDEX trials_by_source ON trials (study, source) WHERE source <> '';
-- Finds what ran beside an attempt.
DROP INDEX shares_by_worker;
CREATE INDEX shares_by_worker ON shares (worker, end_s);
)sql";

// What the share brought to the attempt's last complete gathering (a RendezvousRequest without its lease),
// while the attempt runs.
constexpr const char* kVersion12 = R"sql(
ALTER TABLE shares ADD COLUMN gathering BLOB;
)sql";

constexpr const char* kMigrations[] = {kVersion1, kVersion2, kVersion3, kVersion4,  kVersion5,  kVersion6,
                                       kVersion7, kVersion8, kVersion9, kVersion10, kVersion11, kVersion12};

// SQL function that reads a field of a serialized message; `get` sets the function's result.
template <typename Message, void (*get)(sqlite3_context*, const Message&, sqlite3_value**)>
void FieldOf(sqlite3_context* context, int, sqlite3_value** values) {
  Message message;
  if (!message.ParseFromArray(sqlite3_value_blob(values[0]), sqlite3_value_bytes(values[0]))) {
    sqlite3_result_error(context, "a stored message cannot be read", -1);
    return;
  }
  get(context, message, values);
}

void SetText(sqlite3_context* context, const std::string& text) {
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

void JobDevice(sqlite3_context* context, const v1::Job& job, sqlite3_value**) {
  SetText(context, job.device());
}
void JobFewerRanks(sqlite3_context* context, const v1::Job& job, sqlite3_value**) {
  sqlite3_result_int(context, job.fewer_ranks() ? 1 : 0);
}
void JobLimit(sqlite3_context* context, const v1::Job& job, sqlite3_value**) {
  sqlite3_result_double(context, job.time_limit_s());
}
void StudyOwner(sqlite3_context* context, const v1::Study& study, sqlite3_value**) {
  SetText(context, study.owner());
}
void InventoryHost(sqlite3_context* context, const v1::Inventory& inventory, sqlite3_value** values) {
  if (inventory.hostname().empty()) {
    sqlite3_result_value(context, values[1]);
  } else {
    SetText(context, inventory.hostname());
  }
}
void InventoryDeviceKind(sqlite3_context* context, const v1::Inventory& inventory, sqlite3_value**) {
  SetText(context, inventory.device_kind());
}

void AddFunctions(SQLite::Database& db) {
  db.createFunction("job_device", 1, true, nullptr, FieldOf<v1::Job, JobDevice>);
  db.createFunction("job_fewer_ranks", 1, true, nullptr, FieldOf<v1::Job, JobFewerRanks>);
  db.createFunction("job_limit", 1, true, nullptr, FieldOf<v1::Job, JobLimit>);
  db.createFunction("study_owner", 1, true, nullptr, FieldOf<v1::Study, StudyOwner>);
  db.createFunction("inventory_host", 2, true, nullptr, FieldOf<v1::Inventory, InventoryHost>);
  db.createFunction("inventory_device_kind", 1, true, nullptr, FieldOf<v1::Inventory, InventoryDeviceKind>);
}

}  // namespace

std::span<const char* const> StoreMigrations() { return kMigrations; }

absl::Status NewerVersion(const std::string& path, std::int64_t version, std::int64_t known) {
  return absl::FailedPreconditionError(
      fmt::format("database {} has version {}, and this program reads versions up to {}; use a newer "
                  "autocfg or another --db",
                  path, version, known));
}

absl::Status Migrate(SQLite::Database& db, std::span<const char* const> migrations, const std::string& path) {
  const std::int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  const auto known = static_cast<std::int64_t>(migrations.size());
  if (version < 0 || version > known) {
    return NewerVersion(path, version, known);
  }
  if (version < known) {
    // Tables are recreated under their old names, which must not delete the rows that refer to them.
    db.exec("PRAGMA foreign_keys = OFF");
    AddFunctions(db);
  }
  for (std::int64_t next = version; next < known; ++next) {
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    db.exec(migrations[static_cast<std::size_t>(next)]);
    if (SQLite::Statement(db, "PRAGMA foreign_key_check").executeStep()) {
      return absl::DataLossError(
          fmt::format("database {} has rows that refer to missing rows, and cannot be migrated to version "
                      "{}; keep a copy, then restore it or choose another --db",
                      path, next + 1));
    }
    db.exec(fmt::format("PRAGMA user_version = {}", next + 1));
    transaction.commit();
  }
  return absl::OkStatus();
}

}  // namespace autocfg::server
