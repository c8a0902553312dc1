// One step of a rank's program. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

enum class ActionKind : std::uint8_t {
  kZeroScalars,  // the step's loss and squared gradient norm become zero
  kForward,      // "F"
  // "B": with full recomputation, each layer's forward is run again first. That of microbatch 0 writes the
  // gradients of the stage's parameters, the others add to them.
  kBackward,
  // "I" and "W", in place of a backward under a plan that splits it (SplitsBackward): the gradient of the
  // stage's input, and those of its weights that docs/engine.md delays. A "W" follows the "I" of its
  // microbatch. Those of microbatch 0 write gradients, the others add to them.
  kInputGradient,
  kWeightGradient,
  kSendActivation,    // to the next stage of the model
  kRecvActivation,    // from the previous stage
  kSendGradient,      // to the previous stage
  kRecvGradient,      // from the next stage
  kSumNormGradients,  // sum of the gradients of norms over the tensor group (SumsNormGradients)
  kReduceGradients,   // sum over the data-parallel group; with sharded states each rank gets its part
  kSumTiedEmbedding,  // sum of the embedding's gradient over first and last rank of the pipeline
  kReduceScalars,     // loss and squared gradient norm, summed over all ranks
  kOptimizer,         // clip and update
  kGatherParameters,  // sharded states: the updated parts of the parameters, from all ranks that have them
};

enum class Lane : std::uint8_t { kCompute, kPipelineSend, kPipelineRecv, kReduce };

struct Action {
  ActionKind kind = ActionKind::kForward;
  Lane lane = Lane::kCompute;
  std::int32_t stage = -1;       // stage of the model that the action works on; -1: the whole rank
  std::int32_t microbatch = -1;  // -1: not tied to one
  std::int32_t peer = -1;        // global rank of the other side of a send or receive
  // Actions of the same rank, by index, that must be complete first. A later action of the same lane also
  // waits for the earlier one.
  std::vector<std::int32_t> after = {};

  bool operator==(const Action&) const = default;
};

// The actions of one rank's stages that compute, in order, communication left out: what a generator makes.
using ComputeOrder = std::vector<Action>;

// What a rank did and when. Trainer and timer both write these rows, so that predicted and measured steps can
// be joined on (rank, action).
struct TraceRow {
  std::int32_t rank = 0;
  Lane lane = Lane::kCompute;
  std::int32_t action = 0;  // index in the rank's program
  double start_s = 0;       // since the step began (trainer: since the first rank began it)
  double end_s = 0;
  std::int32_t step = 0;  // number of the step, from 1; 0: the only one
};

std::string_view Name(ActionKind kind);  // "forward", "send_activation", ...
std::string_view Name(Lane lane);        // "compute", "pp_send", "pp_recv", "reduce"

// "2F0" = forward of microbatch 0 on stage 2, B its backward, I and W the parts of a backward that is split;
// "1SA3>4" = stage 1 sends the activation of microbatch 3 to rank
// 4, "2RA3<1" receives it from rank 1; SG and RG are the same for gradients; "ZERO", "NORMS", "REDUCE",
// "TIED", "SCALARS", "OPT", "GATHER" are of the whole rank.
std::string ToString(const Action& action);

}  // namespace autocfg
