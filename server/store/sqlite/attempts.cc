// Settles attempts after shares end: tells the other shares to stop, or ends the attempt and possibly its
// job.
#include <set>
#include <utility>

#include "fmt/format.h"
#include "proto/merge_results.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store_impl.h"
#include "server/store/turns/fair_share.h"

namespace autocfg::server {

std::vector<EndedLease> Store::Impl::SettleEnded(const std::vector<EndedRow>& ended, double now_s) {
  std::set<std::pair<std::int64_t, std::int64_t>> attempts;
  for (const auto& [job, attempt, worker, epoch] : ended) attempts.emplace(job, attempt);
  for (const auto& [job, attempt] : attempts) SettleAttempt(job, attempt, now_s);
  std::vector<EndedLease> leases;
  for (const auto& [job, attempt, worker, epoch] : ended) {
    const auto [study, trial, state] = One<std::int64_t, std::int64_t, v1::TrialState>(
        "SELECT study, trial, state FROM jobs WHERE id = ?", job);
    leases.push_back({.session = {worker, epoch}, .job = JobName(study, trial), .state = state});
  }
  return leases;
}

std::vector<Store::Impl::EndedShare> Store::Impl::ReadShares(std::int64_t job, std::int64_t attempt,
                                                             const v1::ReportTrialRequest* last) {
  std::vector<EndedShare> shares;
  auto rows = Rows<std::string, ShareEnd, std::string, std::string, int, std::optional<v1::Measurement>,
                   std::optional<v1::CalibrateResult>, std::optional<v1::StepTimeline>>(
      R"sql(
        SELECT lease_id, ending, worker, message, ranks, measurement, calibration, timeline
        FROM shares
        WHERE job = ? AND attempt = ?
        ORDER BY first_rank)sql",
      job, attempt);
  for (auto& [lease, end, worker, message, ranks, measurement, calibration, timeline] : rows) {
    EndedShare& share =
        shares.emplace_back(EndedShare{end, std::move(worker), std::move(message), ranks,
                                       std::move(measurement), std::move(calibration), std::move(timeline)});
    if (last == nullptr || lease != last->lease_id()) continue;
    if (last->has_measurement()) share.measurement = last->measurement();
    if (last->has_calibration()) share.calibration = last->calibration();
    if (last->has_timeline()) share.timeline = last->timeline();
  }
  return shares;
}

void Store::Impl::SettleAttempt(std::int64_t job, std::int64_t attempt, double now_s,
                                const v1::ReportTrialRequest* last) {
  bool runs = false;
  bool broken = false;
  for (const ShareEnd end :
       Rows<ShareEnd>("SELECT ending FROM shares WHERE job = ? AND attempt = ?", job, attempt)) {
    runs = runs || end == ShareEnd::kRuns;
    broken = broken || Breaks(end);
  }
  if (!runs) {
    EndAttempt(job, attempt, now_s, last);
  } else if (broken &&
             Execute("UPDATE attempts SET stopping = 1 WHERE job = ? AND number = ? AND stopping = 0", job,
                     attempt) > 0) {
    change_.work = true;  // so that parked renewals of the other shares' leases are rechecked
  }
}

void Store::Impl::EndAttempt(std::int64_t job, std::int64_t attempt, double now_s,
                             const v1::ReportTrialRequest* last) {
  const auto [study, trial, state, newest] = One<std::int64_t, std::int64_t, v1::TrialState, std::int64_t>(
      "SELECT study, trial, state, attempts FROM jobs WHERE id = ?", job);
  // The job was neither cancelled nor queued anew.
  const bool wanted = state == v1::TRIAL_STATE_RUNNING && newest == attempt;
  const std::vector<EndedShare> shares = ReadShares(job, attempt, last);
  std::vector<ShareEnd> ends;
  ends.reserve(shares.size());
  for (const EndedShare& share : shares) ends.push_back(share.end);
  AttemptVerdict verdict = VerdictOf(ends);
  const EndedShare& decisive = shares[verdict.decisive];
  std::string message = decisive.message;
  if (shares.size() > 1 && Breaks(verdict.end)) message = fmt::format("{}: {}", decisive.worker, message);

  std::optional<v1::Measurement> measurement;
  if (verdict.end == ShareEnd::kMeasured && trial > 0) {
    std::vector<v1::Measurement> parts;
    parts.reserve(shares.size());
    for (const EndedShare& share : shares) parts.push_back(*share.measurement);
    measurement = MergeMeasurements(parts);
    if (!measurement) {
      verdict = {.decisive = 0, .end = ShareEnd::kFailed, .again = false, .costs = false};
      message =
          parts.front().engine().empty()
              ? "the workers' results do not match (steps or slice); run the same build on all workers, then "
                "retry the trial"
              : fmt::format(
                    "no worker's log of engine {} tells of a timed step; compare the end of the logs "
                    "(autocfg trials --log {}) with the rules of the engine's file",
                    parts.front().engine(), TrialName(study, trial));
    }
  }

  Execute("UPDATE attempts SET state = ?, stopping = 0, end_s = ?, message = ? WHERE job = ? AND number = ?",
          StateOf(verdict.end), now_s, message, job, attempt);
  Execute(
      R"sql(
        UPDATE shares
        SET measurement = NULL, calibration = NULL, timeline = NULL, gathering = NULL
        WHERE job = ? AND attempt = ?)sql",
      job, attempt);
  AddUseOf(study, job, attempt, now_s);
  if (measurement) {
    const v1::Measurement& m = *measurement;
    Execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", job, attempt, m.median_step_time_s(),
            m.device_s(), m.build_id(), m.device_fingerprint(), m);
  }
  if (!wanted) {
    Touch(study, trial);
    change_.work = true;  // its slots are free
    DropDoneJobs(study, job);
    return;
  }
  if (measurement) {
    KeepTimeline(study, trial, shares);
    KeepResult(study, trial, job, attempt, measurement->step_time_s_size(), now_s);
  }
  if (verdict.end == ShareEnd::kMeasured && trial == 0) KeepCalibration(study, job, attempt, shares, now_s);
  bool again = verdict.again;
  if (verdict.costs) {
    again =
        One<bool>("UPDATE jobs SET losses = losses + 1 WHERE id = ? RETURNING losses < max_attempts", job);
  }
  if (verdict.end == ShareEnd::kCancelled) message = "the worker returned the job";
  SetJobState(job, study, trial, again ? v1::TRIAL_STATE_QUEUED : LastStateOf(verdict.end), message);
  DropDoneJobs(study, job);
}

absl::Status Store::KeepGathering(const ShareOfAttempt& share, const KeptGathering& gathering) {
  return impl_->Write([&] {
    for (const auto& [first_rank, values] : gathering.values) {
      v1::RendezvousRequest brought;
      brought.set_name(gathering.name);
      brought.set_sequence(gathering.sequence);
      brought.mutable_values()->Assign(values.begin(), values.end());
      impl_->Execute(
          R"sql(
            UPDATE shares
            SET gathering = ?
            WHERE job = ? AND attempt = ? AND first_rank = ?
                AND EXISTS (SELECT 1 FROM attempts a WHERE a.job = shares.job AND a.number = shares.attempt
                            AND a.state = ?))sql",
          brought, share.job, share.attempt, first_rank, v1::TRIAL_STATE_RUNNING);
    }
  });
}

absl::StatusOr<std::optional<KeptGathering>> Store::FindGathering(const ShareOfAttempt& share) {
  return impl_->Read([&] {
    std::optional<KeptGathering> found;
    auto rows = impl_->Rows<int, v1::RendezvousRequest>(
        "SELECT first_rank, gathering FROM shares WHERE job = ? AND attempt = ? AND gathering IS NOT NULL",
        share.job, share.attempt);
    for (const auto& [first_rank, brought] : rows) {
      if (!found) found = {.name = brought.name(), .sequence = brought.sequence(), .values = {}};
      found->values[first_rank] = {brought.values().begin(), brought.values().end()};
    }
    return found;
  });
}

void Store::Impl::AddUseOf(std::int64_t study, std::int64_t job, std::int64_t attempt, double now_s) {
  const auto [owner, use, weight, owner_use, device_s] = One<std::string, double, double, double, double>(
      R"sql(
        SELECT t.owner, t.use, t.weight, IFNULL(o.use, ?4),
            (SELECT SUM(s.device_s) FROM shares s WHERE s.job = ?2 AND s.attempt = ?3)
        FROM turns t
        LEFT JOIN owners o ON o.owner = t.owner
        WHERE t.study = ?1)sql",
      study, job, attempt, kNoUse);
  Execute("UPDATE turns SET use = ? WHERE study = ?", AddUse(use, device_s / weight, now_s), study);
  Execute("UPDATE owners SET use = ? WHERE owner = ?", AddUse(owner_use, device_s, now_s), owner);
}

void Store::Impl::DropDoneJobs(std::int64_t study, std::int64_t job) {
  Execute(
      R"sql(
        UPDATE jobs
        SET job = x''
        WHERE study = ?1 AND (?2 = 0 OR id = ?2) AND state NOT IN (?3, ?4) AND job <> x''
            AND (state IN (?5, ?6) OR (SELECT s.state FROM studies s WHERE s.id = ?1) IN (?7, ?8, ?9))
            AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job = jobs.id AND a.state = ?4))sql",
      study, job, v1::TRIAL_STATE_QUEUED, v1::TRIAL_STATE_RUNNING, v1::TRIAL_STATE_MEASURED,
      v1::TRIAL_STATE_INFEASIBLE, kStudyEndStates[0], kStudyEndStates[1], kStudyEndStates[2]);
}

}  // namespace autocfg::server
