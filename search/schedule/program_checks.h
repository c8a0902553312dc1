// The parts of ValidateProgram (program.h), each a proof. Pure. Errors are FailedPrecondition and name the
// action.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"
#include "search/schedule/rank_actions.h"

namespace autocfg {

inline absl::Status WrongProgram(std::int64_t rank, std::string_view problem) {
  return absl::FailedPreconditionError(fmt::format("program: rank {}: {}", rank, problem));
}

// Proves that `after` and the lanes alone, not the order of the list, put each action of a rank after what it
// reads and after the last user of the buffer that it writes. Requires: actions.Find() is OK.
absl::Status CheckOrder(const RankActions& actions);

// Proves that what two ranks send and receive matches in kind and order. Requires complete lists
// (rank_actions.h), which makes the numbers match.
absl::Status CheckMatches(const Program& program);

// Proves that the program ends if nothing is buffered, by a walk over all ranks at once. A rank waits at an
// action until its `after` is complete. An action completes only after those before it in its lane. A send
// and its receive, and a collective on all its ranks, complete together. Requires complete lists
// (rank_actions.h).
absl::Status CheckEnds(const Program& program, const RankMesh& mesh);

}  // namespace autocfg
