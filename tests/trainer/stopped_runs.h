// Training runs on threads that stop before their last step and save a checkpoint there, or continue from
// one. For tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/thread_ranks.h"

namespace autocfg::test {

// Runs config until `last` steps are done, then saves a checkpoint if the run has a directory for it. Returns
// the steps that it ran itself.
inline TrainedRun RunUntil(const trainer::TrainConfig& config, std::int64_t last, World world = World::kUcx) {
  const int ranks = static_cast<int>(RankCount(config.plan));
  auto rendezvous = trainer::CreateLocalRendezvous(ranks);
  std::vector<RankPart> parts(static_cast<std::size_t>(ranks));
  RunThreads(ranks, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    trainer::Backend backend = MakeBackend(*rendezvous[index], world);
    trainer::RankTrainer trainer(config, rank, ranks, backend);
    std::vector<trainer::StepResult> steps;
    while (trainer.step() < last) steps.push_back(trainer.Step());
    if (!config.checkpoint_path.empty()) trainer.SaveCheckpoint();
    trainer.CompleteParameters();
    parts[index] = TakePart(trainer, std::move(steps), *backend.device);
    trainer.Barrier();
  });
  return Assemble(parts);
}

// Runs `first` until `stop` steps are done, saves to `directory`, and continues there as `second` until its
// last step. Returns all steps and the weights at the end.
inline TrainedRun StopAndResume(trainer::TrainConfig first, trainer::TrainConfig second, std::int64_t stop,
                                const std::string& directory, World world = World::kUcx) {
  first.checkpoint_path = directory;
  second.resume_path = directory;
  const TrainedRun start = RunUntil(first, stop, world);
  TrainedRun run = RunUntil(second, second.lr.steps, world);
  run.steps.insert(run.steps.begin(), start.steps.begin(), start.steps.end());
  run.differences.insert(start.differences.begin(), start.differences.end());
  return run;
}

}  // namespace autocfg::test
