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

// Adds the stored time of an op: seconds, device_overhead_bytes and host_s.
void AddKept(const v1::OpDesc& op, const std::tuple<double, std::int64_t, double>& stored,
             Store::Calibration& kept) {
  const auto& [seconds, device_overhead_bytes, host_s] = stored;
  v1::OpTime& time = *kept.result.add_ops();
  *time.mutable_op() = op;
  time.set_seconds(seconds);
  time.set_host_s(host_s);
  kept.result.set_device_overhead_bytes(std::max(kept.result.device_overhead_bytes(), device_overhead_bytes));
  ++kept.reused_ops;
}

absl::Status TakesNone(const v1::Study& study) {
  return absl::FailedPreconditionError(
      fmt::format("{} has ended ({}) and takes no calibration", study.name(), ShortName(study.state())));
}

}  // namespace

std::optional<Store::Calibration> Store::Impl::ReadCalibration(std::int64_t study, bool partial) {
  auto row = Find<v1::CalibrateResult, std::int64_t, std::int64_t>(
      R"sql(
        SELECT result, device_overhead_bytes, reused_ops
        FROM calibrations
        WHERE study = ? AND partial = ?)sql",
      study, partial);
  if (!row) return std::nullopt;
  auto& [result, device_overhead_bytes, reused_ops] = *row;
  // The column counts: results of the first version lack the field.
  result.set_device_overhead_bytes(device_overhead_bytes);
  return Calibration{std::move(result), reused_ops};
}

void Store::Impl::WriteCalibration(std::int64_t study, const Calibration& calibration, bool partial) {
  Execute(
      R"sql(
        INSERT OR REPLACE INTO calibrations (study, device_overhead_bytes, result, reused_ops, partial)
        VALUES (?, ?, ?, ?, ?))sql",
      study, calibration.result.device_overhead_bytes(), calibration.result, calibration.reused_ops, partial);
}

absl::Status Store::EnqueueCalibration(std::int64_t study, const v1::Job& given, std::int64_t max_attempts,
                                       const Calibration& reused) {
  AUTOCFG_RETURN_IF_ERROR(impl_->CheckJob(given, max_attempts));
  return impl_->Write([&]() -> absl::Status {
    const std::optional<v1::Study> owner = impl_->FindStudy(study);
    if (!owner) return impl_->StudyNotFound(study);
    if (impl_->ReadCalibration(study, /*partial=*/false)) return absl::OkStatus();
    const auto state =
        impl_->Find<v1::TrialState>("SELECT state FROM jobs WHERE study = ? AND trial = 0", study);
    // Measured: the result was dropped. Lost: its workers disappeared. Both are queued again.
    if (state && state != v1::TRIAL_STATE_MEASURED && state != v1::TRIAL_STATE_LOST) return absl::OkStatus();
    if (IsEnd(owner->state())) return TakesNone(*owner);
    v1::Job job = given;
    job.set_name(CalibrationName(study));
    if (reused.result.ops_size() > 0) impl_->WriteCalibration(study, reused, /*partial=*/true);
    impl_->QueueJob(study, 0, job, max_attempts);
    impl_->Touch(study);
    return absl::OkStatus();
  });
}

absl::Status Store::ReuseCalibration(std::int64_t study, const Calibration& reused) {
  return impl_->Write([&]() -> absl::Status {
    const std::optional<v1::Study> owner = impl_->FindStudy(study);
    if (!owner) return impl_->StudyNotFound(study);
    if (impl_->ReadCalibration(study, /*partial=*/false)) return absl::OkStatus();
    if (IsEnd(owner->state())) return TakesNone(*owner);
    impl_->WriteCalibration(study, reused, /*partial=*/false);
    impl_->Touch(study);
    return absl::OkStatus();
  });
}

absl::Status Store::DropCalibration(std::int64_t study) {
  return impl_->Write([&]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(impl_->CheckStudy(study));
    if (impl_->Execute("DELETE FROM calibrations WHERE study = ? AND partial = 0", study) > 0)
      impl_->Touch(study);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::optional<Store::Calibration>> Store::GetCalibration(std::int64_t study) {
  return impl_->Read([&]() -> absl::StatusOr<std::optional<Calibration>> {
    AUTOCFG_RETURN_IF_ERROR(impl_->CheckStudy(study));
    return impl_->ReadCalibration(study, /*partial=*/false);
  });
}

absl::StatusOr<std::pair<v1::TrialState, std::string>> Store::CalibrationState(std::int64_t study) {
  using Answer = std::pair<v1::TrialState, std::string>;
  return impl_->Read([&]() -> absl::StatusOr<Answer> {
    AUTOCFG_RETURN_IF_ERROR(impl_->CheckStudy(study));
    const auto row = impl_->Find<v1::TrialState, std::string>(
        "SELECT state, message FROM jobs WHERE study = ? AND trial = 0", study);
    return row ? std::make_from_tuple<Answer>(*row) : Answer(v1::TRIAL_STATE_UNSPECIFIED, "");
  });
}

bool Store::Impl::CommunicationWasTimedTogether(const OpTimesKey& key, const v1::CalibrateSpec& spec,
                                                double since_s) {
  Query<double> measured_s(db(), R"sql(
    SELECT measured_s
    FROM op_times
    WHERE device = ? AND build_id = ? AND ranks = ? AND ranks_per_device = ? AND workers = ?
        AND time_budget_s >= ? AND measured_s >= ? AND op = ?)sql");
  std::set<double> times;  // one per calibration
  for (const v1::OpDesc& op : spec.ops()) {
    if (!IsCommunication(op)) continue;
    const auto time = measured_s
                          .With(key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers,
                                spec.time_budget_s(), since_s, op)
                          .Next();
    if (!time) return false;
    times.insert(*time);
  }
  return times.size() <= 1;
}

Store::Calibration Store::Impl::ReadOpTimes(const OpTimesKey& key, const v1::CalibrateSpec& spec,
                                            double now_s) {
  Calibration found;
  const double since_s = now_s - key.kept_s;
  const bool communication = CommunicationWasTimedTogether(key, spec, since_s);
  Query<double, std::int64_t, double> times(db(), R"sql(
    SELECT seconds, device_overhead_bytes, host_s
    FROM op_times
    WHERE device = ? AND build_id = ? AND ranks = ? AND ranks_per_device = ? AND workers = ?
        AND time_budget_s >= ? AND measured_s >= ? AND op = ?)sql");
  for (const v1::OpDesc& op : spec.ops()) {
    if (IsCommunication(op) && !communication) continue;
    const auto time = times
                          .With(key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers,
                                spec.time_budget_s(), since_s, op)
                          .Next();
    if (time) AddKept(op, *time, found);
  }
  return found;
}

absl::StatusOr<Store::Calibration> Store::FindOpTimes(const OpTimesKey& key, const v1::CalibrateSpec& spec,
                                                      double now_s) {
  return impl_->Read([&] { return impl_->ReadOpTimes(key, spec, now_s); });
}

void Store::Impl::LeaveOutKeptOps(std::int64_t study, std::int64_t job, const std::string& worker,
                                  std::int64_t ranks, double now_s, v1::Job& given) {
  v1::CalibrateSpec& spec = *given.mutable_calibrate();
  const v1::CalibrateSpec asked = spec;
  // What was left out before is looked up anew: the worker may be another one, or have another build.
  v1::CalibrateSpec all = asked;
  if (const std::optional<Calibration> before = ReadCalibration(study, /*partial=*/true)) {
    for (const v1::OpTime& time : before->result.ops()) *all.add_ops() = time.op();
  }
  const std::vector<MachineShare> places = {
      {One<v1::Inventory>("SELECT inventory FROM workers WHERE worker = ?", worker), ranks}};
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

absl::Status Store::KeepTimedOps(const std::string& lease_id, std::int64_t fencing_token,
                                 const v1::CalibrateResult& timed, double now_s) {
  return impl_->Write([&]() -> absl::Status {
    const auto row = impl_->Find<std::int64_t, std::int64_t, v1::Job, int>(
        R"sql(
          SELECT s.job, s.attempt, j.job,
              (SELECT COUNT(*) FROM shares t WHERE t.job = s.job AND t.attempt = s.attempt)
          FROM shares s
          JOIN jobs j ON j.id = s.job
          WHERE s.lease_id = ? AND s.fencing_token = ? AND s.ending = 0)sql",
        lease_id, fencing_token);
    if (!row) return absl::FailedPreconditionError(fmt::format("lease {} is not held any more", lease_id));
    const auto& [job, attempt, asked, shares] = *row;
    AUTOCFG_RETURN_IF_ERROR(CheckAskedFor(asked, timed));
    if (shares != 1) return absl::OkStatus();
    Calibration kept;
    kept.result.set_device_overhead_bytes(timed.device_overhead_bytes());
    for (const v1::OpTime& time : timed.ops()) {
      if (!IsCommunication(time.op())) *kept.result.add_ops() = time;
    }
    impl_->KeepOpTimes(job, attempt, kept, now_s);
    return absl::OkStatus();
  });
}

absl::StatusOr<Store::Calibration> Store::AllOpTimes(const OpTimesKey& key, double now_s) {
  return impl_->Read([&] {
    Calibration found;
    auto rows = impl_->Rows<v1::OpDesc, double, std::int64_t, double>(
        R"sql(
          SELECT op, seconds, device_overhead_bytes, host_s
          FROM op_times
          WHERE device = ? AND build_id = ? AND ranks = ? AND ranks_per_device = ? AND workers = ?
              AND measured_s >= ?
          ORDER BY op)sql",
        key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers, now_s - key.kept_s);
    for (const auto& [op, seconds, device_overhead_bytes, host_s] : rows)
      AddKept(op, {seconds, device_overhead_bytes, host_s}, found);
    return found;
  });
}

void Store::Impl::KeepCalibration(std::int64_t study, std::int64_t job, std::int64_t attempt,
                                  const std::vector<EndedShare>& shares, double now_s) {
  std::vector<ShareCalibration> parts;
  parts.reserve(shares.size());
  Calibration calibration;
  for (const EndedShare& share : shares) parts.push_back({*share.calibration, share.ranks});
  calibration.result = MergeCalibrations(parts);
  KeepOpTimes(job, attempt, calibration, now_s);
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

bool Store::Impl::SharedItsWorkers(std::int64_t job, std::int64_t attempt) {
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
    if (Find<int>(sql, job, attempt)) return true;
  }
  return false;
}

std::optional<OpTimesKey> Store::Impl::KeyOf(std::int64_t job, std::int64_t attempt, const v1::Job& asked) {
  if (SharedItsWorkers(job, attempt)) return std::nullopt;
  std::vector<MachineShare> places;
  auto rows = Rows<v1::Inventory, std::int64_t>(
      R"sql(
        SELECT w.inventory, s.ranks
        FROM shares s
        JOIN workers w ON w.worker = s.worker
        WHERE s.job = ? AND s.attempt = ?
        ORDER BY s.first_rank)sql",
      job, attempt);
  for (auto& row : rows) places.push_back(Make<MachineShare>(std::move(row)));
  return OpTimesKeyOf(places, asked.fewer_ranks());
}

void Store::Impl::KeepOpTimes(std::int64_t job, std::int64_t attempt, const Calibration& measured,
                              double now_s) {
  const v1::Job asked = JobOf(job);
  const std::optional<OpTimesKey> key = KeyOf(job, attempt, asked);
  if (!key) return;
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
