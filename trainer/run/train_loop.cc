#include "trainer/run/train_loop.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/step_timeline.h"
#include "proto/convert/trainer_convert.h"
#include "proto/rank_messages.h"
#include "trainer/layout/errors.h"
#include "trainer/run/breakdown_recorder.h"
#include "trainer/run/rank_trainer.h"
#include "trainer/run/trace_recorder.h"

namespace autocfg::trainer {
namespace {

void FillMemory(const RankTrainer& trainer, const Backend& backend, std::int64_t capacity,
                v1::TrainResult& result) {
  const Arena& arena = trainer.arena();
  v1::MemoryBytes& planned = *result.mutable_planned_memory_bytes();
  planned.set_parameters(arena.ReservedBytes(Region::kParameters));
  planned.set_gradients(arena.ReservedBytes(Region::kGradients));
  planned.set_optimizer(arena.ReservedBytes(Region::kOptimizer));
  planned.set_activations(arena.ReservedBytes(Region::kActivations));
  planned.set_workspace(arena.ReservedBytes(Region::kWorkspace));
  planned.set_communication(arena.ReservedBytes(Region::kCommunication));
  planned.set_total(arena.TotalBytes());
  planned.set_capacity(capacity);
  result.set_peak_memory_bytes(trainer.PeakBytes());
  result.set_device_overhead_bytes(OverheadBytes(backend, arena.TotalBytes()));
}

// Returns the peak of the worst rank, of its arena and beside it. Collective, between steps.
std::int64_t WorstPeakBytes(RankTrainer& trainer, const Backend& backend) {
  const std::int64_t bytes = trainer.PeakBytes() + OverheadBytes(backend, trainer.arena().TotalBytes());
  return static_cast<std::int64_t>(trainer.LargestOverRanks(static_cast<double>(bytes)));
}

// Returns whether the plan lets collectives run beside computes.
bool OverlapsCollectives(const ParallelPlan& plan) {
  return TensorChunks(plan) > 1 || OverlapsGradients(plan) || OverlapsParameters(plan);
}

// Returns whether it is known how long collectives ran beside computes. On CPUs they never do: a rank's core
// moves their data itself. On a GPU they are timed if they run on its streams.
bool KnowsHiddenCollectives(const ParallelPlan& plan, const Backend& backend, const StepClock& clock) {
  return clock.IsVirtual() || backend.device->ComputesOnHost() || !OverlapsCollectives(plan) ||
         backend.comm->collective_times() != nullptr;
}

// Returns what times the collectives of a recorded step, or null if that is not needed or not possible.
CollectiveTimes* TimesToRecord(const ParallelPlan& plan, const Backend& backend) {
  return OverlapsCollectives(plan) ? backend.comm->collective_times() : nullptr;
}

// Logs each choice of the ops once, the unusual ones at the level info, the others at debug. Of all ranks
// that run the same shapes, one logs those that they share.
class ChoiceLog {
 public:
  void LogNew(const RankTrainer& trainer, const Backend& backend) {
    if (!backend.choices) return;
    const bool logs_shared = trainer.shape().tensor == 0 && trainer.shape().data == 0;
    for (const OpChoice& choice : backend.choices()) {
      if (!(logs_shared || choice.own) || !logged_.insert(choice.text).second) continue;
      spdlog::log(choice.usual ? spdlog::level::debug : spdlog::level::info, "op choice: {}", choice.text);
    }
  }

 private:
  std::set<std::string> logged_;
};

// Returns a note as a text that the launcher's protocol takes. It may quote a path, whose bytes need not be
// UTF-8.
std::string TextOfRank(const std::string& note) {
  return base::OneLine(base::CleanUtf8(note, note.size()), kMaxRankErrorBytes);
}

// Returns whether a checkpoint is due after `done` steps: every save_every steps, and at the end.
bool SavesAfter(const TrainConfig& config, std::int64_t done) {
  if (config.checkpoint_path.empty()) return false;
  return done == config.lr.steps || (config.save_every > 0 && done % config.save_every == 0);
}

// The steps of a run, and what is kept of them.
class TrainLoop {
 public:
  TrainLoop(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend)
      : config_(config),
        rank_(rank),
        world_size_(world_size),
        backend_(backend),
        clock_(backend.clock.get()),
        trainer_(config, config.slice ? RankOfSlice(config) : rank,
                 config.slice ? RankCount(config.plan) : world_size, backend),
        has_losses_(backend.device->Computes() && !config.slice),
        first_step_(trainer_.step()),
        first_timed_(first_step_ + config.untimed_steps) {}

  v1::TrainResult Run(const ProgressFunction& progress, const StopFunction& stop_requested) {
    bool stops = false;
    for (std::int64_t step = first_step_; step < config_.lr.steps && !stops; ++step) {
      const v1::Progress report = RunStep(step);
      if (rank_ == 0 && progress) progress(report);
      if (!config_.checkpoint_path.empty() && step + 1 < config_.lr.steps)
        stops = trainer_.LargestOverRanks(stop_requested && stop_requested() ? 1 : 0) > 0;
      if (stops || SavesAfter(config_, step + 1)) SaveCheckpoint();
      if (step + 1 == std::clamp<std::int64_t>(first_timed_, first_step_ + 1, config_.lr.steps))
        choices_.LogNew(trainer_, backend_);
    }
    choices_.LogNew(trainer_, backend_);
    trainer_.SetObserver(nullptr);
    if (!config_.save_path.empty() && !stops) SaveWeights();
    trainer_.Barrier();  // no rank leaves while a peer still needs it
    FillMemory(trainer_, backend_, config_.memory_capacity_bytes, result_);
    result_.set_first_step(first_step_);
    if (config_.slice) {
      result_.mutable_slice()->set_tensor(config_.slice->tensor);
      result_.mutable_slice()->set_pipeline(config_.slice->pipeline);
    }
    return std::move(result_);
  }

 private:
  v1::Progress RunStep(std::int64_t step) {
    ObserveStep(step);
    trainer_.Barrier();
    CollectiveTimes* const collectives = breakdown_ ? TimesToRecord(config_.plan, backend_) : nullptr;
    if (collectives != nullptr) collectives->Begin(trainer_.stream());
    if (clock_ != nullptr) clock_->Restart();
    const StepResult done = trainer_.Step();
    if (collectives != nullptr) collectives->End();
    v1::Progress report;
    report.set_step(step + 1);
    if (clock_ != nullptr) AddTimes(step, report);
    if (step == first_step_) AddNotes(report);
    if (has_losses_) AddLosses(step, done, report);
    return report;
  }

  // Sets what records the step, if anything does.
  void ObserveStep(std::int64_t step) {
    if (config_.record_breakdown && step + 1 == first_timed_) {
      breakdown_.emplace(trainer_.program(), *clock_, trainer_.stream());
      trainer_.SetObserver(&*breakdown_);
    }
    if (config_.trace && step >= config_.lr.steps - config_.trace_steps) {
      recorder_.emplace(trainer_.shape().rank, trainer_.program(), *clock_);
      trainer_.SetObserver(&*recorder_);
    }
  }

  // Adds the time of the step that has just ended, and what was recorded of it.
  void AddTimes(std::int64_t step, v1::Progress& report) {
    if (clock_->IsVirtual()) trainer_.Barrier();
    const double seconds = clock_->Seconds();
    if (step >= first_timed_) result_.add_step_time_s(seconds);
    // The slowest rank's time, as in the run's summary. Exchanged between steps, while no clock runs.
    report.set_step_time_s(has_losses_ ? trainer_.LargestOverRanks(seconds) : seconds);
    if (breakdown_) {
      AddBreakdown(report.step_time_s());
      trainer_.SetObserver(nullptr);
      breakdown_.reset();
    }
    if (recorder_) AddTrace(clock_->Seconds());
  }

  // Adds the breakdown and the timeline of the step, which took all ranks `step_s` seconds.
  void AddBreakdown(double step_s) {
    std::vector<ActionTime> times = breakdown_->Times();
    const double late_s = clock_->IsVirtual() ? 0 : trainer_.MeetPeers(clock_->OriginSeconds(), times);
    if (CollectiveTimes* const collectives = TimesToRecord(config_.plan, backend_); collectives != nullptr)
      breakdown_->AddHidden(collectives->Spans(clock_->OriginSeconds(), late_s), times);
    v1::Breakdown& parts = *result_.mutable_breakdown_s();
    parts = ToProto(BreakdownOfRank(trainer_.program(), times, step_s, world_size_ == 1));
    if (!KnowsHiddenCollectives(config_.plan, backend_, *clock_)) parts.clear_hidden_comm();
    AddTimeline(times, late_s);
  }

  // Adds the timeline of the step. `times`: of this rank's actions, since it began the step, `late_s` after
  // the first rank. One rank of each coordinate in the pipeline has one.
  void AddTimeline(const std::vector<ActionTime>& times, double late_s) {
    const RankShape& shape = trainer_.shape();
    if (shape.tensor != 0 || shape.data != 0) return;
    const RankProgram& program = trainer_.program();
    v1::StepTimeline& timeline = *result_.mutable_timeline();
    if (program.size() > kMostTimelineRows) {
      timeline = TooLongTimeline(static_cast<std::int64_t>(program.size()));
      return;
    }
    for (std::size_t i = 0; i < program.size(); ++i) {
      const double start_s = std::max(0.0, times[i].start_s + late_s);
      *timeline.add_rows() = ToProto(TimelineRow{.pipeline = static_cast<std::int32_t>(shape.pipeline),
                                                 .action = program[i],
                                                 .start_s = start_s,
                                                 .end_s = std::max(start_s, times[i].end_s + late_s)});
    }
  }

  // Adds the rows of the step, which took `seconds`, in seconds since the first rank of the machine began the
  // first traced step. Collective unless the clock is virtual.
  void AddTrace(double seconds) {
    const double origin_s = clock_->OriginSeconds();
    double shift_s = trace_begin_s_.value_or(0);
    if (clock_->IsVirtual()) {
      trace_begin_s_ = shift_s + seconds;
    } else {
      if (!trace_begin_s_) trace_begin_s_ = -trainer_.LargestOverRanks(-origin_s);
      shift_s = origin_s - *trace_begin_s_;
    }
    for (TraceRow row : recorder_->Rows(shift_s)) {
      row.step = static_cast<std::int32_t>(trainer_.step());
      *result_.add_trace() = ToProto(row);
    }
  }

  void AddNotes(v1::Progress& report) {
    std::vector<std::string> notes = trainer_.resumed().notes;
    if (std::string note = trainer_.data().Description(); !note.empty()) notes.push_back(std::move(note));
    for (const std::string& note : notes) {
      report.add_notes(TextOfRank(note));
      if (rank_ == 0) spdlog::info("{}", note);
    }
  }

  void AddLosses(std::int64_t step, const StepResult& done, v1::Progress& report) {
    diverged_ = diverged_ || !std::isfinite(done.loss) || !std::isfinite(done.grad_norm);
    result_.add_losses(done.loss);
    result_.add_grad_norms(done.grad_norm);
    report.set_loss(done.loss);
    report.set_grad_norm(done.grad_norm);
    // The same program runs in every step, so that the first one reaches the peak.
    if (step == first_step_) peak_bytes_ = WorstPeakBytes(trainer_, backend_);
    report.set_peak_memory_bytes(peak_bytes_);
  }

  // Saves the weights, or a checkpoint, unless the run diverged on any rank, since that would replace good
  // ones. Collective: every rank has parts to send, so all ranks decide together.
  void SaveWeights() {
    if (!AnyDiverged()) return trainer_.Save(config_.save_path);
    if (trainer_.shape().rank == 0)
      spdlog::warn("a loss or gradient norm is not finite; not saving weights to {}", config_.save_path);
  }
  void SaveCheckpoint() {
    if (!AnyDiverged()) {
      const std::string saved = trainer_.SaveCheckpoint();  // its path, on rank 0
      result_.set_checkpoint_path(base::CleanUtf8(saved, saved.size()));
    } else if (trainer_.shape().rank == 0) {
      spdlog::warn("a loss or gradient norm is not finite; no checkpoint of step {} is saved",
                   trainer_.step());
    }
  }
  bool AnyDiverged() { return trainer_.LargestOverRanks(diverged_ ? 1 : 0) > 0; }

  const TrainConfig& config_;
  const std::int64_t rank_, world_size_;
  Backend& backend_;
  StepClock* const clock_;  // null if the device takes no time
  RankTrainer trainer_;
  const bool has_losses_;
  const std::int64_t first_step_, first_timed_;
  std::optional<TraceRecorder> recorder_;
  std::optional<BreakdownRecorder> breakdown_;
  // When the first traced step began, on the clock of the machine; of a virtual clock, the time of the traced
  // steps so far.
  std::optional<double> trace_begin_s_;
  ChoiceLog choices_;
  bool diverged_ = false;
  std::int64_t peak_bytes_ = 0;
  v1::TrainResult result_;
};

}  // namespace

v1::TrainResult Train(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend,
                      const ProgressFunction& progress, const StopFunction& stop_requested) {
  if ((config.trace || config.record_breakdown) && backend.clock == nullptr) {
    throw BadInput(fmt::format("the {} device takes no time and cannot be traced; use cpu, cuda or paced",
                               backend.device->Name()));
  }
  CheckTrainConfig(config, world_size);
  return TrainLoop(config, rank, world_size, backend).Run(progress, stop_requested);
}

}  // namespace autocfg::trainer
