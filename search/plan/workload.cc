#include "search/plan/workload.h"

#include "base/subject.h"
#include "fmt/format.h"
#include "search/ops/memory_sizes.h"
#include "search/ops/op_desc.h"

namespace autocfg {
namespace {

// Bound on the activation elements of a global batch on one rank. Keeps all byte counts within 64 bits.
constexpr double kMaxElements = 5e16;

absl::Status WrongOptimizer(std::string_view option, std::string_view problem) {
  return base::OptionError(absl::StatusCode::kInvalidArgument, "request", option, problem);
}

}  // namespace

absl::Status SetOptimizer(std::string_view name, std::optional<double> momentum, Workload& workload) {
  Precision& precision = workload.precision;
  const auto kind = name.empty() || name == kAdamW8Bit ? OptimizerKind::kAdamW : ParseOptimizerKind(name);
  if (!kind) return WrongOptimizer("optimizer", UnknownOptimizer(name));
  if (name == kAdamW8Bit) {
    const DType base = GradientType(precision.compute);
    if (base != DType::kF32 || (precision.moments != base && precision.moments != DType::kI8)) {
      return WrongOptimizer(
          "optimizer", fmt::format("adamw8bit keeps moments in int8, and the precision is {}; give adamw, or "
                                   "a precision without moments that is not fp64",
                                   PrecisionText(precision)));
    }
    precision.moments = DType::kI8;
  }
  if (momentum && !(*momentum >= 0 && *momentum < 1))
    return WrongOptimizer("momentum", fmt::format("momentum {} must be from 0 to below 1", *momentum));
  if (momentum && *momentum != 0 && *kind != OptimizerKind::kSgd) {
    return WrongOptimizer(
        "momentum",
        fmt::format("momentum {} is of sgd, and the optimizer is {}; leave it out", *momentum, Name(*kind)));
  }
  workload.optimizer = {*kind, momentum.value_or(0)};
  return absl::OkStatus();
}

std::string StatesText(const Workload& workload) {
  std::string text = PrecisionText(workload.precision);
  if (workload.optimizer != Optimizer{}) text += fmt::format(", {}", OptimizerText(workload.optimizer));
  return text;
}

double StateBytes(const Workload& workload) {
  const Precision& types = workload.precision;
  const double moment =
      static_cast<double>(MomentBytes(kMomentBlock, types.moments)) / static_cast<double>(kMomentBlock);
  return MomentCount(workload.optimizer) * moment +
         (types.master ? static_cast<double>(SizeOf(*types.master)) : 0.0);
}

absl::Status Validate(const Workload& workload, const ModelSpec& model) {
  if (workload.global_batch < 1 || workload.global_batch > kMaxGlobalBatch) {
    return base::InvalidArgument("workload", fmt::format("global_batch is {}; it must be from 1 to {}",
                                                         workload.global_batch, kMaxGlobalBatch));
  }
  if (workload.seq_len < 1 || workload.seq_len > kMaxSeqLen) {
    return base::InvalidArgument(
        "workload", fmt::format("seq_len is {}; it must be from 1 to {}", workload.seq_len, kMaxSeqLen));
  }
  if (model.position == Position::kLearned && workload.seq_len > model.max_seq_len) {
    return base::InvalidArgument("workload",
                                 fmt::format("seq_len is {}, but the model's learned positions reach only to "
                                             "{}; lower seq_len or raise the model's max_seq_len",
                                             workload.seq_len, model.max_seq_len));
  }
  for (const LayerRun& run : model.layer_kinds) {
    if (run.chunk == 0 || run.chunk >= workload.seq_len || workload.seq_len % run.chunk == 0) continue;
    return base::InvalidArgument(
        "workload", fmt::format("seq_len is {}, which the chunks of {} tokens of layer_kinds do not divide; "
                                "give a multiple of it, or at most one chunk",
                                workload.seq_len, run.chunk));
  }
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double layer = 8 * d(model.hidden) + 4 * d(model.heads) * d(model.head_dim) + 3 * d(model.ffn_hidden);
  const double padded_vocab = d(model.vocab) + d(model.heads) * d(model.vocab_multiple);
  const double elements =
      d(workload.global_batch) * d(workload.seq_len) * (d(model.layers) * layer + padded_vocab);
  if (elements > kMaxElements) {
    return base::InvalidArgument(
        "workload", fmt::format("global_batch {} of seq_len {} makes {:.3g} activation elements of this "
                                "model, more than {:.0e}; reduce one of them",
                                workload.global_batch, workload.seq_len, elements, kMaxElements));
  }
  return absl::OkStatus();
}

}  // namespace autocfg
