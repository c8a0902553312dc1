#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"
#include "search/schedule/program_checks.h"
#include "search/schedule/rank_actions.h"

namespace autocfg {

absl::Status ValidateProgram(const Program& program) {
  const ParallelPlan& plan = program.plan;
  if (!HasPositiveSizes(plan) || plan.virtual_stages < 1 || program.microbatches < 1) {
    return absl::FailedPreconditionError("program: its plan has a size that is not positive");
  }
  if (plan.pp == 1 && plan.virtual_stages > 1) {
    return absl::FailedPreconditionError("program: its plan has virtual stages on a pipeline of one rank");
  }
  const RankMesh mesh(plan);
  if (static_cast<std::int64_t>(program.ranks.size()) != mesh.size()) {
    return absl::FailedPreconditionError(
        fmt::format("program: {} lists of actions for {} ranks", program.ranks.size(), mesh.size()));
  }
  // What all ranks of a group have, or none.
  struct Shared {
    ActionKind kind;
    CommGroup group;
    std::vector<bool> found = {};  // by rank
  };
  Shared shared[] = {{ActionKind::kSumTiedEmbedding, CommGroup::kEmbedding},
                     {ActionKind::kSumNormGradients, CommGroup::kTensor},
                     {ActionKind::kReduceGradients, CommGroup::kTensor}};
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    RankActions actions(program, mesh, rank);
    AUTOCFG_RETURN_IF_ERROR(actions.Find());
    AUTOCFG_RETURN_IF_ERROR(CheckOrder(actions));
    for (Shared& of : shared) of.found.push_back(actions.At(of.kind) != kMissing);
  }
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    for (const Shared& of : shared) {
      if (of.found[static_cast<std::size_t>(rank)]) continue;
      for (const std::int64_t member : mesh.Group(rank, of.group)) {
        if (!of.found[static_cast<std::size_t>(member)]) continue;
        const Action missing{.kind = of.kind, .lane = LaneOf(of.kind)};
        return WrongProgram(rank,
                            fmt::format("{} is missing, but rank {} has it", ToString(missing), member));
      }
    }
  }
  AUTOCFG_RETURN_IF_ERROR(CheckMatches(program));
  return CheckEnds(program, mesh);
}

}  // namespace autocfg
