#include "server/studies/study_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/convert/device_convert.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "proto/convert/trainer_convert.h"
#include "proto/log_fields.h"
#include "search/plan/plan_text.h"
#include "server/names/names.h"
#include "server/store/op_times_key.h"
#include "server/studies/study_states.h"
#include "server/studies/trial_job.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

// Interval for storing the used time while nothing else happens: a share of the time budget, so that a crash
// adds little to it, within these bounds. Without a budget, the longest.
constexpr double kShortestSavePeriod = 5;
constexpr double kLongestSavePeriod = 60;
constexpr double kSavedShare = 0.05;
constexpr double kPlanningSavePeriod = 1;  // seconds between two saves of how far planning came
// How long a calibration waits for a worker to register, to look up known op times of its device. The
// worker may have been started together with the study. One without GPUs needs little time to start.
constexpr absl::Duration kGpuWorkerGrace = absl::Seconds(5);
constexpr absl::Duration kCpuWorkerGrace = absl::Milliseconds(500);
constexpr std::chrono::milliseconds kWorkerPeriod{100};

absl::Status Interrupted() { return absl::CancelledError("the study is no longer to be run"); }

}  // namespace

StudyRun::StudyRun(Store& store, Notifier& notifier, PlanningGate& gate, const base::Clock& clock,
                   const PresentWorkers& workers, std::int64_t study, StudyRunEvents events,
                   const std::atomic<bool>& outdated, double most_planning_s)
    : store_(store),
      notifier_(notifier),
      changes_(notifier, study),
      gate_(gate),
      clock_(clock),
      workers_(workers),
      study_(study),
      events_(std::move(events)),
      outdated_(outdated),
      most_planning_s_(most_planning_s) {}

absl::Status StudyRun::RecordStoreError(absl::Status status) {
  if (store_error_.ok() && !absl::IsCancelled(status)) store_error_ = status;
  return status;
}

double StudyRun::BudgetLeft() const {
  if (problem_->time_budget_s <= 0) return std::numeric_limits<double>::infinity();
  return problem_->time_budget_s - used_before_s_ - (clock_() - started_s_);
}

absl::Status StudyRun::CheckRunning() {
  if (notifier_.closed() || outdated_) return Interrupted();
  // The failed write may have been a report.
  if (absl::Status status = store_.Health(); !status.ok()) return RecordStoreError(std::move(status));
  const auto study = store_.GetStudy(study_);
  if (absl::IsNotFound(study.status())) return Interrupted();
  if (!study.ok()) return RecordStoreError(study.status());
  return study->state() == v1::STUDY_STATE_RUNNING ? absl::OkStatus() : Interrupted();
}

absl::Status StudyRun::Wait(std::uint64_t version) {
  AUTOCFG_RETURN_IF_ERROR(CheckRunning());
  events_.got_on();
  if (!budget_spent_ && BudgetLeft() <= 0) {
    budget_spent_ = true;
    if (absl::Status status = store_.CancelJobs(study_); !status.ok())
      return RecordStoreError(std::move(status));
    return absl::OkStatus();
  }
  const double unsaved_s = clock_() - started_s_ - saved_wall_s_;
  // The stored time makes a budget include time spent before a kill -9.
  if (unsaved_s >= SavePeriod()) return SaveProgress(std::string(Name(search_->loop().phase())));
  // The notifier signals everything else: each change of the study and each failed write.
  const double until_save_s = std::min(SavePeriod(), SavePeriod() - unsaved_s);
  const double wait_s = budget_spent_ ? until_save_s : std::min(until_save_s, BudgetLeft());
  changes_.Wait(version, std::chrono::duration<double>(wait_s));
  return absl::OkStatus();
}

double StudyRun::SavePeriod() const {
  const double budget_s = problem_->time_budget_s;
  if (budget_s <= 0) return kLongestSavePeriod;
  return std::clamp(kSavedShare * budget_s, kShortestSavePeriod, kLongestSavePeriod);
}

bool StudyRun::PlanOn(const PlanningProgress& progress) {
  if (notifier_.closed() || outdated_) return false;
  if (BudgetLeft() <= 0) {
    planning_over_budget_ = true;
    return false;
  }
  if (ThreadCpuSeconds() - planning_from_cpu_s_ > most_planning_s_) {
    planning_over_limit_ = true;
    return false;
  }
  const double now_s = clock_();
  if (search_ || progress.enumerated == 0 || now_s - planning_saved_s_ < kPlanningSavePeriod) return true;
  planning_saved_s_ = now_s;
  const absl::Status saved = Modify([&](v1::Study& study) {
    study.mutable_counts()->set_enumerated(progress.enumerated);
    study.mutable_counts()->set_predicted(progress.fit);
    return absl::OkStatus();
  });
  return saved.ok();  // else the study is gone, or its store failed, which Run reports
}

absl::Status StudyRun::Modify(const std::function<absl::Status(v1::Study&)>& edit) {
  StudyEdit extra;
  const double wall_s = clock_() - started_s_;
  const double cpu_s = search_ ? search_->plan_cpu_s() : 0;
  extra.add_wall_s = std::max(0.0, wall_s - saved_wall_s_);
  extra.add_plan_cpu_s = std::max(0.0, cpu_s - saved_cpu_s_);
  const auto study = store_.ModifyStudy(
      study_,
      [&](v1::Study& edited) {
        return edited.state() == v1::STUDY_STATE_RUNNING ? edit(edited) : absl::OkStatus();
      },
      extra);
  if (absl::IsNotFound(study.status())) return Interrupted();
  if (!study.ok()) return RecordStoreError(study.status());
  saved_wall_s_ = wall_s;
  saved_cpu_s_ = cpu_s;
  return absl::OkStatus();
}

absl::Status StudyRun::SaveProgress(const std::string& phase) {
  v1::Study progress;
  progress.set_phase(phase);
  if (search_) {
    events_.publish(search_->Recommendation());
    *progress.mutable_counts() = search_->Counts();
    progress.set_round(search_->rounds());
    if (auto best = search_->Best()) *progress.mutable_best() = *std::move(best);
  }
  const bool same = saved_ && google::protobuf::util::MessageDifferencer::Equals(progress, *saved_);
  if (same && clock_() - started_s_ - saved_wall_s_ < SavePeriod()) return absl::OkStatus();
  absl::Status status = Modify([&](v1::Study& study) {
    study.set_phase(phase);
    if (!search_) return absl::OkStatus();
    *study.mutable_counts() = progress.counts();
    study.set_round(progress.round());
    double eta_s = search_->EtaSeconds();
    if (eta_s > 0) eta_s = std::min(eta_s, std::max(0.0, BudgetLeft()));
    if (phase != Name(SearchPhase::kCalibrating)) study.set_eta_s(eta_s);  // there, its worker says it
    if (progress.has_best()) *study.mutable_best() = progress.best();
    return absl::OkStatus();
  });
  if (status.ok()) saved_ = std::move(progress);
  return status;
}

absl::Status StudyRun::Finish(v1::StudyState state, const std::string& message) {
  AUTOCFG_RETURN_IF_ERROR(CheckRunning());
  if (search_) events_.publish(search_->Recommendation());
  const double now_s = clock_();
  bool moved = false;
  AUTOCFG_RETURN_IF_ERROR(Modify([&](v1::Study& study) {
    moved = true;
    study.set_state(state);
    study.set_message(message);
    study.set_phase("done");
    study.set_eta_s(0);
    study.set_end_time_s(now_s);
    // A resumed study that fails while it plans again has measurements.
    study.set_without_plans(state == v1::STUDY_STATE_FAILED && !search_ && study.counts().measured() == 0);
    if (search_) {
      *study.mutable_counts() = search_->Counts();
      if (auto best = search_->Best()) {
        *study.mutable_best() = *std::move(best);
      } else {
        study.clear_best();
      }
    }
    return absl::OkStatus();
  }));
  if (!moved) return Interrupted();  // paused meanwhile, and perhaps resumed since
  LogState(study_, state, message);
  return absl::OkStatus();
}

absl::Status StudyRun::Pause(const std::string& message) {
  bool moved = false;
  absl::Status status = Modify([&](v1::Study& study) {
    moved = true;
    study.set_state(v1::STUDY_STATE_PAUSED);
    study.set_message(message);
    study.set_eta_s(0);
    return absl::OkStatus();
  });
  if (status.ok() && moved) LogState(study_, v1::STUDY_STATE_PAUSED, message);
  return status.ok() ? Interrupted() : status;
}

absl::StatusOr<std::optional<Store::Calibration>> StudyRun::StoredCalibration() {
  auto stored = store_.GetCalibration(study_);
  if (!stored.ok()) return RecordStoreError(stored.status());
  if (!stored->has_value()) return stored;
  for (const v1::OpTime& time : (*stored)->result.ops()) {
    const absl::Status known = FromProto(time.op()).status();
    if (known.ok()) continue;
    spdlog::warn("{}: its calibration is of another version of the engine ({}); measuring it again",
                 StudyName(study_), std::string(known.message()));
    if (absl::Status status = store_.DropCalibration(study_); !status.ok())
      return RecordStoreError(std::move(status));
    return std::optional<Store::Calibration>();
  }
  return stored;
}

absl::StatusOr<Store::Calibration> StudyRun::TakeKnown(v1::Job& job) {
  if (problem_->fresh) return Store::Calibration();
  std::optional<OpTimesKey> key;
  const absl::Duration grace = UsesGpus(problem_->device) ? kGpuWorkerGrace : kCpuWorkerGrace;
  const absl::Time deadline = absl::Now() + std::min(grace, absl::Seconds(BudgetLeft()));
  while (true) {
    const std::uint64_t version = changes_.Version();
    const auto workers = workers_();
    if (!workers.ok()) return RecordStoreError(workers.status());
    key = OpTimesKeyFor(job, *workers);
    const bool any = std::any_of(workers->begin(), workers->end(), [&](const WorkerRecord& worker) {
      return WorkerKind(worker.inventory) == NeededKind(job);
    });
    if (key || any || absl::Now() >= deadline) break;
    AUTOCFG_RETURN_IF_ERROR(CheckRunning());
    changes_.Wait(version, kWorkerPeriod);
  }
  if (!key) return Store::Calibration();
  auto kept = store_.FindOpTimes(*key, job.calibrate(), clock_());
  if (!kept.ok()) return RecordStoreError(kept.status());
  std::set<std::string> known;
  for (const v1::OpTime& time : kept->result.ops()) known.insert(time.op().SerializeAsString());
  v1::CalibrateSpec& spec = *job.mutable_calibrate();
  const int asked = spec.ops_size();
  v1::CalibrateSpec rest = spec;
  rest.clear_ops();
  for (v1::OpDesc& op : *spec.mutable_ops()) {
    if (!known.contains(op.SerializeAsString())) *rest.add_ops() = std::move(op);
  }
  spec = std::move(rest);
  if (kept->reused_ops > 0) {
    spdlog::info("{}: {} of {} op times are reused from earlier studies, measured on {} with build {}",
                 StudyName(study_), kept->reused_ops, asked, key->device, key->build_id);
  }
  return kept;
}

absl::Status StudyRun::QueueCalibration(const SearchLoop& loop) {
  v1::Job job = CalibrationJob(*problem_, loop.CalibrationOps());
  job.set_trace_parent(trace_parent_);
  AUTOCFG_ASSIGN_OR_RETURN(const auto reused, TakeKnown(job));
  const bool whole = reused.reused_ops > 0 && job.calibrate().ops().empty();
  absl::Status status = whole ? store_.ReuseCalibration(study_, reused)
                              : store_.EnqueueCalibration(study_, job, kMaxAttempts, reused);
  if (status.ok()) return status;
  AUTOCFG_RETURN_IF_ERROR(CheckRunning());
  return RecordStoreError(std::move(status));
}

absl::StatusOr<std::optional<Store::Calibration>> StudyRun::Calibrate(const SearchLoop& loop) {
  auto calibration = AwaitCalibration(loop);
  planning_from_cpu_s_ = ThreadCpuSeconds();
  if (!calibration.ok() || !calibration->has_value()) return calibration;
  const auto study = store_.GetStudy(study_);
  if (absl::IsNotFound(study.status())) return Interrupted();
  if (!study.ok()) return RecordStoreError(study.status());
  if (study->calibration_ops_passed() == study->calibration_ops()) return calibration;
  // The worker reports now and then: what it did last comes with its result.
  AUTOCFG_RETURN_IF_ERROR(Modify([](v1::Study& edited) {
    edited.set_calibration_ops_passed(edited.calibration_ops());
    return absl::OkStatus();
  }));
  return calibration;
}

absl::StatusOr<std::optional<Store::Calibration>> StudyRun::AwaitCalibration(const SearchLoop& loop) {
  const double begun_s = clock_();
  double leased_s = 0;  // a worker had the calibration
  auto stored = StoredCalibration();
  if (!stored.ok() || stored->has_value()) return stored;
  auto state = store_.CalibrationState(study_);
  if (!state.ok()) return RecordStoreError(state.status());
  // MEASURED: the calibration was dropped, or arrived just now. LOST: the study was paused for it, and was
  // resumed.
  const bool again = state->first == v1::TRIAL_STATE_MEASURED || state->first == v1::TRIAL_STATE_LOST;
  if (!IsEnd(state->first) || again) {
    AUTOCFG_RETURN_IF_ERROR(SaveProgress("calibrating"));
  }
  if (state->first == v1::TRIAL_STATE_UNSPECIFIED || again) {
    AUTOCFG_RETURN_IF_ERROR(QueueCalibration(loop));
  }
  double seen_s = clock_();
  while (true) {
    const std::uint64_t version = changes_.Version();
    stored = store_.GetCalibration(study_);
    if (!stored.ok()) return RecordStoreError(stored.status());
    if (stored->has_value()) return stored;
    state = store_.CalibrationState(study_);
    if (!state.ok()) return RecordStoreError(state.status());
    const double now_s = clock_();
    if (state->first == v1::TRIAL_STATE_RUNNING) leased_s += now_s - seen_s;
    seen_s = now_s;
    if (state->first == v1::TRIAL_STATE_MEASURED) {  // it arrived between the two reads
      stored = store_.GetCalibration(study_);
      if (!stored.ok()) return RecordStoreError(stored.status());
      if (!stored->has_value()) return absl::InternalError("a calibration was reported but is not stored");
      return stored;
    }
    if (IsEnd(state->first)) {
      if (budget_spent_) {
        const double budget_s = problem_->time_budget_s;
        const double unleased_s = clock_() - begun_s - leased_s;
        if (unleased_s > leased_s) {
          return absl::DeadlineExceededError(fmt::format(
              "the time budget of {:g} s ended before one op of each kind was timed: for {:.2g} s of it no "
              "worker took the calibration; see `autocfg workers`, and repeat the search with free workers",
              budget_s, std::min(unleased_s, budget_s)));
        }
        return absl::DeadlineExceededError(fmt::format(
            "the time budget of {:g} s ended before one op of each kind was timed; give more time, "
            "such as {:g} s, or name smaller micro batches with --space",
            budget_s, 2 * budget_s));
      }
      AUTOCFG_RETURN_IF_ERROR(CheckRunning());
      if (state->first == v1::TRIAL_STATE_LOST) {
        return Pause(
            fmt::format("the calibration was lost {} times, last because: {}; resume the study, or repeat "
                        "the search, once its workers are healthy",
                        kMaxAttempts, state->second));
      }
      return absl::AbortedError(fmt::format("the calibration failed: {}", state->second));
    }
    AUTOCFG_RETURN_IF_ERROR(Wait(version));
  }
}

absl::StatusOr<std::optional<v1::Trial>> StudyRun::Reuse(const TrialRequest& request, const v1::Trial& trial,
                                                         const v1::Job& job) {
  if (problem_->fresh || request.doubted || !job.engine().empty()) return std::optional<v1::Trial>();
  const auto workers = workers_();
  if (!workers.ok()) return RecordStoreError(workers.status());
  const std::optional<OpTimesKey> key = OpTimesKeyFor(job, *workers);
  if (!key) return std::optional<v1::Trial>();
  auto reused = store_.ReuseTrial(study_, trial, job, *key, clock_());
  if (!reused.ok()) {
    AUTOCFG_RETURN_IF_ERROR(CheckRunning());
    return RecordStoreError(reused.status());
  }
  if (*reused && !(*reused)->reused_from().empty())
    spdlog::info("{} is reused from {}", (*reused)->name(), (*reused)->reused_from());
  return reused;
}

absl::StatusOr<std::optional<std::int64_t>> StudyRun::Ask(const TrialRequest& request) {
  planning_from_cpu_s_ = ThreadCpuSeconds();
  v1::Trial trial;
  *trial.mutable_plan() = ToProto(request.plan);
  trial.set_plan_text(PlanText(request.plan));
  trial.set_repeat(request.repeat);
  *trial.mutable_predicted() = ToProto(request.predicted);
  AUTOCFG_ASSIGN_OR_RETURN(auto job, TrialJob(*problem_, request));
  if (request.doubted) job.set_avoids_trial(asked_.at({trial.plan_text(), *request.doubted}));
  job.set_trace_parent(trace_parent_);
  AUTOCFG_ASSIGN_OR_RETURN(auto reused, Reuse(request, trial, job));
  const auto queued = reused ? absl::StatusOr<v1::Trial>(*std::move(reused))
                             : store_.EnqueueTrial(study_, trial, job, kMaxAttempts);
  if (!queued.ok()) {
    AUTOCFG_RETURN_IF_ERROR(CheckRunning());
    return RecordStoreError(queued.status());
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseTrialName(queued->name()));
  if (request.doubted) {
    const base::LogScope scope(FieldsOfJob(queued->name()));
    spdlog::warn("{}: trial {} repeats trial {} of the same plan, which was far faster than predicted",
                 StudyName(study_), id.number, job.avoids_trial());
  }
  asked_[{trial.plan_text(), request.repeat}] = id.number;
  return std::optional<std::int64_t>(id.number);
}

absl::StatusOr<std::optional<v1::Trial>> StudyRun::Await(std::int64_t number) {
  bool saved = false;
  while (true) {
    const std::uint64_t version = changes_.Version();
    const auto trial = store_.GetTrial(study_, number);
    if (!trial.ok()) {
      AUTOCFG_RETURN_IF_ERROR(CheckRunning());
      return RecordStoreError(trial.status());
    }
    if (IsEnd(trial->state())) {
      // Cancelled by the study's end, not by its budget: stop.
      if (trial->state() == v1::TRIAL_STATE_CANCELLED && !budget_spent_) {
        AUTOCFG_RETURN_IF_ERROR(CheckRunning());
      }
      return std::optional<v1::Trial>(*trial);
    }
    if (!saved) {
      // Not needed for stored outcomes that are replayed.
      AUTOCFG_RETURN_IF_ERROR(SaveProgress(std::string(Name(search_->loop().phase()))));
      saved = true;
      continue;
    }
    AUTOCFG_RETURN_IF_ERROR(Wait(version));
  }
}

absl::Status StudyRun::Search() {
  AUTOCFG_ASSIGN_OR_RETURN(
      auto search,
      StudySearch::Create(*problem_, {.gate = &gate_,
                                      .owner = owner_,
                                      .watch = [this](const PlanningProgress& p) { return PlanOn(p); }}));
  search_.emplace(std::move(search));
  return search_->Drive(*this);
}

absl::Status StudyRun::Run() {
  const auto study = store_.GetStudy(study_);
  if (absl::IsNotFound(study.status())) return Interrupted();
  if (!study.ok()) return study.status();
  if (study->state() != v1::STUDY_STATE_RUNNING || notifier_.closed()) return Interrupted();
  AUTOCFG_ASSIGN_OR_RETURN(const auto usage, store_.Usage(study_));
  trace_parent_ = study->trace_parent();
  events_.begins();
  owner_ = study->owner();
  started_s_ = planning_saved_s_ = clock_();  // what is planned at once shows no progress
  used_before_s_ = usage.wall_s;
  planning_from_cpu_s_ = ThreadCpuSeconds();

  absl::Status status;
  try {
    auto problem = ParseSearchSpec(study->spec());
    if (problem.ok()) {
      problem_ = *std::move(problem);
      status = SaveProgress("enumerating");
      if (status.ok()) status = Search();
    } else {
      status = problem.status();
    }
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (!store_error_.ok()) return store_error_;
  if (absl::IsCancelled(status) && planning_over_budget_) {
    status = absl::DeadlineExceededError(
        fmt::format("the time budget of {} s ended the search before it had a plan: {}; give more time, or "
                    "name values with --space",
                    problem_->time_budget_s, std::string(status.message())));
  }
  if (absl::IsCancelled(status) && planning_over_limit_) {
    status = absl::ResourceExhaustedError(
        fmt::format("planning took {:g} s of a core, the most that this coordinator gives a study "
                    "(--max-planning): {}; name fewer values with --space, or a smaller batch or cluster",
                    most_planning_s_, std::string(status.message())));
  }
  if (status.ok()) {
    std::string message = search_->NothingFits();
    if (message.empty() && BudgetLeft() <= 0) {
      message = fmt::format("the time budget of {} s is spent", problem_->time_budget_s);
    } else if (const std::int64_t left = search_->loop().PlansLeft(); message.empty() && left > 0) {
      message = fmt::format("max_trials of {} is reached; {} plan{} left unmeasured",
                            problem_->options.max_trials, left, left == 1 ? " is" : "s are");
    }
    status = Finish(v1::STUDY_STATE_DONE, message);
  } else if (!absl::IsCancelled(status)) {
    status = Finish(v1::STUDY_STATE_FAILED, std::string(status.message()));
  }
  if (absl::IsCancelled(status)) {
    // Keeps the used time. This run may no longer edit the study's row.
    if (absl::Status saved = Modify([](v1::Study&) { return absl::OkStatus(); });
        !saved.ok() && !absl::IsCancelled(saved)) {
      return saved;
    }
  }
  return status;
}

}  // namespace autocfg::server
