// Whose training step is predicted: what a framework does otherwise than our engine. Plain values; the
// profiles are files of search/data/engines, each figure with its source.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/fields.h"

namespace autocfg {

inline constexpr std::string_view kOwnEngine = "autocfg";

// InvalidArgument unless the name has 1 to 40 letters, digits, '-', '_' and '.', the first a letter.
absl::Status CheckEngineName(std::string_view name);

// The defaults are our own engine's.
struct EngineProfile {
  std::string name{kOwnEngine};
  // The figures that a run sets otherwise than the engine's file, in the order of EngineFields:
  // "recompute_chunk=4,logit_bytes=8". Empty: none.
  std::string settings = {};
  // Seconds in which its host issues one of our ops, where the cluster does not say; empty: not known.
  std::optional<double> host_op_s = {};
  // What it reaches of the device's efficiencies.
  double matmul = 1;         // at most the device's peak
  double narrow_matmul = 1;  // of products of a narrow format (ProductFormat), in place of `matmul`
  double matmul_k_half = 1;  // of the inner dimension at which half the rate is reached
  double memory = 1;
  double intra_node = 1;
  double inter_node = 1;
  // Reads and writes of a layer's [tokens, hidden] that our kernels do not need, such as those of separate
  // dropouts, additions and casts.
  double forward_passes = 0;
  double backward_passes = 0;
  // recompute=full repeats the whole layer, and selective:mlp the whole feed-forward block: the last product
  // and the sum of it, too.
  bool recomputes_whole_layers = false;
  // With sp=1, the gathers of a backward run beside the products of gradients (Korthikanti et al. 2022).
  bool hides_backward_gathers = false;
  // Its plans have these options on where they act.
  bool overlaps_gradients = false;
  bool overlaps_parameters = false;
  // Its stages are what it makes of the model, by the weights of products (weighted_stages.h).
  bool splits_by_weight = false;
  double step_s = 0;  // once a step, beside all ops
  // Its memory. Of each parameter whose gradient a rank accumulates, with bf16 and with fp16: ours are fp32.
  double bf16_gradient_bytes = 4;
  double fp16_gradient_bytes = 4;
  // Of each parameter that a rank updates, where gradients are kept in two bytes: its gradient in fp32.
  double update_bytes = 0;
  // With sharded parameters it updates at most so many at a time; 0: all.
  std::int64_t updated_at_once = 0;
  // Activations come from one pool: with several stages on a rank, the chunks of microbatches that are in
  // flight at once count, not for each stage the most that it ever has.
  bool pools_activations = false;
  // It keeps the parameters and the inputs of products in the narrow format that these are computed in, the
  // former beside the parameters and the latter in place of the inputs.
  bool keeps_operands = false;
  // With sp=1, the inputs of a layer's products that it keeps as gathered: [T, H] each, in place of nothing.
  double gathered_inputs = 0;
  // recompute=full of all layers keeps one input for so many layers of a stage, which recompute together.
  std::int64_t recompute_chunk = 1;
  // Of each logit of a microbatch, beside the two bytes that ours takes: copies in fp32.
  double logit_bytes = 0;
  // Of our activations and workspace: what it keeps beside them, or its allocator cannot use.
  double activation_share = 0;
  std::int64_t library_bytes = 0;  // workspaces of libraries, which it allocates
  // Of all that it allocates: what its allocator holds beside, as far as there is room. PyTorch's returns
  // what is not in use before it fails.
  double allocator_share = 0;
  // 90% of its peaks are within this share of what is predicted of them. Plans leave as much free by default.
  double memory_error = 0;
  std::int64_t overhead_bytes = 0;  // beside the device's own

  bool operator==(const EngineProfile&) const = default;
};

const EngineProfile& OwnEngine();

// Returns the engine as --engine, files and messages write it: its name, and its settings if it has some, as
// in "megatron:recompute_chunk=4". EngineNamed (search/text/engines.h) reads it.
std::string EngineText(const EngineProfile& engine);

// The rows of its fields: the JSON of a profile and the bounds of its figures follow from them.
std::span<const base::Field<EngineProfile>> EngineFields();

// InvalidArgument with the subject "engine" names a figure that is not finite or beyond its row's bounds.
absl::Status Validate(const EngineProfile& engine);

}  // namespace autocfg
