// Calibrations: one per study, and the op times kept for later studies.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "proto/merge_results.h"
#include "proto/short_name.h"
#include "search/ops/op_desc.h"
#include "server/names/names.h"
#include "server/store/attempt_verdict.h"
#include "server/store/op_times_key.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr double kOpTimesKeptSeconds = 365.0 * 24 * 3600;  // of any key

bool IsCommunication(const v1::OpDesc& op) {
  const auto kind = ParseOpKind(op.kind());
  return kind && autocfg::IsCommunication(*kind);
}

absl::Status TakesNone(const v1::Study& study) {
  return absl::FailedPreconditionError(
      fmt::format("{} has ended ({}) and takes no calibration", study.name(), ShortName(study.state())));
}

}  // namespace

std::optional<Store::Calibration> SqliteStore::ReadCalibration(std::int64_t study, bool partial) {
  SQLite::Statement row = Query(
      "SELECT device_overhead_bytes, result, reused_ops FROM calibrations WHERE study = ? AND partial = ?",
      study, partial ? 1 : 0);
  if (!row.executeStep()) return std::nullopt;
  Calibration calibration;
  Parse(row.getColumn(1), calibration.result);
  // The column counts: results of the first version lack the field.
  calibration.result.set_device_overhead_bytes(row.getColumn(0).getInt64());
  calibration.reused_ops = row.getColumn(2).getInt64();
  return calibration;
}

void SqliteStore::WriteCalibration(std::int64_t study, const Calibration& calibration, bool partial) {
  Execute(
      R"sql(
        INSERT OR REPLACE INTO calibrations (study, device_overhead_bytes, result, reused_ops, partial)
        VALUES (?, ?, ?, ?, ?))sql",
      study, calibration.result.device_overhead_bytes(), calibration.result, calibration.reused_ops,
      partial ? 1 : 0);
}

absl::Status SqliteStore::EnqueueCalibration(std::int64_t study, const v1::Job& given,
                                             std::int64_t max_attempts, const Calibration& reused) {
  AUTOCFG_RETURN_IF_ERROR(CheckJob(given, max_attempts));
  return Write([&]() -> absl::Status {
    const std::optional<v1::Study> owner = FindStudy(study);
    if (!owner) return StudyNotFound(study);
    if (ReadCalibration(study, /*partial=*/false)) return absl::OkStatus();
    SQLite::Statement known = Query("SELECT id, state FROM jobs WHERE study = ? AND trial = 0", study);
    const bool again = known.executeStep();
    const int state = again ? known.getColumn(1).getInt() : 0;
    if (again && state != v1::TRIAL_STATE_MEASURED && state != v1::TRIAL_STATE_LOST) return absl::OkStatus();
    if (IsEnd(owner->state())) return TakesNone(*owner);
    v1::Job job = given;
    job.set_name(CalibrationName(study));
    if (reused.result.ops_size() > 0) WriteCalibration(study, reused, /*partial=*/true);
    if (!again) {
      QueueJob(study, 0, job, max_attempts);
      TouchStudy(study);
      return absl::OkStatus();
    }
    // The result was dropped, or its workers disappeared.
    const std::int64_t id = known.getColumn(0).getInt64();
    known.reset();
    Execute(
        R"sql(
          UPDATE jobs
          SET ranks = ?, max_attempts = ?, losses = 0, job = ?, device = ?, fewer_ranks = ?, limit_s = ?
          WHERE id = ?)sql",
        job.ranks(), max_attempts, job, job.device(), job.fewer_ranks() ? 1 : 0, job.time_limit_s(), id);
    SetJobState(id, study, 0, v1::TRIAL_STATE_QUEUED, "");
    return absl::OkStatus();
  });
}

absl::Status SqliteStore::ReuseCalibration(std::int64_t study, const Calibration& reused) {
  return Write([&]() -> absl::Status {
    const std::optional<v1::Study> owner = FindStudy(study);
    if (!owner) return StudyNotFound(study);
    if (ReadCalibration(study, /*partial=*/false)) return absl::OkStatus();
    if (IsEnd(owner->state())) return TakesNone(*owner);
    WriteCalibration(study, reused, /*partial=*/false);
    TouchStudy(study);
    return absl::OkStatus();
  });
}

absl::Status SqliteStore::DropCalibration(std::int64_t study) {
  return Write([&]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(CheckStudy(study));
    if (Execute("DELETE FROM calibrations WHERE study = ? AND partial = 0", study) > 0) TouchStudy(study);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::optional<Store::Calibration>> SqliteStore::GetCalibration(std::int64_t study) {
  return Read([&]() -> absl::StatusOr<std::optional<Calibration>> {
    AUTOCFG_RETURN_IF_ERROR(CheckStudy(study));
    return ReadCalibration(study, /*partial=*/false);
  });
}

absl::StatusOr<std::pair<v1::TrialState, std::string>> SqliteStore::CalibrationState(std::int64_t study) {
  using Answer = std::pair<v1::TrialState, std::string>;
  return Read([&]() -> absl::StatusOr<Answer> {
    AUTOCFG_RETURN_IF_ERROR(CheckStudy(study));
    SQLite::Statement row = Query("SELECT state, message FROM jobs WHERE study = ? AND trial = 0", study);
    if (!row.executeStep()) return Answer(v1::TRIAL_STATE_UNSPECIFIED, "");
    return Answer(static_cast<v1::TrialState>(row.getColumn(0).getInt()), row.getColumn(1).getString());
  });
}

bool SqliteStore::CommunicationWasTimedTogether(const OpTimesKey& key, const v1::CalibrateSpec& spec,
                                                double since_s) {
  SQLite::Statement row = Query(
      R"sql(
        SELECT measured_s
        FROM op_times
        WHERE device = ? AND build_id = ? AND ranks = ? AND ranks_per_device = ? AND workers = ?
            AND time_budget_s >= ? AND measured_s >= ? AND op = ?)sql",
      key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers, spec.time_budget_s(), since_s);
  std::set<double> times;  // one per calibration
  for (const v1::OpDesc& op : spec.ops()) {
    if (!IsCommunication(op)) continue;
    row.reset();
    Bind(row, 8, op);
    if (!row.executeStep()) return false;
    times.insert(row.getColumn(0).getDouble());
  }
  return times.size() <= 1;
}

Store::Calibration SqliteStore::ReadOpTimes(const OpTimesKey& key, const v1::CalibrateSpec& spec,
                                            double now_s) {
  Calibration found;
  const double since_s = now_s - key.kept_s;
  const bool communication = CommunicationWasTimedTogether(key, spec, since_s);
  SQLite::Statement row = Query(
      R"sql(
        SELECT seconds, device_overhead_bytes, host_s
        FROM op_times
        WHERE device = ? AND build_id = ? AND ranks = ? AND ranks_per_device = ? AND workers = ?
            AND time_budget_s >= ? AND measured_s >= ? AND op = ?)sql",
      key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers, spec.time_budget_s(), since_s);
  for (const v1::OpDesc& op : spec.ops()) {
    if (IsCommunication(op) && !communication) continue;
    row.reset();
    Bind(row, 8, op);
    if (!row.executeStep()) continue;
    v1::OpTime& time = *found.result.add_ops();
    *time.mutable_op() = op;
    time.set_seconds(row.getColumn(0).getDouble());
    time.set_host_s(row.getColumn(2).getDouble());
    found.result.set_device_overhead_bytes(
        std::max<std::int64_t>(found.result.device_overhead_bytes(), row.getColumn(1).getInt64()));
    ++found.reused_ops;
  }
  return found;
}

absl::StatusOr<Store::Calibration> SqliteStore::FindOpTimes(const OpTimesKey& key,
                                                            const v1::CalibrateSpec& spec, double now_s) {
  return Read([&]() -> absl::StatusOr<Calibration> { return ReadOpTimes(key, spec, now_s); });
}

v1::Inventory SqliteStore::InventoryOf(const std::string& worker) {
  v1::Inventory inventory;
  SQLite::Statement row = Query("SELECT inventory FROM workers WHERE worker = ?", worker);
  row.executeStep();
  Parse(row.getColumn(0), inventory);
  return inventory;
}

void SqliteStore::LeaveOutKeptOps(std::int64_t study, std::int64_t job, const std::string& worker,
                                  std::int64_t ranks, double now_s, v1::Job& given) {
  v1::CalibrateSpec& spec = *given.mutable_calibrate();
  const v1::CalibrateSpec asked = spec;
  // What was left out before is looked up anew: the worker may be another one, or have another build.
  v1::CalibrateSpec all = asked;
  if (const std::optional<Calibration> before = ReadCalibration(study, /*partial=*/true)) {
    for (const v1::OpTime& time : before->result.ops()) *all.add_ops() = time.op();
  }
  const std::vector<MachineShare> places = {{InventoryOf(worker), ranks}};
  const std::optional<OpTimesKey> key = OpTimesKeyOf(places, given.fewer_ranks());
  Calibration kept = key ? ReadOpTimes(*key, all, now_s) : Calibration();
  if (kept.result.ops_size() > 0 && kept.result.ops_size() == all.ops_size()) {
    kept.result.mutable_ops()->RemoveLast();
    --kept.reused_ops;
  }
  std::set<std::string> known;
  for (const v1::OpTime& time : kept.result.ops()) known.insert(time.op().SerializeAsString());
  spec.clear_ops();
  for (const v1::OpDesc& op : all.ops()) {
    if (!known.contains(op.SerializeAsString())) *spec.add_ops() = op;
  }
  Execute("DELETE FROM calibrations WHERE study = ? AND partial = 1", study);
  if (kept.result.ops_size() > 0) WriteCalibration(study, kept, /*partial=*/true);
  Execute("UPDATE jobs SET job = ? WHERE id = ?", given, job);
}

absl::Status SqliteStore::KeepTimedOps(const std::string& lease_id, std::int64_t fencing_token,
                                       const v1::CalibrateResult& timed, double now_s) {
  return Write([&]() -> absl::Status {
    EndedShare share;
    std::int64_t job = 0, attempt = 0, shares = 0;
    v1::Job asked;
    {
      SQLite::Statement row = Query(
          R"sql(
            SELECT s.job, s.attempt, s.worker, s.ranks, j.job,
                (SELECT COUNT(*) FROM shares t WHERE t.job = s.job AND t.attempt = s.attempt)
            FROM shares s
            JOIN jobs j ON j.id = s.job
            WHERE s.lease_id = ? AND s.fencing_token = ? AND s.ending = 0)sql",
          lease_id, fencing_token);
      if (!row.executeStep())
        return absl::FailedPreconditionError(fmt::format("lease {} is not held any more", lease_id));
      job = row.getColumn(0).getInt64();
      attempt = row.getColumn(1).getInt64();
      share.worker = row.getColumn(2).getString();
      share.ranks = row.getColumn(3).getInt();
      Parse(row.getColumn(4), asked);
      shares = row.getColumn(5).getInt64();
    }
    AUTOCFG_RETURN_IF_ERROR(CheckAskedFor(asked, timed));
    if (shares != 1) return absl::OkStatus();
    Calibration kept;
    kept.result.set_device_overhead_bytes(timed.device_overhead_bytes());
    for (const v1::OpTime& time : timed.ops()) {
      if (!IsCommunication(time.op())) *kept.result.add_ops() = time;
    }
    KeepOpTimes(job, attempt, {share}, kept, now_s);
    return absl::OkStatus();
  });
}

absl::StatusOr<Store::Calibration> SqliteStore::AllOpTimes(const OpTimesKey& key, double now_s) {
  return Read([&]() -> absl::StatusOr<Calibration> {
    Calibration found;
    SQLite::Statement row = Query(
        R"sql(
          SELECT op, seconds, device_overhead_bytes, host_s
          FROM op_times
          WHERE device = ? AND build_id = ? AND ranks = ? AND ranks_per_device = ? AND workers = ?
              AND measured_s >= ?
          ORDER BY op)sql",
        key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers, now_s - key.kept_s);
    while (row.executeStep()) {
      v1::OpTime& time = *found.result.add_ops();
      Parse(row.getColumn(0), *time.mutable_op());
      time.set_seconds(row.getColumn(1).getDouble());
      time.set_host_s(row.getColumn(3).getDouble());
      found.result.set_device_overhead_bytes(
          std::max<std::int64_t>(found.result.device_overhead_bytes(), row.getColumn(2).getInt64()));
      ++found.reused_ops;
    }
    return found;
  });
}

void SqliteStore::KeepCalibration(std::int64_t study, std::int64_t job, std::int64_t attempt,
                                  const std::vector<EndedShare>& shares, double now_s) {
  std::vector<ShareCalibration> parts;
  parts.reserve(shares.size());
  Calibration calibration;
  for (const EndedShare& share : shares) parts.push_back({*share.calibration, share.ranks});
  calibration.result = MergeCalibrations(parts);
  KeepOpTimes(job, attempt, shares, calibration, now_s);
  if (const std::optional<Calibration> reused = ReadCalibration(study, /*partial=*/true)) {
    std::set<std::string> measured;
    for (const v1::OpTime& time : calibration.result.ops()) measured.insert(time.op().SerializeAsString());
    for (const v1::OpTime& time : reused->result.ops()) {
      if (measured.contains(time.op().SerializeAsString())) continue;
      *calibration.result.add_ops() = time;
      ++calibration.reused_ops;
    }
    calibration.result.set_device_overhead_bytes(
        std::max(calibration.result.device_overhead_bytes(), reused->result.device_overhead_bytes()));
  }
  WriteCalibration(study, calibration, /*partial=*/false);
}

bool SqliteStore::SharedItsWorkers(std::int64_t job, std::int64_t attempt) {
  // Two conditions, each with its index: a worker has many shares that ended before.
  for (const char* beside : {"INDEXED BY running_shares WHERE o.ending = 0",
                             "INDEXED BY shares_by_worker WHERE o.end_s > a.start_s"}) {
    const std::string sql = fmt::format(
        R"sql(
          SELECT 1
          FROM shares m
          CROSS JOIN attempts a ON a.job = m.job AND a.number = m.attempt
          CROSS JOIN shares o {} AND o.worker = m.worker AND (o.job <> ?1 OR o.attempt <> ?2)
              AND m.job = ?1 AND m.attempt = ?2
          LIMIT 1)sql",
        beside);
    if (Query(sql.c_str(), job, attempt).executeStep()) return true;
  }
  return false;
}

void SqliteStore::KeepOpTimes(std::int64_t job, std::int64_t attempt, const std::vector<EndedShare>& shares,
                              const Calibration& measured, double now_s) {
  v1::Job asked;
  {
    SQLite::Statement row = Query("SELECT job FROM jobs WHERE id = ?", job);
    row.executeStep();
    Parse(row.getColumn(0), asked);
  }
  std::vector<MachineShare> places;
  places.reserve(shares.size());
  for (const EndedShare& share : shares) places.push_back({InventoryOf(share.worker), share.ranks});
  const std::optional<OpTimesKey> key = OpTimesKeyOf(places, asked.fewer_ranks());
  if (!key || SharedItsWorkers(job, attempt)) return;
  // Expired times go first: otherwise one with a longer time budget would not be replaced.
  Execute("DELETE FROM op_times WHERE measured_s < ? OR (device = ? AND measured_s < ?)",
          now_s - kOpTimesKeptSeconds, key->device, now_s - key->kept_s);
  for (const v1::OpTime& time : measured.result.ops()) {
    Execute(
        R"sql(
          INSERT INTO op_times
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT DO UPDATE SET seconds = excluded.seconds, host_s = excluded.host_s,
              device_overhead_bytes = excluded.device_overhead_bytes,
              time_budget_s = excluded.time_budget_s, measured_s = excluded.measured_s
          WHERE excluded.time_budget_s >= op_times.time_budget_s)sql",
        key->device, key->build_id, key->ranks, key->ranks_per_device, key->workers, time.op(),
        time.seconds(), measured.result.device_overhead_bytes(), asked.calibrate().time_budget_s(), now_s,
        time.host_s());
  }
}

}  // namespace autocfg::server
