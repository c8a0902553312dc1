// Executes a rank's program, step after step. One rank, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"
#include "trainer/backend/step_clock.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/model/pipeline_stage.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/execution.h"
#include "trainer/run/buffer_plan.h"
#include "trainer/run/data.h"

namespace autocfg::trainer {

struct StepResult {
  double loss = 0;       // mean over all tokens of the global batch, before the update
  double grad_norm = 0;  // global L2 norm, before clipping
};

// Observes the start and end of each action of a rank, and the sections in them. Traces and breakdowns are
// built from it. Called on the rank's thread.
class ActionObserver : public SectionObserver {
 public:
  // `action` is the index in the rank's program. Each action of a step gets one OnStart and later one OnEnd,
  // all before RunStep returns. A compute action or reduction spans from the completion of all its
  // dependencies to the availability of its results (the stream is empty); only one runs at a time. A send or
  // receive spans from its issue until it is complete and has been waited for: by the first action that needs
  // it, or else at the end of the step.
  virtual void OnStart(std::size_t action) = 0;
  virtual void OnEnd(std::size_t action) = 0;
};

class Runner {
 public:
  // Issues the update of the step. The gradients' squared norm is then in its place on the device, not on the
  // host.
  using Optimizer = std::function<void()>;

  // `stages`: by chunk. `clock`: null if the device takes no time. All arguments must outlive the runner.
  Runner(const RankShape& shape, const RankProgram& program, MemoryLayout& layout,
         std::span<const PipelineStage> stages, const Execution& run, Device& device, StepClock* clock,
         TokenSource& data);

  // Null (the default) disables notification. `observer` must outlive the steps that it observes.
  void set_observer(ActionObserver* observer) { run_.observer = observer_ = observer; }

  // Runs every action of the program once. Synchronizes once, at the end of the step, unless an observer is
  // attached or a communicator blocks earlier. The result is the same on every rank; it is zero if the device
  // computes nothing. Throws the errors of devices, communicators and data.
  StepResult RunStep(std::int64_t step, const Optimizer& optimizer);

  // Returns the highest number of a chunk's activation slots in use at once, so far.
  std::size_t max_slots_used(std::size_t chunk) const { return max_slots_used_.at(chunk); }

 private:
  void Run(std::size_t index);
  void WaitFor(const Action& action);
  void Compute(const Action& action);
  std::unique_ptr<Work> Communicate(const Action& action);
  void Forward(const Action& action);
  void Backward(const Action& action);  // or its first part
  void WeightGradient(const Action& action);
  void BeginCompute(const Action& action);
  void EndCompute();
  void ReduceScalars();
  StepResult ReadScalars();
  void LoadTokens(std::int64_t microbatch, const StageShape& stage, const ActivationSlot& slot);
  const BufferUse& UseOf(const Action& action) const;
  ActivationSlot& SlotOf(const Action& action) const;
  int PeerInPipeline(const Action& action) const;

  const RankShape& shape_;
  const RankProgram& program_;
  MemoryLayout& layout_;
  std::span<const PipelineStage> stages_;
  Execution run_;
  Device& device_;
  StepClock* const clock_;
  TokenSource& data_;
  RankMesh mesh_;
  BufferPlan buffers_;
  ActionObserver* observer_ = nullptr;

  std::vector<std::size_t> max_slots_used_;  // by chunk
  std::vector<std::int64_t> tickets_;        // by action; -1: not communication
  std::int64_t step_ = 0;
  const Optimizer* optimizer_ = nullptr;
  std::vector<std::int32_t> sequence_, tokens_, targets_;
};

}  // namespace autocfg::trainer
