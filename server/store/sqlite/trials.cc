// Trials and the job queue.
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/store/op_times_key.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr const char* kRetry = "retry_trial";

}  // namespace

absl::Status Store::Impl::CheckJob(const v1::Job& job, std::int64_t max_attempts) {
  if (job.ranks() <= 0) return absl::InvalidArgumentError("job.ranks is not positive");
  if (job.work_case() == v1::Job::WORK_NOT_SET)
    return absl::InvalidArgumentError("job has neither train nor calibrate");
  if (max_attempts <= 0) return absl::InvalidArgumentError("max_attempts is not positive");
  return absl::OkStatus();
}

std::vector<std::pair<std::int64_t, v1::Trial>> Store::Impl::ReadTrials(std::int64_t study, TrialRows& rows,
                                                                        const ListLimit& limit) {
  std::vector<std::pair<std::int64_t, v1::Trial>> trials;
  std::size_t bytes = 0;
  Query<std::int64_t, v1::TrialState, std::string, std::string, double, std::optional<double>,
        std::optional<v1::Measurement>>
      attempts(db(), R"sql(
        SELECT a.number, a.state, s.worker, a.message, a.start_s, a.end_s, m.measurement
        FROM jobs j
        JOIN attempts a ON a.job = j.id
        JOIN shares s ON s.job = a.job AND s.attempt = a.number
        LEFT JOIN measurements m ON m.job = a.job AND m.attempt = a.number AND s.first_rank = 0
        WHERE j.study = ? AND j.trial = ?
        ORDER BY a.number, s.first_rank)sql");
  while (!limit.Reached(trials.size(), bytes)) {
    auto row = rows.Next();
    if (!row) break;
    auto& [number, repeat, state, message, stored, plan_text, change] = *row;
    v1::Trial& trial = trials.emplace_back(change, std::move(stored)).second;
    trial.set_name(TrialName(study, number));
    trial.set_repeat(repeat);
    trial.set_state(state);
    trial.set_message(message);
    trial.set_plan_text(plan_text);
    for (auto& [known, ended, worker, why, start_s, end_s, measured] : attempts.With(study, number)) {
      if (const int last = trial.attempts_size() - 1; last >= 0 && trial.attempts(last).number() == known) {
        trial.mutable_attempts(last)->add_workers(worker);
        continue;
      }
      v1::Attempt& attempt = *trial.add_attempts();
      attempt.set_number(known);
      attempt.set_state(ended);
      attempt.set_worker(worker);
      attempt.add_workers(worker);
      attempt.set_message(why);
      attempt.set_start_time_s(start_s);
      if (end_s) attempt.set_end_time_s(*end_s);
      if (state == v1::TRIAL_STATE_MEASURED && ended == v1::TRIAL_STATE_MEASURED && measured)
        *trial.mutable_measured() = *std::move(measured);
    }
    bytes += trial.ByteSizeLong();
  }
  return trials;
}

std::optional<v1::Trial> Store::Impl::FindTrial(std::int64_t study, std::int64_t number) {
  TrialRows rows = SelectTrials("study = ? AND number = ?", study, number);
  auto found = ReadTrials(study, rows, 1);
  if (found.empty()) return std::nullopt;
  return std::move(found.front().second);
}

void Store::Impl::QueueJob(std::int64_t study, std::int64_t trial, const v1::Job& job,
                           std::int64_t max_attempts) {
  constexpr std::string_view kInsert = R"sql(
    INSERT INTO jobs
      (study, trial, ranks, state, max_attempts, job, device, fewer_ranks, avoids_trial, engine, limit_s)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    )sql";
  constexpr std::string_view kAgain = R"sql(
    ON CONFLICT (study, trial) DO UPDATE
    SET ranks = excluded.ranks, state = excluded.state, message = '', losses = 0,
        max_attempts = excluded.max_attempts, job = excluded.job, device = excluded.device,
        fewer_ranks = excluded.fewer_ranks, limit_s = excluded.limit_s)sql";
  Execute(fmt::format("{}{}", kInsert, trial == 0 ? kAgain : ""), study, trial, job.ranks(),
          v1::TRIAL_STATE_QUEUED, max_attempts, job, job.device(), job.fewer_ranks(), job.avoids_trial(),
          job.engine(), job.time_limit_s());
  change_.work = true;
}

absl::StatusOr<std::optional<v1::Trial>> Store::Impl::FindKnown(std::int64_t study, const v1::Trial& trial) {
  const std::optional<v1::Study> owner = FindStudy(study);
  if (!owner) return StudyNotFound(study);
  TrialRows known =
      SelectTrials("study = ? AND plan_text = ? AND repeat = ?", study, trial.plan_text(), trial.repeat());
  if (auto found = ReadTrials(study, known, 1); !found.empty()) return std::move(found.front().second);
  if (IsEnd(owner->state())) {
    return absl::FailedPreconditionError(
        fmt::format("{} has ended ({}) and takes no more trials", owner->name(), ShortName(owner->state())));
  }
  return std::nullopt;
}

std::int64_t Store::Impl::NextTrial(std::int64_t study) {
  return One<std::int64_t>(
      "UPDATE studies SET next_trial = next_trial + 1 WHERE id = ? RETURNING next_trial - 1", study);
}

void Store::Impl::InsertTrial(std::int64_t study, std::int64_t number, const v1::Trial& trial,
                              const std::string& source) {
  Execute(
      R"sql(
        INSERT INTO trials (study, number, plan_text, repeat, state, change, trial, source, source_s)
        VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?))sql",
      study, number, trial.plan_text(), trial.repeat(), trial.state(), trial, source,
      source.empty() ? std::optional<double>() : trial.measured().median_step_time_s());
}

absl::StatusOr<v1::Trial> Store::EnqueueTrial(std::int64_t study, const v1::Trial& given,
                                              const v1::Job& given_job, std::int64_t max_attempts) {
  AUTOCFG_RETURN_IF_ERROR(impl_->CheckJob(given_job, max_attempts));
  if (given.plan_text().empty()) return absl::InvalidArgumentError("trial.plan_text is empty");
  return impl_->Write([&]() -> absl::StatusOr<v1::Trial> {
    AUTOCFG_ASSIGN_OR_RETURN(auto known, impl_->FindKnown(study, given));
    if (known.has_value()) return *std::move(known);
    const std::int64_t number = impl_->NextTrial(study);
    v1::Trial trial = given;
    trial.set_state(v1::TRIAL_STATE_QUEUED);
    trial.clear_measured();
    trial.clear_attempts();
    trial.clear_message();
    trial.clear_reused_from();
    impl_->InsertTrial(study, number, trial, "");
    v1::Job job = given_job;
    job.set_name(TrialName(study, number));
    impl_->QueueJob(study, number, job, max_attempts);
    impl_->SetTrialState(study, number, v1::TRIAL_STATE_QUEUED, "");
    trial.set_name(job.name());
    return trial;
  });
}

absl::StatusOr<std::optional<v1::Trial>> Store::ReuseTrial(std::int64_t study, const v1::Trial& given,
                                                           const v1::Job& job, const OpTimesKey& key,
                                                           double now_s) {
  return impl_->Write([&]() -> absl::StatusOr<std::optional<v1::Trial>> {
    auto known = impl_->FindKnown(study, given);
    if (!known.ok() || known->has_value()) return known;
    auto found = impl_->Find<std::int64_t, std::int64_t, v1::Measurement>(
        R"sql(
          SELECT r.study, r.trial, m.measurement
          FROM results r
          JOIN trials t ON t.study = r.study AND t.number = r.trial
          JOIN jobs j ON j.study = r.study AND j.trial = r.trial
          JOIN measurements m ON m.job = j.id
          WHERE r.work = ?1 AND r.device = ?2 AND r.build_id = ?3 AND r.ranks = ?4
              AND r.ranks_per_device = ?5 AND r.workers = ?6 AND r.steps >= ?7 AND r.measured_s >= ?8
              AND r.study <> ?9 AND t.state = ?10 AND t.plan_text = ?11
              AND NOT EXISTS (SELECT 1 FROM jobs d WHERE d.study = r.study AND d.avoids_trial = r.trial)
              AND NOT EXISTS
                (SELECT 1
                 FROM trials u
                 WHERE u.study = ?9 AND u.source <> ''
                     AND u.source = 'studies/' || r.study || '/trials/' || r.trial)
          ORDER BY t.repeat = ?12 DESC, r.measured_s DESC, r.study DESC, r.trial DESC
          LIMIT 1)sql",
        WorkOf(job), key.device, key.build_id, key.ranks, key.ranks_per_device, key.workers,
        job.train().steps() - job.train().warmup_steps_untimed(), now_s - key.kept_s, study,
        v1::TRIAL_STATE_MEASURED, given.plan_text(), given.repeat());
    if (!found) return std::nullopt;
    auto& [from_study, from_trial, measured] = *found;
    v1::Trial trial = given;
    trial.set_reused_from(TrialName(from_study, from_trial));
    *trial.mutable_measured() = std::move(measured);
    const std::int64_t number = impl_->NextTrial(study);
    trial.clear_name();
    trial.clear_attempts();
    trial.clear_message();
    trial.set_state(v1::TRIAL_STATE_MEASURED);
    impl_->InsertTrial(study, number, trial, trial.reused_from());
    // The one of another study is kept as long as it is among that study's fastest plans.
    if (impl_->Execute(
            R"sql(
              INSERT INTO timelines
              SELECT ?1, ?2, timeline FROM timelines WHERE study = ?3 AND trial = ?4)sql",
            study, number, from_study, from_trial) > 0) {
      impl_->DropSlowTimelines(study);
    }
    impl_->SetTrialState(study, number, v1::TRIAL_STATE_MEASURED, "");
    trial.set_name(TrialName(study, number));
    return trial;
  });
}

void Store::Impl::KeepResult(std::int64_t study, std::int64_t trial, std::int64_t job, std::int64_t attempt,
                             std::int64_t steps, double now_s) {
  const v1::Job asked = JobOf(job);
  if (!asked.engine().empty()) return;  // its version is no part of the key
  const std::optional<OpTimesKey> key = KeyOf(job, attempt, asked);
  if (!key) return;
  Execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", study, trial, WorkOf(asked),
          key->device, key->build_id, key->ranks, key->ranks_per_device, key->workers, steps, now_s);
}

absl::StatusOr<v1::Trial> Store::GetTrial(std::int64_t study, std::int64_t number) {
  return impl_->Read([&]() -> absl::StatusOr<v1::Trial> {
    if (auto trial = impl_->FindTrial(study, number)) return *std::move(trial);
    return absl::NotFoundError(fmt::format("no trial {}", TrialName(study, number)));
  });
}

absl::StatusOr<std::vector<v1::Trial>> Store::ListTrials(std::int64_t study, std::int64_t after,
                                                         const ListLimit& limit) {
  return impl_->Read([&]() -> absl::StatusOr<std::vector<v1::Trial>> {
    AUTOCFG_RETURN_IF_ERROR(impl_->CheckStudy(study));
    Impl::TrialRows rows =
        impl_->SelectTrials("study = ? AND number > ? ORDER BY number LIMIT ?", study, after, limit.count);
    std::vector<v1::Trial> trials;
    for (auto& [change, trial] : impl_->ReadTrials(study, rows, limit)) trials.push_back(std::move(trial));
    return trials;
  });
}

void Store::Impl::CancelOpenJobs(std::int64_t study) {
  const auto open = All<std::int64_t, std::int64_t>(
      "SELECT id, trial FROM jobs WHERE study = ? AND state IN (?, ?) ORDER BY id", study,
      v1::TRIAL_STATE_QUEUED, v1::TRIAL_STATE_RUNNING);
  for (const auto& [job, trial] : open) {
    Execute("UPDATE attempts SET stopping = 1 WHERE job = ? AND state = ?", job, v1::TRIAL_STATE_RUNNING);
    SetJobState(job, study, trial, v1::TRIAL_STATE_CANCELLED, "cancelled");
  }
}

absl::Status Store::CancelJobs(std::int64_t study) {
  return impl_->Write([&]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(impl_->CheckStudy(study));
    impl_->CancelOpenJobs(study);
    return absl::OkStatus();
  });
}

absl::StatusOr<v1::Trial> Store::RetryTrial(std::int64_t study, std::int64_t number,
                                            const std::string& request_id) {
  return impl_->Write([&]() -> absl::StatusOr<v1::Trial> {
    const std::string name = TrialName(study, number);
    std::optional<v1::Trial> trial = impl_->FindTrial(study, number);
    if (!trial) return absl::NotFoundError(fmt::format("no trial {}", name));
    if (const auto known = impl_->FindRequest(request_id, kRetry); known && *known == name) return *trial;
    if (impl_->RequestIdTaken(request_id)) {
      return impl_->RequestIdReused(request_id);
    }
    const std::optional<v1::Study> owner = impl_->FindStudy(study);
    if (IsEnd(owner->state())) {
      return absl::FailedPreconditionError(
          fmt::format("{} has ended ({}) and cannot retry trials", owner->name(), ShortName(owner->state())));
    }
    switch (trial->state()) {
      case v1::TRIAL_STATE_FAILED:
      case v1::TRIAL_STATE_TIMED_OUT:
      case v1::TRIAL_STATE_CANCELLED:
      case v1::TRIAL_STATE_LOST: break;
      default:
        return absl::FailedPreconditionError(
            fmt::format("{} is {}; only trials that failed, timed out, were cancelled or lost can be retried",
                        name, ShortName(trial->state())));
    }
    impl_->RememberRequest(request_id, kRetry, name);
    const auto job = impl_->One<std::int64_t>(
        "UPDATE jobs SET losses = 0 WHERE study = ? AND trial = ? RETURNING id", study, number);
    impl_->SetJobState(job, study, number, v1::TRIAL_STATE_QUEUED, "");
    return *impl_->FindTrial(study, number);
  });
}

}  // namespace autocfg::server
