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
  std::vector<bool> sums_tied, sums_norms;
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    RankActions actions(program, mesh, rank);
    AUTOCFG_RETURN_IF_ERROR(actions.Find());
    AUTOCFG_RETURN_IF_ERROR(CheckOrder(actions));
    sums_tied.push_back(actions.At(ActionKind::kSumTiedEmbedding) != kMissing);
    sums_norms.push_back(actions.At(ActionKind::kSumNormGradients) != kMissing);
  }
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    for (const std::int64_t member : mesh.Group(rank, CommGroup::kEmbedding)) {
      if (sums_tied[static_cast<std::size_t>(member)] && !sums_tied[static_cast<std::size_t>(rank)]) {
        return WrongProgram(rank, fmt::format("TIED is missing, but rank {} has it", member));
      }
    }
    for (const std::int64_t member : mesh.Group(rank, CommGroup::kTensor)) {
      if (sums_norms[static_cast<std::size_t>(member)] && !sums_norms[static_cast<std::size_t>(rank)]) {
        return WrongProgram(rank, fmt::format("NORMS is missing, but rank {} has it", member));
      }
    }
  }
  AUTOCFG_RETURN_IF_ERROR(CheckMatches(program));
  return CheckEnds(program, mesh);
}

}  // namespace autocfg
