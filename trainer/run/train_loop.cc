#include "trainer/run/train_loop.h"

#include <chrono>

#include "trainer/run/rank_trainer.h"

namespace autocfg {
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
  result.set_device_overhead_bytes(backend.device->OverheadBytes(arena.TotalBytes()));
}

}  // namespace

v1::TrainResult Train(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend,
                      const ProgressFunction& progress) {
  using Clock = std::chrono::steady_clock;
  RankTrainer trainer(config, rank, world_size, backend);
  const bool computes = backend.device->ComputesOnHost();
  v1::TrainResult result;
  for (std::int64_t step = 0; step < config.lr.steps; ++step) {
    trainer.Barrier();
    const Clock::time_point start = Clock::now();
    const StepResult done = trainer.Step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    v1::Progress report;
    report.set_step(step + 1);
    if (computes) {
      result.add_losses(done.loss);
      result.add_grad_norms(done.grad_norm);
      if (step >= config.untimed_steps) result.add_step_time_s(seconds);
      report.set_loss(done.loss);
      report.set_grad_norm(done.grad_norm);
      report.set_step_time_s(seconds);
    }
    if (rank == 0 && progress) progress(report);
  }
  if (!config.save_path.empty()) trainer.Save(config.save_path);
  trainer.Barrier();  // nobody leaves while a peer still needs it
  FillMemory(trainer, backend, config.memory_capacity_bytes, result);
  return result;
}

}  // namespace autocfg
