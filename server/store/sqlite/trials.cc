// Trials and the job queue.
#include <utility>

#include "fmt/format.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr const char* kRetry = "retry_trial";
constexpr const char* kTrialColumns =
    "SELECT number, repeat, state, message, trial, plan_text, change FROM trials WHERE study = ? ";

}  // namespace

absl::Status SqliteStore::CheckJob(const v1::Job& job, std::int64_t max_attempts) {
  if (job.ranks() <= 0) return absl::InvalidArgumentError("job.ranks is not positive");
  if (job.work_case() == v1::Job::WORK_NOT_SET)
    return absl::InvalidArgumentError("job has neither train nor calibrate");
  if (max_attempts <= 0) return absl::InvalidArgumentError("max_attempts is not positive");
  return absl::OkStatus();
}

std::vector<v1::Trial> SqliteStore::ReadTrials(std::int64_t study, SQLite::Statement& rows,
                                               const ListLimit& limit, std::vector<std::int64_t>* changes) {
  std::vector<v1::Trial> trials;
  std::size_t bytes = 0;
  SQLite::Statement attempts(db(),
                             R"sql(
        SELECT a.number, a.state, s.worker, a.message, a.start_s, a.end_s, m.measurement
        FROM jobs j
        JOIN attempts a ON a.job = j.id
        JOIN shares s ON s.job = a.job AND s.attempt = a.number
        LEFT JOIN measurements m ON m.job = a.job AND m.attempt = a.number
        WHERE j.study = ? AND j.trial = ?
        ORDER BY a.number, s.first_rank)sql");
  while (!limit.Reached(trials.size(), bytes) && rows.executeStep()) {
    v1::Trial& trial = trials.emplace_back();
    Parse(rows.getColumn(4), trial);
    const std::int64_t number = rows.getColumn(0).getInt64();
    trial.set_name(TrialName(study, number));
    trial.set_repeat(rows.getColumn(1).getInt64());
    trial.set_state(static_cast<v1::TrialState>(rows.getColumn(2).getInt()));
    trial.set_message(rows.getColumn(3).getString());
    trial.set_plan_text(rows.getColumn(5).getString());
    if (changes != nullptr) changes->push_back(rows.getColumn(6).getInt64());
    attempts.reset();
    attempts.bind(1, study);
    attempts.bind(2, number);
    while (attempts.executeStep()) {
      const std::int64_t attempt_number = attempts.getColumn(0).getInt64();
      const int known = trial.attempts_size();
      if (known > 0 && trial.attempts(known - 1).number() == attempt_number) {
        trial.mutable_attempts(known - 1)->add_workers(attempts.getColumn(2).getString());
        continue;
      }
      v1::Attempt& attempt = *trial.add_attempts();
      attempt.set_number(attempt_number);
      attempt.set_state(static_cast<v1::TrialState>(attempts.getColumn(1).getInt()));
      attempt.set_worker(attempts.getColumn(2).getString());
      attempt.add_workers(attempt.worker());
      attempt.set_message(attempts.getColumn(3).getString());
      attempt.set_start_time_s(attempts.getColumn(4).getDouble());
      if (!attempts.getColumn(5).isNull()) attempt.set_end_time_s(attempts.getColumn(5).getDouble());
      if (trial.state() == v1::TRIAL_STATE_MEASURED && attempt.state() == v1::TRIAL_STATE_MEASURED &&
          !attempts.getColumn(6).isNull()) {
        Parse(attempts.getColumn(6), *trial.mutable_measured());
      }
    }
    bytes += trial.ByteSizeLong();
  }
  return trials;
}

void SqliteStore::QueueJob(std::int64_t study, std::int64_t trial, const v1::Job& job,
                           std::int64_t max_attempts) {
  Execute(
      R"sql(
        INSERT INTO jobs
          (study, trial, ranks, state, max_attempts, job, device, fewer_ranks, avoids_trial, engine, limit_s)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))sql",
      study, trial, job.ranks(), static_cast<int>(v1::TRIAL_STATE_QUEUED), max_attempts, job, job.device(),
      job.fewer_ranks() ? 1 : 0, job.avoids_trial(), job.engine(), job.time_limit_s());
  change_.work = true;
}

absl::StatusOr<v1::Trial> SqliteStore::EnqueueTrial(std::int64_t study, const v1::Trial& given,
                                                    const v1::Job& given_job, std::int64_t max_attempts) {
  if (absl::Status status = CheckJob(given_job, max_attempts); !status.ok()) return status;
  if (given.plan_text().empty()) return absl::InvalidArgumentError("trial.plan_text is empty");
  return Write([&]() -> absl::StatusOr<v1::Trial> {
    const std::optional<v1::Study> owner = FindStudy(study);
    if (!owner) return StudyNotFound(study);
    SQLite::Statement known = Query(
        R"sql(
          SELECT number, repeat, state, message, trial, plan_text, change
          FROM trials
          WHERE study = ? AND plan_text = ? AND repeat = ?)sql",
        study, given.plan_text(), given.repeat());
    if (std::vector<v1::Trial> found = ReadTrials(study, known, 1, nullptr); !found.empty())
      return found.front();
    if (IsEnd(owner->state())) {
      return absl::FailedPreconditionError(fmt::format("{} has ended ({}) and takes no more trials",
                                                       owner->name(), ShortName(owner->state())));
    }
    SQLite::Statement counter =
        Query("UPDATE studies SET next_trial = next_trial + 1 WHERE id = ? RETURNING next_trial - 1", study);
    counter.executeStep();
    const std::int64_t number = counter.getColumn(0).getInt64();
    counter.reset();
    v1::Trial trial = given;
    trial.set_state(v1::TRIAL_STATE_QUEUED);
    trial.clear_measured();
    trial.clear_attempts();
    trial.clear_message();
    Execute(
        R"sql(
          INSERT INTO trials (study, number, plan_text, repeat, state, change, trial)
          VALUES (?, ?, ?, ?, ?, 0, ?))sql",
        study, number, trial.plan_text(), trial.repeat(), static_cast<int>(trial.state()), trial);
    v1::Job job = given_job;
    job.set_name(TrialName(study, number));
    QueueJob(study, number, job, max_attempts);
    SetTrialState(study, number, v1::TRIAL_STATE_QUEUED, "");
    trial.set_name(job.name());
    return trial;
  });
}

absl::StatusOr<v1::Trial> SqliteStore::GetTrial(std::int64_t study, std::int64_t number) {
  return Read([&]() -> absl::StatusOr<v1::Trial> {
    SQLite::Statement rows = Query((std::string(kTrialColumns) + "AND number = ?").c_str(), study, number);
    std::vector<v1::Trial> trials = ReadTrials(study, rows, 1, nullptr);
    if (trials.empty()) return absl::NotFoundError(fmt::format("no trial {}", TrialName(study, number)));
    return std::move(trials.front());
  });
}

absl::StatusOr<std::vector<v1::Trial>> SqliteStore::ListTrials(std::int64_t study, std::int64_t after,
                                                               const ListLimit& limit) {
  return Read([&]() -> absl::StatusOr<std::vector<v1::Trial>> {
    if (absl::Status status = CheckStudy(study); !status.ok()) return status;
    SQLite::Statement rows =
        Query((std::string(kTrialColumns) + "AND number > ? ORDER BY number LIMIT ?").c_str(), study, after,
              limit.count);
    return ReadTrials(study, rows, limit, nullptr);
  });
}

void SqliteStore::CancelOpenJobs(std::int64_t study) {
  std::vector<std::pair<std::int64_t, std::int64_t>> open;  // job, trial
  {
    SQLite::Statement rows =
        Query("SELECT id, trial FROM jobs WHERE study = ? AND state IN (?, ?) ORDER BY id", study,
              static_cast<int>(v1::TRIAL_STATE_QUEUED), static_cast<int>(v1::TRIAL_STATE_RUNNING));
    while (rows.executeStep()) open.emplace_back(rows.getColumn(0).getInt64(), rows.getColumn(1).getInt64());
  }
  for (const auto& [job, trial] : open) {
    Execute("UPDATE attempts SET stopping = 1 WHERE job = ? AND state = ?", job,
            static_cast<int>(v1::TRIAL_STATE_RUNNING));
    SetJobState(job, study, trial, v1::TRIAL_STATE_CANCELLED, "cancelled");
  }
}

absl::Status SqliteStore::CancelJobs(std::int64_t study) {
  return Write([&]() -> absl::Status {
    if (absl::Status status = CheckStudy(study); !status.ok()) return status;
    CancelOpenJobs(study);
    return absl::OkStatus();
  });
}

absl::StatusOr<v1::Trial> SqliteStore::RetryTrial(std::int64_t study, std::int64_t number,
                                                  const std::string& request_id) {
  return Write([&]() -> absl::StatusOr<v1::Trial> {
    const std::string name = TrialName(study, number);
    const auto read = [&]() -> std::vector<v1::Trial> {
      SQLite::Statement rows = Query((std::string(kTrialColumns) + "AND number = ?").c_str(), study, number);
      return ReadTrials(study, rows, 1, nullptr);
    };
    const std::vector<v1::Trial> trials = read();
    if (trials.empty()) return absl::NotFoundError(fmt::format("no trial {}", name));
    const v1::Trial& trial = trials.front();
    if (const auto known = FindRequest(request_id, kRetry); known && *known == name) return trial;
    if (RequestIdTaken(request_id)) {
      return RequestIdReused(request_id);
    }
    const std::optional<v1::Study> owner = FindStudy(study);
    if (IsEnd(owner->state())) {
      return absl::FailedPreconditionError(
          fmt::format("{} has ended ({}) and cannot retry trials", owner->name(), ShortName(owner->state())));
    }
    switch (trial.state()) {
      case v1::TRIAL_STATE_FAILED:
      case v1::TRIAL_STATE_TIMED_OUT:
      case v1::TRIAL_STATE_CANCELLED:
      case v1::TRIAL_STATE_LOST: break;
      default:
        return absl::FailedPreconditionError(
            fmt::format("{} is {}; only trials that failed, timed out, were cancelled or lost can be retried",
                        name, ShortName(trial.state())));
    }
    RememberRequest(request_id, kRetry, name);
    SQLite::Statement job =
        Query("UPDATE jobs SET losses = 0 WHERE study = ? AND trial = ? RETURNING id", study, number);
    job.executeStep();
    const std::int64_t id = job.getColumn(0).getInt64();
    job.reset();
    SetJobState(id, study, number, v1::TRIAL_STATE_QUEUED, "");
    return read().front();
  });
}

}  // namespace autocfg::server
