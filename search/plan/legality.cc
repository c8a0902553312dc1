#include "search/plan/legality.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::array<std::string_view, kIllegalReasonCount> kReasonNames = {
    "size_not_positive",
    "too_many_ranks",
    "layers_not_divisible",
    "heads_not_divisible",
    "kv_heads_not_divisible",
    "ffn_not_divisible",
    "batch_not_divisible",
    "interleaved_needs_stages",
    "virtual_stages_need_interleaved",
    "microbatches_not_multiple_of_stages",
    "param_overlap_needs_zero",
    "zero2_with_pipeline",
    "split_does_not_add_up",
    "recompute_layers_too_many",
    "ranks_not_divisible",
};

// Whether tp*pp*dp exceeds `most`, whatever the sizes. Requires positive sizes.
bool MoreRanksThan(const ParallelPlan& plan, std::int64_t most) {
  if (plan.tp > most || plan.pp > most || plan.dp > most) return true;
  if (plan.tp > most / plan.pp) return true;
  return plan.tp * plan.pp > most / plan.dp;
}

// Whether dp*micro_batch divides the batch, whatever the sizes. Requires positive sizes.
bool BatchDivides(std::int64_t global_batch, const ParallelPlan& plan) {
  if (global_batch % plan.dp != 0) return false;
  return (global_batch / plan.dp) % plan.micro_batch == 0;
}

// Virtual stages in all. Requires sizes that are positive and no more ranks than a cluster may have.
std::optional<std::int64_t> VirtualStages(const ParallelPlan& plan, std::int64_t layers) {
  if (plan.virtual_stages > layers / plan.pp) return std::nullopt;  // more stages than layers
  return plan.pp * plan.virtual_stages;
}

bool SplitAddsUp(const ModelSpec& model, const ParallelPlan& plan) {
  const std::optional<std::int64_t> stages = VirtualStages(plan, model.layers);
  if (!stages || plan.split_layers.size() != static_cast<std::size_t>(*stages)) return false;
  std::int64_t left = model.layers;
  for (std::int64_t count : plan.split_layers) {
    if (count < 1 || count > left) return false;
    left -= count;
  }
  return left == 0;
}

// The most layers that any virtual stage has, or with split=auto could have. Requires a split that is in
// order.
std::int64_t MostLayers(const ModelSpec& model, const ParallelPlan& plan) {
  switch (plan.split) {
    case SplitMode::kEven: return model.layers / (plan.pp * plan.virtual_stages);
    case SplitMode::kExplicit: return *std::max_element(plan.split_layers.begin(), plan.split_layers.end());
    case SplitMode::kAuto: return model.layers - (plan.pp * plan.virtual_stages - 1);
  }
  return model.layers;
}

// Whether an explicit split says no more than split=even does.
bool SplitsEqually(const ParallelPlan& plan) {
  return plan.split == SplitMode::kExplicit &&
         std::adjacent_find(plan.split_layers.begin(), plan.split_layers.end(), std::not_equal_to<>()) ==
             plan.split_layers.end();
}

std::string Detail(const ModelSpec& model, const Workload& workload, std::int64_t max_ranks,
                   const ParallelPlan& plan, IllegalReason reason) {
  switch (reason) {
    case IllegalReason::kSizeNotPositive:
      return fmt::format("every size must be at least 1: tp={}, pp={}, dp={}, mbs={}, vpp={}, tp_overlap={}",
                         plan.tp, plan.pp, plan.dp, plan.micro_batch, plan.virtual_stages, plan.tp_overlap);
    case IllegalReason::kTooManyRanks:
      return fmt::format("tp={} x pp={} x dp={} is more than the {} ranks there are", plan.tp, plan.pp,
                         plan.dp, max_ranks);
    case IllegalReason::kLayersNotDivisible:
      return plan.virtual_stages == 1
                 ? fmt::format("{} layers are not divisible by pp={}", model.layers, plan.pp)
                 : fmt::format("{} layers are not divisible by pp={} x vpp={}", model.layers, plan.pp,
                               plan.virtual_stages);
    case IllegalReason::kHeadsNotDivisible:
      return fmt::format("{} heads are not divisible by tp={}", model.heads, plan.tp);
    case IllegalReason::kKvHeadsNotDivisible:
      return fmt::format("{} kv heads are not divisible by tp={}", model.kv_heads, plan.tp);
    case IllegalReason::kFfnNotDivisible:
      return fmt::format("ffn_hidden {} is not divisible by tp={}", model.ffn_hidden, plan.tp);
    case IllegalReason::kBatchNotDivisible:
      return fmt::format("global batch {} is not divisible by dp={} x mbs={}", workload.global_batch, plan.dp,
                         plan.micro_batch);
    case IllegalReason::kInterleavedNeedsStages:
      return fmt::format("schedule=interleaved needs vpp and pp of at least 2, not vpp={} and pp={}",
                         plan.virtual_stages, plan.pp);
    case IllegalReason::kVirtualStagesNeedInterleaved:
      return fmt::format("vpp={} needs schedule=interleaved", plan.virtual_stages);
    case IllegalReason::kMicrobatchesNotMultipleOfStages:
      return fmt::format("schedule=interleaved needs a multiple of pp={} microbatches, not {}", plan.pp,
                         MicrobatchCount(workload, plan));
    case IllegalReason::kParamOverlapNeedsZero: return "param_overlap=1 needs zero=1 or zero=2";
    case IllegalReason::kZero2WithPipeline: return fmt::format("zero=2 cannot be used with pp={}", plan.pp);
    case IllegalReason::kSplitDoesNotAddUp: {
      if (plan.split == SplitMode::kAuto) {
        return fmt::format("split=auto cannot give each of pp={} x vpp={} stages one of {} layers", plan.pp,
                           plan.virtual_stages, model.layers);
      }
      const std::int64_t sum =
          std::accumulate(plan.split_layers.begin(), plan.split_layers.end(), std::int64_t{0});
      return fmt::format(
          "split has {} entries with {} layers in all; it needs pp={} x vpp={} entries of at least 1 that "
          "add up to {}",
          plan.split_layers.size(), sum, plan.pp, plan.virtual_stages, model.layers);
    }
    case IllegalReason::kRecomputeLayersTooMany:
      return fmt::format("recompute=full:{} is more than the {} layers of a stage", plan.recompute_layers,
                         MostLayers(model, plan));
    case IllegalReason::kRanksNotDivisible:
      return fmt::format("tp={} x pp={} x dp={} does not use up the {} ranks", plan.tp, plan.pp, plan.dp,
                         max_ranks);
  }
  return std::string(Name(reason));
}

absl::Status Unsupported(std::string_view option, std::string_view instead) {
  return absl::UnimplementedError(fmt::format("plan: {} is not supported yet; use {}", option, instead));
}

}  // namespace

std::string_view Name(IllegalReason reason) { return kReasonNames[static_cast<std::size_t>(reason)]; }

std::optional<IllegalReason> FindIllegality(const ModelSpec& model, const Workload& workload,
                                            std::int64_t max_ranks, const ParallelPlan& plan) {
  using enum IllegalReason;
  if (plan.tp < 1 || plan.pp < 1 || plan.dp < 1 || plan.micro_batch < 1 || plan.virtual_stages < 1 ||
      plan.tp_overlap < 1) {
    return kSizeNotPositive;
  }
  if (MoreRanksThan(plan, max_ranks)) return kTooManyRanks;
  if (plan.split == SplitMode::kEven) {
    const std::optional<std::int64_t> stages = VirtualStages(plan, model.layers);
    if (!stages || model.layers % *stages != 0) return kLayersNotDivisible;
  }
  if (model.heads % plan.tp != 0) return kHeadsNotDivisible;
  if (model.kv_heads % plan.tp != 0) return kKvHeadsNotDivisible;
  if (model.ffn_hidden % plan.tp != 0) return kFfnNotDivisible;
  if (!BatchDivides(workload.global_batch, plan)) return kBatchNotDivisible;
  if (plan.schedule == Schedule::kInterleaved) {
    if (plan.virtual_stages == 1 || plan.pp == 1) return kInterleavedNeedsStages;
    if (MicrobatchCount(workload, plan) % plan.pp != 0) return kMicrobatchesNotMultipleOfStages;
  } else if (plan.virtual_stages > 1) {
    return kVirtualStagesNeedInterleaved;
  }
  if (plan.param_overlap && plan.zero_stage == 0) return kParamOverlapNeedsZero;
  if (plan.zero_stage == 2 && plan.pp > 1) return kZero2WithPipeline;
  if (plan.split == SplitMode::kExplicit && !SplitAddsUp(model, plan)) return kSplitDoesNotAddUp;
  if (plan.split == SplitMode::kAuto && !VirtualStages(plan, model.layers)) return kSplitDoesNotAddUp;
  if (plan.recompute == Recompute::kFull && plan.recompute_layers != 0 &&
      (plan.recompute_layers < 0 || plan.recompute_layers > MostLayers(model, plan))) {
    return kRecomputeLayersTooMany;
  }
  return std::nullopt;
}

std::optional<Illegality> ExplainIllegality(const ModelSpec& model, const Workload& workload,
                                            std::int64_t max_ranks, const ParallelPlan& plan) {
  const std::optional<IllegalReason> reason = FindIllegality(model, workload, max_ranks, plan);
  if (!reason) return std::nullopt;
  return Illegality{*reason, Detail(model, workload, max_ranks, plan, *reason)};
}

std::vector<std::string> Notes(const ParallelPlan& plan) {
  std::vector<std::string> notes;
  const auto note = [&notes](bool idle, std::string_view option, std::string_view why) {
    if (idle) notes.push_back(fmt::format("{} has nothing to act on {}", option, why));
  };
  note(plan.pp == 1 && plan.schedule == Schedule::kGPipe, "schedule=gpipe", "at pp=1");
  note(plan.pp == 1 && plan.schedule == Schedule::kZeroBubbleH1, "schedule=zb-h1", "at pp=1");
  note(plan.pp == 1 && plan.split != SplitMode::kEven, "split", "at pp=1");
  if (plan.pp > 1 && SplitsEqually(plan)) notes.push_back("a split into equal parts is split=even");
  note(plan.recompute == Recompute::kSelective && plan.attention == Attention::kFused, "recompute=selective",
       "under attention=fused, which stores no scores");
  note(plan.tp == 1 && plan.sequence_parallel, "sp=1", "at tp=1");
  note(plan.dp == 1 && plan.zero_stage > 0, fmt::format("zero={}", plan.zero_stage), "at dp=1");
  note(plan.tp == 1 && plan.tp_overlap > 1, fmt::format("tp_overlap={}", plan.tp_overlap), "at tp=1");
  note(plan.dp == 1 && plan.grad_overlap, "grad_overlap=1", "at dp=1");
  note(plan.dp == 1 && plan.param_overlap, "param_overlap=1", "at dp=1");
  note(plan.pp == 1 && plan.p2p_overlap, "p2p_overlap=1", "at pp=1");
  if (plan.scatter_gather) {
    note(plan.tp == 1, "scatter_gather=1", "at tp=1");
    note(plan.tp > 1 && plan.pp == 1, "scatter_gather=1", "at pp=1");
    note(plan.tp > 1 && plan.pp > 1 && plan.sequence_parallel, "scatter_gather=1", "at sp=1");
  }
  return notes;
}

ParallelPlan Canonical(const ParallelPlan& plan) {
  ParallelPlan canonical = plan;
  if (plan.pp == 1 && (plan.schedule == Schedule::kGPipe || plan.schedule == Schedule::kZeroBubbleH1)) {
    canonical.schedule = Schedule::kOneFOneB;
  }
  if ((plan.pp == 1 && plan.virtual_stages == 1) || SplitsEqually(plan)) canonical.split = SplitMode::kEven;
  if (canonical.split != SplitMode::kExplicit) canonical.split_layers.clear();
  if (plan.recompute == Recompute::kSelective && plan.attention == Attention::kFused) {
    canonical.recompute = Recompute::kNone;
  }
  if (canonical.recompute != Recompute::kFull) canonical.recompute_layers = 0;
  if (plan.tp == 1) {
    canonical.sequence_parallel = false;
    canonical.tp_overlap = 1;
  }
  if (plan.dp == 1) {
    canonical.zero_stage = 0;
    canonical.grad_overlap = false;
    canonical.param_overlap = false;
  }
  if (plan.pp == 1) canonical.p2p_overlap = false;
  if (plan.tp == 1 || plan.pp == 1 || plan.sequence_parallel) canonical.scatter_gather = false;
  return canonical;
}

absl::Status CheckPredictable(const ParallelPlan& plan) {
  const ParallelPlan c = Canonical(plan);
  if (c.schedule == Schedule::kZeroBubbleH1)
    return Unsupported("schedule=zb-h1", "1f1b, gpipe or interleaved");
  if (c.sequence_parallel) return Unsupported("sp=1", "sp=0");
  if (c.zero_stage > 0) return Unsupported(fmt::format("zero={}", c.zero_stage), "zero=0");
  if (c.tp_overlap > 1) return Unsupported(fmt::format("tp_overlap={}", c.tp_overlap), "tp_overlap=1");
  if (c.grad_overlap) return Unsupported("grad_overlap=1", "grad_overlap=0");
  if (c.param_overlap) return Unsupported("param_overlap=1", "param_overlap=0");
  if (c.p2p_overlap) return Unsupported("p2p_overlap=1", "p2p_overlap=0");
  return absl::OkStatus();
}

absl::Status CheckEngineSupports(const ParallelPlan& plan) {
  const ParallelPlan c = Canonical(plan);
  if (absl::Status status = CheckPredictable(plan); !status.ok()) return status;
  const auto predicted_only = [](std::string_view option, std::string_view instead) {
    return absl::UnimplementedError(fmt::format(
        "plan: {} can be predicted, but running it is not supported yet; use {}", option, instead));
  };
  if (c.attention == Attention::kUnfused) return predicted_only("attention=unfused", "attention=fused");
  if (c.scatter_gather) return predicted_only("scatter_gather=1", "scatter_gather=0");
  return absl::OkStatus();
}

std::int64_t MicrobatchCount(const Workload& workload, const ParallelPlan& plan) {
  return workload.global_batch / (plan.dp * plan.micro_batch);
}

}  // namespace autocfg
