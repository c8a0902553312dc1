// The proof that a program comes to its end where nothing is buffered: all ranks are walked at once. Pure.
#pragma once

#include "absl/status/status.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"

namespace autocfg {

// A rank waits at an action until its `after` is complete; an action completes only once those before it in
// its lane have; a send and its receive, and a collective on all its ranks, complete together.
// FailedPrecondition names an action that is stuck, or that never completes. Requires lists whose actions are
// all there (rank_actions.h).
absl::Status CheckEnds(const Program& program, const RankMesh& mesh);

}  // namespace autocfg
