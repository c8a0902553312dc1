#include "trainer/run/train_loop.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
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

// Where the traced steps so far lie.
struct TracedSpan {
  bool begun = false;
  double begin_s = 0;  // of the first step, on the clock of the machine; of a virtual clock: the steps so far
};

// Adds the rows of the step that has just ended after `seconds`, in seconds since the first rank of the
// machine began the first traced step. Collective unless the clock is virtual.
void FillTrace(const TraceRecorder& recorder, RankTrainer& trainer, const StepClock& clock, double seconds,
               TracedSpan& traced, v1::TrainResult& result) {
  const double origin_s = clock.OriginSeconds();
  double shift_s = traced.begin_s;
  if (clock.IsVirtual()) {
    traced.begin_s += seconds;
  } else {
    if (!traced.begun) traced.begin_s = -trainer.LargestOverRanks(-origin_s);
    shift_s = origin_s - traced.begin_s;
  }
  traced.begun = true;
  for (TraceRow row : recorder.Rows(shift_s)) {
    row.step = static_cast<std::int32_t>(trainer.step());
    *result.add_trace() = ToProto(row);
  }
}

// Adds the timeline of a step. `times`: of this rank's actions, since it began the step, `late_s` after the
// first rank. One rank of each coordinate in the pipeline has one.
void FillTimeline(const RankTrainer& trainer, const std::vector<ActionTime>& times, double late_s,
                  v1::TrainResult& result) {
  const RankShape& shape = trainer.shape();
  if (shape.tensor != 0 || shape.data != 0) return;
  const RankProgram& program = trainer.program();
  v1::StepTimeline& timeline = *result.mutable_timeline();
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

// Adds the breakdown and the timeline of the last step, which took all ranks `step_s` seconds.
void FillRecorded(const BreakdownRecorder& recorder, RankTrainer& trainer, const Backend& backend,
                  const ParallelPlan& plan, double step_s, std::int64_t world_size, v1::TrainResult& result) {
  const StepClock& clock = *backend.clock;
  std::vector<ActionTime> times = recorder.Times();
  const double late_s = clock.IsVirtual() ? 0 : trainer.MeetPeers(clock.OriginSeconds(), times);
  if (CollectiveTimes* const collectives = TimesToRecord(plan, backend); collectives != nullptr)
    recorder.AddHidden(collectives->Spans(clock.OriginSeconds(), late_s), times);
  *result.mutable_breakdown_s() = ToProto(BreakdownOfRank(trainer.program(), times, step_s, world_size == 1));
  if (!KnowsHiddenCollectives(plan, backend, clock)) result.mutable_breakdown_s()->clear_hidden_comm();
  FillTimeline(trainer, times, late_s, result);
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

// Saves the weights unless the run diverged on any rank, since that would replace good weights. Collective:
// every rank has parts to send, so all ranks decide together.
void SaveUnlessDiverged(const TrainConfig& config, bool diverged, RankTrainer& trainer) {
  if (trainer.LargestOverRanks(diverged ? 1 : 0) == 0) {
    trainer.Save(config.save_path);
  } else if (trainer.shape().rank == 0) {
    spdlog::warn("a loss or gradient norm is not finite; not saving weights to {}", config.save_path);
  }
}

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

// Saves a checkpoint unless the run diverged on any rank, as SaveUnlessDiverged. Sets `saved` on rank 0 to
// its path.
void SaveCheckpointUnlessDiverged(bool diverged, RankTrainer& trainer, std::string& saved) {
  if (trainer.LargestOverRanks(diverged ? 1 : 0) == 0) {
    saved = trainer.SaveCheckpoint();
  } else if (trainer.shape().rank == 0) {
    spdlog::warn("a loss or gradient norm is not finite; no checkpoint of step {} is saved", trainer.step());
  }
}

}  // namespace

v1::TrainResult Train(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend,
                      const ProgressFunction& progress, const StopFunction& stop_requested) {
  StepClock* const clock = backend.clock.get();
  if ((config.trace || config.record_breakdown) && clock == nullptr) {
    throw BadInput(fmt::format("the {} device takes no time and cannot be traced; use cpu, cuda or paced",
                               backend.device->Name()));
  }
  CheckTrainConfig(config, world_size);
  RankTrainer trainer(config, config.slice ? RankOfSlice(config) : rank,
                      config.slice ? RankCount(config.plan) : world_size, backend);
  std::optional<TraceRecorder> recorder;
  std::optional<BreakdownRecorder> breakdown;
  TracedSpan traced;
  const bool has_losses = backend.device->Computes() && !config.slice;
  bool diverged = false;
  ChoiceLog choices;
  v1::TrainResult result;
  const std::int64_t first_step = trainer.step();
  const std::int64_t first_timed = first_step + config.untimed_steps;
  std::string saved;
  bool stops = false;
  std::int64_t peak_bytes = 0;
  for (std::int64_t step = first_step; step < config.lr.steps && !stops; ++step) {
    if (config.record_breakdown && step + 1 == first_timed) {
      breakdown.emplace(trainer.program(), *clock, trainer.stream());
      trainer.SetObserver(&*breakdown);
    }
    if (config.trace && step >= config.lr.steps - config.trace_steps) {
      recorder.emplace(trainer.shape().rank, trainer.program(), *clock);
      trainer.SetObserver(&*recorder);
    }
    trainer.Barrier();
    CollectiveTimes* const collectives = breakdown ? TimesToRecord(config.plan, backend) : nullptr;
    if (collectives != nullptr) collectives->Begin(trainer.stream());
    if (clock != nullptr) clock->Restart();
    const StepResult done = trainer.Step();
    if (collectives != nullptr) collectives->End();
    v1::Progress report;
    report.set_step(step + 1);
    if (clock != nullptr) {
      if (clock->IsVirtual()) trainer.Barrier();
      const double seconds = clock->Seconds();
      if (step >= first_timed) result.add_step_time_s(seconds);
      // The slowest rank's time, as in the run's summary. Exchanged between steps, while no clock runs.
      report.set_step_time_s(has_losses ? trainer.LargestOverRanks(seconds) : seconds);
      if (breakdown) {
        FillRecorded(*breakdown, trainer, backend, config.plan, report.step_time_s(), world_size, result);
        trainer.SetObserver(nullptr);
        breakdown.reset();
      }
    }
    if (recorder) FillTrace(*recorder, trainer, *clock, clock->Seconds(), traced, result);
    if (has_losses) {
      diverged = diverged || !std::isfinite(done.loss) || !std::isfinite(done.grad_norm);
      result.add_losses(done.loss);
      result.add_grad_norms(done.grad_norm);
      report.set_loss(done.loss);
      report.set_grad_norm(done.grad_norm);
    }
    if (step == first_step) {
      std::vector<std::string> notes = trainer.resumed().notes;
      if (std::string note = trainer.data().Description(); !note.empty()) notes.push_back(std::move(note));
      for (const std::string& note : notes) {
        report.add_notes(TextOfRank(note));
        if (rank == 0) spdlog::info("{}", note);
      }
    }
    if (has_losses) {
      // The same program runs in every step, so that the first one reaches the peak.
      if (step == first_step) peak_bytes = WorstPeakBytes(trainer, backend);
      report.set_peak_memory_bytes(peak_bytes);
    }
    if (rank == 0 && progress) progress(report);
    if (!config.checkpoint_path.empty() && step + 1 < config.lr.steps)
      stops = trainer.LargestOverRanks(stop_requested && stop_requested() ? 1 : 0) > 0;
    if (stops || SavesAfter(config, step + 1)) SaveCheckpointUnlessDiverged(diverged, trainer, saved);
    if (step + 1 == std::clamp<std::int64_t>(first_timed, first_step + 1, config.lr.steps))
      choices.LogNew(trainer, backend);
  }
  choices.LogNew(trainer, backend);
  trainer.SetObserver(nullptr);
  if (!config.save_path.empty() && !stops) SaveUnlessDiverged(config, diverged, trainer);
  trainer.Barrier();  // no rank leaves while a peer still needs it
  FillMemory(trainer, backend, config.memory_capacity_bytes, result);
  result.set_first_step(first_step);
  result.set_checkpoint_path(base::CleanUtf8(saved, saved.size()));
  if (config.slice) {
    result.mutable_slice()->set_tensor(config.slice->tensor);
    result.mutable_slice()->set_pipeline(config.slice->pipeline);
  }
  return result;
}

}  // namespace autocfg::trainer
