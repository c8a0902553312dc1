// A small study as a server, its runner and a worker drive it through a store, in one thread: the same calls
// in the same order each time. Every call may fail; Run() then returns its error and goes on from there when
// it is called again, with this store or with one that was opened anew.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/names/names.h"
#include "server/store/store.h"

namespace autocfg::server {

class SmallStudy {
 public:
  static constexpr int kPlans = 5;

  // OK: the study has ended.
  absl::Status Run(Store& store) {
    v1::RegisterWorkerRequest worker;
    worker.set_worker(kWorker);
    worker.set_boot_id("boot");
    worker.mutable_inventory()->set_slots(2);
    worker.mutable_inventory()->set_device_kind("cpu");
    AUTOCFG_ASSIGN_OR_RETURN(const auto epoch, store.RegisterWorker(worker, now_s_));
    session_ = {kWorker, epoch};

    v1::Study given;
    given.set_fingerprint("small");
    AUTOCFG_ASSIGN_OR_RETURN(const auto made, store.CreateStudy("create", given, now_s_));
    study_ = *ParseStudyName(made.name());
    AUTOCFG_RETURN_IF_ERROR(Move(store, v1::STUDY_STATE_RUNNING, "start"));

    v1::Job calibration;
    calibration.set_ranks(1);
    calibration.set_device("cpu");
    calibration.mutable_calibrate()->set_time_budget_s(1);
    calibration.mutable_calibrate()->add_ops()->set_kind("matmul");
    AUTOCFG_RETURN_IF_ERROR(store.EnqueueCalibration(study_, calibration, 100, {}));
    for (int plan = 1; plan <= kPlans; ++plan) {
      v1::Trial trial;
      trial.set_plan_text(fmt::format("mbs={}", plan));
      v1::Job job;
      job.set_ranks(1);
      job.set_device("cpu");
      job.mutable_train()->set_steps(2);
      job.mutable_train()->set_warmup_steps_untimed(1);
      job.mutable_train()->set_data_path(std::string(1500, 'd'));  // several pages a commit
      const auto queued = store.EnqueueTrial(study_, trial, job, 100);
      if (!queued.ok()) return queued.status();
      queued_ = std::max(queued_, plan);
    }
    // Leases that did not reach the worker, because the call failed after its commit.
    AUTOCFG_RETURN_IF_ERROR(store.KeepOnly(session_, Held(), now_s_));
    while (true) {
      if (!lease_) {
        AUTOCFG_RETURN_IF_ERROR(Take(store));
        if (!lease_) break;
      }
      AUTOCFG_RETURN_IF_ERROR(Work(store));
    }
    return Conclude(store);
  }

  // Returns what the study has found: the answer, and how each trial ended.
  static absl::StatusOr<std::string> Answer(Store& store) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto study, store.GetStudy(1));
    std::string answer =
        fmt::format("state {}, best {}\n", static_cast<int>(study.state()), study.best().plan_text());
    AUTOCFG_ASSIGN_OR_RETURN(const auto trials, store.ListTrials(1, 0, 100));
    for (const v1::Trial& trial : trials) {
      answer += fmt::format("{} {} {} {}\n", trial.name(), trial.plan_text(), static_cast<int>(trial.state()),
                            trial.measured().median_step_time_s());
    }
    AUTOCFG_ASSIGN_OR_RETURN(const auto calibration, store.GetCalibration(1));
    return answer +
           fmt::format("calibrated {}\n", calibration.has_value() ? calibration->result.ops_size() : 0);
  }

  // Returns what the store has lost of what it acknowledged; empty: nothing.
  std::string Lost(Store& store) const {
    if (study_ == 0) return "";
    const auto study = store.GetStudy(study_);
    if (!study.ok()) return "the study";
    if (started_ && study->state() == v1::STUDY_STATE_CREATED) return "the start of the study";
    if (ended_ && study->state() != v1::STUDY_STATE_DONE) return "the end of the study";
    const auto trials = store.ListTrials(study_, 0, 100);
    if (!trials.ok() || static_cast<int>(trials->size()) < queued_) return "a trial";
    for (const std::int64_t number : reported_) {
      if (number == 0) {
        const auto calibration = store.GetCalibration(study_);
        if (!calibration.ok() || !calibration->has_value()) return "the calibration";
      } else if (const auto trial = store.GetTrial(study_, number);
                 !trial.ok() || trial->state() != v1::TRIAL_STATE_MEASURED) {
        return fmt::format("the report of trial {}", number);
      }
    }
    return "";
  }

 private:
  static constexpr const char* kWorker = "workers/a";

  absl::Status Move(Store& store, v1::StudyState state, const std::string& request_id) {
    const auto moved = store.ModifyStudy(study_,
                                         [&](v1::Study& study) {
                                           study.set_state(state);
                                           if (state == v1::STUDY_STATE_DONE)
                                             study.mutable_best()->set_plan_text(best_);
                                           return absl::OkStatus();
                                         },
                                         {.request_id = request_id});
    if (moved.ok()) (state == v1::STUDY_STATE_DONE ? ended_ : started_) = true;
    return moved.status();
  }

  std::vector<std::string> Held() const {
    return lease_ ? std::vector<std::string>{lease_->lease_id} : std::vector<std::string>();
  }

  absl::Status Take(Store& store) {
    now_s_ += 1;
    const auto assigned = store.LeaseJobs({session_}, {session_}, now_s_, 10);
    if (!assigned.ok()) {
      // The commit may have been made: the next call for work says that nothing is held.
      return assigned.status();
    }
    if (!assigned->leases.empty()) lease_ = assigned->leases.front();
    return absl::OkStatus();
  }

  absl::Status Work(Store& store) {
    now_s_ += 1;
    const auto renewed = store.RenewLease(lease_->session.worker, lease_->session.epoch, lease_->lease_id,
                                          lease_->fencing_token, now_s_, 10);
    if (absl::IsFailedPrecondition(renewed.status()) && Reported(store)) return Done();
    if (!renewed.ok()) return renewed.status();
    AUTOCFG_RETURN_IF_ERROR(store.ExpireLeases(now_s_).status());
    AUTOCFG_RETURN_IF_ERROR(store.AppendLog(lease_->lease_id, lease_->fencing_token, std::string(600, 'l')));
    v1::ReportTrialRequest report;
    report.set_worker(lease_->session.worker);
    report.set_session_epoch(lease_->session.epoch);
    report.set_lease_id(lease_->lease_id);
    report.set_fencing_token(lease_->fencing_token);
    report.set_attempt(lease_->attempt);
    report.set_request_id(lease_->lease_id + "/report");
    report.set_outcome(v1::OUTCOME_MEASURED);
    if (lease_->job.has_calibrate()) {
      v1::OpTime& time = *report.mutable_calibration()->add_ops();
      *time.mutable_op() = lease_->job.calibrate().ops(0);
      time.set_seconds(1e-3);
    } else {
      // The third plan is the fastest.
      const double seconds = 1 + 0.25 * std::abs(static_cast<double>(lease_->key.trial) - 3);
      report.mutable_measurement()->add_step_time_s(seconds);
      report.mutable_measurement()->set_median_step_time_s(seconds);
    }
    AUTOCFG_RETURN_IF_ERROR(store.Report(report, now_s_));
    return Done();
  }

  // Whether the report of the lease was stored although its call failed.
  bool Reported(Store& store) const {
    if (lease_->key.trial == 0) {
      const auto calibration = store.GetCalibration(study_);
      return calibration.ok() && calibration->has_value();
    }
    const auto trial = store.GetTrial(study_, lease_->key.trial);
    return trial.ok() && trial->state() == v1::TRIAL_STATE_MEASURED;
  }

  absl::Status Done() {
    reported_.push_back(lease_->key.trial);
    lease_.reset();
    return absl::OkStatus();
  }

  absl::Status Conclude(Store& store) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto trials, store.ListTrials(study_, 0, 100));
    double least = 0;
    for (const v1::Trial& trial : trials) {
      if (trial.state() != v1::TRIAL_STATE_MEASURED)
        return absl::InternalError(fmt::format("{} has not ended", trial.name()));
      if (least != 0 && trial.measured().median_step_time_s() >= least) continue;
      least = trial.measured().median_step_time_s();
      best_ = trial.plan_text();
    }
    return Move(store, v1::STUDY_STATE_DONE, "end");
  }

  double now_s_ = 100;
  WorkerSession session_;
  std::int64_t study_ = 0;
  std::optional<Lease> lease_;
  std::string best_;

  // Acknowledged.
  bool started_ = false, ended_ = false;
  int queued_ = 0;
  std::vector<std::int64_t> reported_;
};

}  // namespace autocfg::server
