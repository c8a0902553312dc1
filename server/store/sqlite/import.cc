// Adds studies of other databases.
#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

// The worker of attempts of which only the device time is known.
constexpr const char* kSomewhereElse = "workers/imported";

// The end of a share whose attempt ended in this state; kLost for states that are no end.
ShareEnd EndOfState(v1::TrialState state) {
  for (const ShareEnd end : {ShareEnd::kMeasured, ShareEnd::kOutOfMemory, ShareEnd::kFailed,
                             ShareEnd::kTimedOut, ShareEnd::kCancelled}) {
    if (StateOf(end) == state) return end;
  }
  return ShareEnd::kLost;
}

absl::Status CheckCopy(const Store::StudyCopy& copy) {
  if (!IsEnd(copy.study.state())) return absl::InvalidArgumentError("the study has not ended");
  std::set<std::int64_t> numbers;
  std::set<std::pair<std::string, std::int64_t>> plans;
  for (const v1::Trial& trial : copy.trials) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto name, ParseTrialName(trial.name()));
    if (!IsEnd(trial.state()))
      return absl::InvalidArgumentError(fmt::format("trial {} has not ended", name.number));
    if (!numbers.insert(name.number).second)
      return absl::InvalidArgumentError(fmt::format("there are two trials {}", name.number));
    if (!plans.emplace(trial.plan_text(), trial.repeat()).second) {
      return absl::InvalidArgumentError(
          fmt::format("there are two trials of plan {}, repeat {}", trial.plan_text(), trial.repeat()));
    }
    std::set<std::int64_t> attempts;
    for (const v1::Attempt& attempt : trial.attempts()) {
      if (!IsEnd(attempt.state()) || !attempts.insert(attempt.number()).second) {
        return absl::InvalidArgumentError(fmt::format(
            "attempt {} of trial {} has not ended, or is there twice", attempt.number(), name.number));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Store::Impl::AddWorker(const std::string& worker) {
  Execute(
      R"sql(
        INSERT OR IGNORE INTO workers (worker, boot_id, epoch, active, slots, registered_s, inventory, host)
        VALUES (?1, '', 0, 0, 0, 0, x'', ?1))sql",
      worker);
}

std::int64_t Store::Impl::AddEndedJob(std::int64_t study, std::int64_t trial, v1::TrialState state,
                                      const std::string& message, const std::vector<AddedAttempt>& attempts) {
  std::int64_t last = 0;
  for (const AddedAttempt& each : attempts) last = std::max(last, each.attempt.number());
  Execute(
      R"sql(
        INSERT INTO jobs (study, trial, ranks, state, message, attempts, max_attempts, job)
        VALUES (?, ?, 1, ?, ?, ?, 1, x''))sql",
      study, trial, state, message, last);
  const std::int64_t job = db().getLastInsertRowid();
  for (const AddedAttempt& each : attempts) {
    const v1::Attempt& attempt = each.attempt;
    Execute("INSERT INTO attempts (job, number, state, start_s, end_s, message) VALUES (?, ?, ?, ?, ?, ?)",
            job, attempt.number(), attempt.state(), attempt.start_time_s(), attempt.end_time_s(),
            attempt.message());
    int rank = 0;
    for (const std::string& worker : each.workers) {
      AddWorker(worker);
      Execute(
          R"sql(
            INSERT INTO shares
              (job, attempt, first_rank, ranks, worker, epoch, lease_id, fencing_token, expires_s, ending,
               end_s, device_s)
            VALUES
              (?1, ?2, ?3, 1, ?4, 0, 'imported-' || ?5 || '-' || lower(hex(randomblob(8))), ?5, ?6, ?7, ?6,
               ?8))sql",
          job, attempt.number(), rank, worker, Next("fencing_token"), attempt.end_time_s(),
          EndOfState(attempt.state()), rank == 0 ? each.device_s : 0.0);
      ++rank;
    }
    if (each.measurement) {
      const v1::Measurement& m = *each.measurement;
      Execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", job, attempt.number(),
              m.median_step_time_s(), m.device_s(), m.build_id(), m.device_fingerprint(), m);
    }
  }
  return job;
}

void Store::Impl::AddTrial(std::int64_t study, const v1::Trial& given) {
  const std::int64_t number = ParseTrialName(given.name())->number;
  if (!given.reused_from().empty()) {
    v1::Trial trial = given;
    trial.clear_name();
    trial.clear_attempts();
    trial.clear_message();
    InsertTrial(study, number, trial, trial.reused_from());
    SetTrialState(study, number, trial.state(), given.message());
    return;
  }
  std::vector<AddedAttempt> attempts;
  for (const v1::Attempt& attempt : given.attempts()) {
    AddedAttempt& added = attempts.emplace_back();
    added.attempt = attempt;
    added.workers.assign(attempt.workers().begin(), attempt.workers().end());
    if (added.workers.empty())
      added.workers.push_back(attempt.worker().empty() ? kSomewhereElse : attempt.worker());
  }
  if (given.has_measured()) {
    // The measured attempt is the last one.
    for (auto added = attempts.rbegin(); added != attempts.rend(); ++added) {
      if (added->attempt.state() != v1::TRIAL_STATE_MEASURED) continue;
      added->measurement = given.measured();
      added->device_s = given.measured().device_s();
      break;
    }
  }
  v1::Trial trial = given;
  trial.clear_name();
  trial.clear_measured();
  trial.clear_attempts();
  trial.clear_message();
  Execute(
      R"sql(
        INSERT INTO trials (study, number, plan_text, repeat, state, message, change, trial)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?))sql",
      study, number, trial.plan_text(), trial.repeat(), trial.state(), given.message(), Next("change"),
      trial);
  AddEndedJob(study, number, given.state(), given.message(), attempts);
}

absl::StatusOr<v1::Study> Store::ImportStudy(const StudyCopy& copy) {
  AUTOCFG_RETURN_IF_ERROR(CheckCopy(copy));
  return impl_->Write([&]() -> absl::StatusOr<v1::Study> {
    v1::Study study = copy.study;
    study.clear_name();
    study.clear_waiting();
    double device_s = 0;
    std::int64_t last = 0;
    for (const v1::Trial& trial : copy.trials) {
      if (trial.reused_from().empty()) device_s += trial.measured().device_s();
      last = std::max(last, ParseTrialName(trial.name())->number);
    }
    impl_->Execute(
        R"sql(
          INSERT INTO studies (fingerprint, state, change, next_trial, wall_s, plan_cpu_s, study, reduced)
          VALUES (?, ?, ?, ?, ?, ?, ?, 1))sql",
        study.fingerprint(), study.state(), impl_->Next("change"), last + 1, copy.usage.wall_s,
        copy.usage.plan_cpu_s, study);
    const std::int64_t id = impl_->db().getLastInsertRowid();
    impl_->AddTurn(id, study);
    if (copy.calibration) impl_->WriteCalibration(id, *copy.calibration, /*partial=*/false);
    // What the calibration and attempts without a result used.
    if (const double rest_s = copy.usage.device_s - device_s; rest_s > 0 || copy.calibration) {
      Impl::AddedAttempt attempt;
      attempt.attempt.set_number(1);
      attempt.attempt.set_state(v1::TRIAL_STATE_MEASURED);
      attempt.workers = {kSomewhereElse};
      attempt.device_s = std::max(0.0, rest_s);
      impl_->AddEndedJob(id, 0, copy.calibration ? v1::TRIAL_STATE_MEASURED : v1::TRIAL_STATE_CANCELLED, "",
                         {attempt});
    }
    for (const v1::Trial& trial : copy.trials) impl_->AddTrial(id, trial);
    impl_->Touch(id);
    study.set_name(StudyName(id));
    return study;
  });
}

}  // namespace autocfg::server
