// One rank of a training run: its memory, communicators, weights and runner. One rank, one thread. Every rank
// of the plan creates one and calls the same methods in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "search/breakdown/step_breakdown.h"
#include "search/schedule/program.h"
#include "trainer/backend/backend.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/config/train_config.h"
#include "trainer/parallel/unit_exchange.h"
#include "trainer/run/data.h"
#include "trainer/run/runner.h"

namespace autocfg::trainer {

class RankTrainer {
 public:
  // Validates the run, plans and reserves its memory, creates the groups and sets the weights, or the state
  // of the checkpoint that config.resume_path names. Throws
  // BadInput, NotSupported, DoesNotFit or CommError. Requires 0 <= rank < world_size. `config` and `backend`
  // must outlive the trainer.
  RankTrainer(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend);
  ~RankTrainer();
  RankTrainer(const RankTrainer&) = delete;
  RankTrainer& operator=(const RankTrainer&) = delete;

  // Runs the next step. If the backend has a log, it then holds the ops of this step.
  StepResult Step();

  // Notifies `observer` of every action of later steps; null disables this. The observer must outlive those
  // steps.
  void SetObserver(ActionObserver* observer) { runner_->set_observer(observer); }

  // Returns when every rank has called it.
  void Barrier();

  // Returns the largest of the ranks' values. Collective, between steps. Requires a device that computes.
  // Overwrites the loss in the workspace.
  double LargestOverRanks(double value);

  // Limits the times of the last step's actions to when messages and collectives ran (peer_times.h).
  // `origin_s`: the start of the step, on the clock of the machine. Returns how much later than the first
  // rank this rank began the step. Collective, between steps. Requires a device that computes. Overwrites the
  // loss in the workspace.
  double MeetPeers(double origin_s, std::vector<ActionTime>& times);

  // Makes the parameters complete that the rank keeps whole. With param_overlap they are so only within a
  // step, since the next one gathers what this one has updated. Collective, between steps.
  void CompleteParameters();

  // Writes the weights. Collective.
  void Save(const std::string& path);

  // Writes a checkpoint of the steps so far to config.checkpoint_path. Returns its path on rank 0.
  // Collective, between steps.
  std::string SaveCheckpoint();

  // Returns the number of completed steps, of which the first `resumed().step` were another run's.
  std::int64_t step() const { return step_; }
  const RestoredState& resumed() const { return resumed_; }
  const TokenSource& data() const { return *data_; }

  const RankShape& shape() const { return shape_; }
  const MemoryLayout& layout() const { return *layout_; }
  const Arena& arena() const { return *arena_; }
  const RankProgram& program() const { return program_; }
  Stream& stream() { return *stream_; }

  // Returns the size of the arena without the activation slots that no step has used so far.
  std::int64_t PeakBytes() const;

 private:
  void PlanMemory();
  void SetWeights();
  RankState State();

  const TrainConfig& config_;
  Backend& backend_;
  RankShape shape_;
  RankProgram program_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<MemoryLayout> layout_;
  Groups groups_;
  PendingWorks pending_;
  std::unique_ptr<Ops> progressing_ops_;  // null: nothing overlaps compute
  std::optional<UnitExchange> units_;
  std::optional<Execution> run_;
  std::optional<RankExchange> exchange_;
  std::vector<PipelineStage> stages_;  // by chunk
  std::unique_ptr<TokenSource> data_;
  RunIdentity identity_;                            // empty if the run neither saves nor resumes
  std::optional<CheckpointDirectory> checkpoints_;  // on rank 0
  RestoredState resumed_;
  std::optional<Runner> runner_;
  std::int64_t step_ = 0;
};

}  // namespace autocfg::trainer
