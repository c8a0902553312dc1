// The program of a plan: the actions of each rank, in the order in which the rank issues them. The trainer
// executes it; LowerLoops gives the timer the same order, generators.h gives the memory model its counts.
// Immutable once made, thread-safe.
//
// Meaning. A rank walks its list. A compute action runs when all it names in `after` are complete. A
// communication action is issued when reached and completes later; actions of one lane complete in order. A
// send completes no earlier than the matching receive is issued (nothing buffers). Sends and receives between
// two ranks match in order of issue, by kind. A step is over when all actions are complete; the next one
// starts the list again.
//
// Generators make the order of each rank's computes (compute_order.h); RankLowering (rank_lowering.h) adds
// the other actions. Lower (lower.cc) makes the program of a plan that way, LowerLoops (looped_program.h) the
// same for the timer; ValidateProgram (validate.cc) proves a program right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"
#include "search/plan/workload.h"
#include "search/schedule/action.h"
#include "search/schedule/compute_order.h"

namespace autocfg {

using RankProgram = std::vector<Action>;

struct Program {
  ParallelPlan plan;
  std::int64_t microbatches = 0;
  std::vector<RankProgram> ranks;  // by global rank
};

// Requires a legal, canonical plan that CheckPredictable accepts.
//
// A rank zeroes its gradients, walks the order of its stages' computes, reduces and updates. Stages send to
// the next and the previous stage of the model; those of the last pipeline rank, but for the model's last
// one, have theirs next on the first rank. A receive stands right before the compute that needs it; with
// p2p_overlap, right before the compute before that one, so that it travels while that one runs. A send
// stands right after the compute that makes it. `after` holds what other lanes must have done (for B read I
// where backwards are split; W waits for nothing, and is the last user of its slot in place of B):
//   F      the receive of its input; where it sends its output, the send that last used its output buffer (of
//          two, by parity of the order of the rank's forwards that send)
//   RA     the B that last used its activation slot (it takes the lowest free slot of the stage; on the
//          model's first stage, F does)
//   B      the receive of its gradient; on the model's last stage what last used its gradient buffer
//   RG     what last used its gradient buffer (of two or three, which the rank's backwards use in turn:
//          GradientBuffers): a send, or a backward of the model's first stage
// With p2p_overlap nothing waits earlier than without it, and every receive is issued as early or earlier, in
// the same order. So no step takes longer, and what ends without it ends with it.
// The reductions follow the rank's last B or W, one after the other; the optimizer follows the last of them;
// the gathering of parameters, if states are sharded, follows the optimizer.
Program Lower(const RunView& run);

// Returns the number of activation slots that a stage of the rank needs. A microbatch takes one at its
// receive, or at its forward on the model's first stage, and leaves it at its last compute. InFlight
// (generators.h) is the same in closed form.
std::int64_t ActivationSlots(const RankProgram& program, std::int64_t stage);

// FailedPrecondition says which action of which rank is wrong or stuck. Proves, in this order:
//   1. each rank's list: every action there is, once, on its lane, with the right peer; `after` and lanes
//      alone (not the order of the list) put each action after what it reads and after the last user of the
//      buffer that it writes;
//   2. what two ranks send and receive matches in kind, number and order, and groups issue the same
//      collectives;
//   3. the whole comes to its end when nothing buffers: a rank waits at an action until its `after` is
//      complete; an action completes only once those before it in its lane have; a send and its receive, and
//      a collective on all its ranks, complete together.
absl::Status ValidateProgram(const Program& program);

// Upper limit of microbatches x ranks x virtual stages of one program. Each makes about six actions of some
// 80 bytes, or seven where backwards are split, and each rank holds the whole program: 150 MB a rank at the
// limit.
inline constexpr std::int64_t kMaxProgramMicrobatches = std::int64_t{1} << 18;

// InvalidArgument, with the figures, if the plan's program is larger than kMaxProgramMicrobatches. Call it
// before Lower. Requires a legal plan.
absl::Status CheckProgramSize(const Workload& workload, const ParallelPlan& plan);

// 64-bit FNV-1a over the text of all ranks' actions and what they wait for; the same on every machine.
std::uint64_t Fingerprint(const Program& program);

}  // namespace autocfg
