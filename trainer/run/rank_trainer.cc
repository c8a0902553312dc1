#include "trainer/run/rank_trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "search/plan/placement.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/layout/errors.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/model/initialize.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/progressing_ops.h"
#include "trainer/run/peer_times.h"

namespace autocfg::trainer {
namespace {

// Returns the rank's program, after checking that the sender predicted the same one.
RankProgram MakeProgram(const TrainConfig& config, std::int64_t rank) {
  Program program = Lower(config);
  const std::uint64_t fingerprint = Fingerprint(program);
  if (config.program_fingerprint != 0 && config.program_fingerprint != fingerprint) {
    throw BadInput(fmt::format(
        "plan and engine disagree: the plan was predicted as program {:016x}, this engine would run {:016x}; "
        "use a trainer of the same build",
        config.program_fingerprint, fingerprint));
  }
  return std::move(program.ranks.at(rank));
}

// Returns, by chunk, the number of activation slots that the rank's program needs.
std::vector<int> SlotsOf(const RankShape& shape, const RankProgram& program) {
  std::vector<int> slots;
  for (const StageShape& chunk : shape.chunks)
    slots.push_back(static_cast<int>(ActivationSlots(program, chunk.stage)));
  return slots;
}

// Throws if the device cannot compute in this precision. A device that computes nothing accepts any.
void CheckPrecision(const Precision& precision, const Device& device) {
  if (device.ComputesIn(precision.compute)) return;
  std::vector<std::string_view> names;
  for (const std::string_view name : {"bf16", "fp16", "fp32", "fp64"}) {
    if (device.ComputesIn(ParsePrecision(name)->compute)) names.push_back(name);
  }
  throw NotSupported(fmt::format("precision {} is not supported yet on this device; use {}",
                                 BaseName(precision), fmt::join(names, " or ")));
}

Region LargestRegion(const Arena& arena) {
  Region largest = Region::kParameters;
  for (int i = 0; i < kRegionCount; ++i) {
    if (arena.ReservedBytes(static_cast<Region>(i)) > arena.ReservedBytes(largest))
      largest = static_cast<Region>(i);
  }
  return largest;
}

}  // namespace

RankTrainer::RankTrainer(const TrainConfig& config, std::int64_t rank, std::int64_t world_size,
                         Backend& backend)
    : config_(config), backend_(backend) {
  CheckTrainConfig(config, world_size);
  CheckPrecision(config.workload.precision, *backend.device);
  shape_ = MakeRankShape(config, rank);
  program_ = MakeProgram(config, rank);
  if (!config.save_path.empty()) {
    if (!backend.device->Computes())
      throw BadInput(
          fmt::format("the {} device computes no weights; leave out --save", backend.device->Name()));
    if (rank == 0) CheckSavePath(config.save_path);
  }
  if (!config.checkpoint_path.empty() || !config.resume_path.empty()) {
    if (!backend.device->Computes())
      throw BadInput(fmt::format("the {} device computes no weights; leave out --checkpoint and --resume",
                                 backend.device->Name()));
    if (rank == 0 && !config.checkpoint_path.empty()) {
      checkpoints_.emplace(
          config.checkpoint_path,
          !config.resume_path.empty() && IsOfDirectory(config.resume_path, config.checkpoint_path));
    }
  }
  data_ = config.data_path.empty()
              ? CreatePatternSource(config.seed, config.model.vocab)
              : OpenTokenFile(config.data_path, config.workload.seq_len, config.model.vocab);
  if (!config.checkpoint_path.empty() || !config.resume_path.empty())
    identity_ = IdentityOf(config, data_->Identity());
  stream_ = backend.device->CreateStream();
  PlanMemory();
  groups_ = MakeGroups(*backend.comm, shape_, layout_->staging());
  const ParallelPlan& plan = config.plan;
  if (OverlapsMessages(plan) || TensorChunks(plan) > 1 || OverlapsGradients(plan) || OverlapsParameters(plan))
    progressing_ops_ = CreateProgressingOps(*backend.ops, pending_);
  Ops& ops = progressing_ops_ != nullptr ? *progressing_ops_ : *backend.ops;
  units_.emplace(plan, *layout_);
  run_.emplace(Execution{.ops = ops,
                         .stream = *stream_,
                         .groups = groups_,
                         .pending = pending_,
                         .splits_sequence = SplitsSequence(config.plan),
                         .tensor_chunks = TensorChunks(config.plan),
                         .reduced = layout_->workspace().reduced,
                         .shards_gradients = ShardsGradients(config.plan),
                         .units = &*units_});
  exchange_.emplace(shape_, *layout_, *run_, *backend.device);
  SetWeights();
  for (std::size_t chunk = 0; chunk < shape_.chunks.size(); ++chunk) {
    stages_.emplace_back(shape_, *layout_, chunk);
  }
  runner_.emplace(shape_, program_, *layout_, stages_, *run_, *backend.device, backend.clock.get(), *data_);
}

RankTrainer::~RankTrainer() = default;

void RankTrainer::PlanMemory() {
  arena_ = std::make_unique<Arena>(*backend_.device);
  try {
    layout_ = std::make_unique<MemoryLayout>(shape_, SlotsOf(shape_, program_), *arena_);
    const std::int64_t capacity = config_.memory_capacity_bytes;
    const std::int64_t overhead = OverheadBytes(backend_, 0);
    const std::int64_t needed = arena_->TotalBytes() + overhead;
    if (capacity > 0 && needed > capacity) {
      const Region region = LargestRegion(*arena_);
      throw DoesNotFit(
          needed - capacity, std::string(Name(region)),
          fmt::format(
              "the plan needs {} bytes (arena {}, device {}), {} more than the {} that a rank may use; the "
              "largest region is {} with {} bytes",
              needed, arena_->TotalBytes(), overhead, needed - capacity, capacity, Name(region),
              arena_->ReservedBytes(region)));
    }
    arena_->Commit();
  } catch (const DeviceOutOfMemory& e) {
    const std::int64_t over = e.available_bytes >= 0 ? e.wanted_bytes - e.available_bytes : e.wanted_bytes;
    throw DoesNotFit(over, std::string(Name(LargestRegion(*arena_))), e.what());
  }
  layout_->Resolve();
}

RankState RankTrainer::State() {
  return {shape_, *layout_, identity_, *exchange_, *backend_.device, *stream_};
}

void RankTrainer::SetWeights() {
  if (!config_.resume_path.empty()) {
    resumed_ = LoadTrainingState(config_.resume_path, config_.lr.steps, TargetsToLoad(*layout_), State());
    step_ = resumed_.step;
    return;
  }
  if (!config_.init_path.empty()) {
    try {
      LoadWeights(config_.init_path, shape_, *layout_, *backend_.device, *stream_);
    } catch (const BadInput& error) {
      throw BadInput(fmt::format("--init: {}", error.what()));
    }
    return;
  }
  for (std::size_t i = 0; i < layout_->parameters().size(); ++i) {
    InitializeParameter(layout_->parameters()[i], config_.seed, layout_->parameter_tensors()[i],
                        *backend_.device, *stream_);
  }
  stream_->Synchronize();
}

StepResult RankTrainer::Step() {
  if (backend_.log != nullptr) backend_.log->Clear();
  const std::int64_t step = step_++;
  const StepResult result = runner_->RunStep(step, [&] {
    const Optimizer& optimizer = config_.workload.optimizer;
    UpdateParams params = StepParams(config_.adamw, optimizer, LearningRate(config_.lr, step), step);
    SetClipping(config_.clip_norm, *layout_, params);
    UpdateParameters(*run_, *layout_, optimizer.kind, params, config_.adamw.weight_decay);
  });
  backend_.ops->ReleaseSpare();  // the step's work is done
  return result;
}

void RankTrainer::Barrier() { exchange_->Barrier(); }

double RankTrainer::LargestOverRanks(double value) { return exchange_->Largest(value); }

double RankTrainer::MeetPeers(double origin_s, std::vector<ActionTime>& times) {
  return trainer::MeetPeers(program_, shape_.rank, origin_s, groups_, *exchange_, times);
}

void RankTrainer::CompleteParameters() {
  if (OverlapsParameters(shape_.plan)) units_->GatherParameters(*run_);
}

void RankTrainer::Save(const std::string& path) {
  CompleteParameters();
  SaveWeights(path, shape_, *layout_, *run_, *backend_.device);
  Barrier();
}

std::string RankTrainer::SaveCheckpoint() {
  return SaveTrainingState(config_.checkpoint_path, checkpoints_ ? &*checkpoints_ : nullptr, step_,
                           PiecesToSave(shape_, *layout_), State());
}

std::int64_t RankTrainer::PeakBytes() const {
  std::int64_t unused = 0;
  for (std::size_t chunk = 0; chunk < shape_.chunks.size(); ++chunk) {
    const std::size_t slots = layout_->slots(chunk).size() - runner_->max_slots_used(chunk);
    unused += static_cast<std::int64_t>(slots) * layout_->slot_bytes(chunk);
  }
  return arena_->TotalBytes() - unused;
}

}  // namespace autocfg::trainer
