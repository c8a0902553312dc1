// Walks a rank's program, step after step. One rank, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/device.h"
#include "search/schedule/program.h"
#include "trainer/model/memory_layout.h"
#include "trainer/model/pipeline_stage.h"
#include "trainer/optim/adamw.h"
#include "trainer/parallel/execution.h"
#include "trainer/run/data.h"

namespace autocfg {

struct StepResult {
  double loss = 0;       // mean over all tokens of the global batch, before the update
  double grad_norm = 0;  // global L2 norm, before clipping
};

class Runner {
 public:
  // What the optimizer does with the step's gradient norm.
  using Optimizer = std::function<void(double grad_norm)>;

  // All arguments must outlive the runner.
  Runner(const RankShape& shape, const RankProgram& program, const MemoryLayout& layout,
         const PipelineStage& stage, const Execution& run, Device& device, TokenSource& data);

  // Runs every action of the program once. The result is the same on every rank; zeros where the device
  // computes nothing. Throws what devices, communicators and data throw.
  StepResult RunStep(std::int64_t step, const Optimizer& optimizer);

  // The most activation slots that were taken at once, so far.
  int max_slots_used() const { return max_slots_used_; }

 private:
  void Issue(const Action& action, std::size_t index);
  void WaitFor(const Action& action);
  void Forward(const Action& action);
  void Backward(const Action& action);
  void ReduceScalars();
  void LoadTokens(std::int64_t microbatch, const ActivationSlot& slot);
  int TakeSlot(std::int64_t microbatch);
  const ActivationSlot& SlotOf(std::int64_t microbatch) const;
  int PeerInPipeline(const Action& action) const;
  void Keep(std::size_t index, std::unique_ptr<Work> work);

  const RankShape& shape_;
  const RankProgram& program_;
  const MemoryLayout& layout_;
  const PipelineStage& stage_;
  Execution run_;
  Device& device_;
  TokenSource& data_;
  RankMesh mesh_;

  std::vector<std::int64_t> backward_order_;  // by microbatch: the j of its backward
  std::vector<int> slot_of_;                  // by microbatch; -1: none
  std::vector<bool> slot_taken_;
  int max_slots_used_ = 0;
  std::vector<std::int64_t> tickets_;  // by action; -1: not communication
  std::int64_t step_ = 0;
  StepResult result_;
  const Optimizer* optimizer_ = nullptr;
  std::vector<std::int32_t> sequence_, tokens_, targets_;
};

}  // namespace autocfg
