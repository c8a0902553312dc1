// Notes on what the answer of a search does not show: values of --space that the best plan lacks because they
// would change nothing there, a global batch that divides badly over the ranks, and the nodes that would be
// enough if nothing fits. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "search/planner/planning.h"

namespace autocfg::cli {

// Returns a note for each axis of the space of whose named values the best plan has none, because they have
// nothing to act on in it (PlanOption::redundant): the search takes the default in their place. Says how many
// plans the rules of that option made illegal. Empty if nothing fits.
std::vector<std::string> IdleValueNotes(const v1::SearchSpec& spec, const v1::Recommendation& answer);

// A batch is awkward if its greatest common divisor with the ranks, which bounds dp, is less than a quarter
// of both.
inline constexpr std::int64_t kFewOfRanks = 4;
// A batch farther away than this fraction is another question.
inline constexpr double kFarthestBatch = 0.25;

// Returns the batch that divides well and is the nearest to an awkward one: a multiple of the ranks, or a
// power of two if it is below their number. Empty if the batch is not awkward, or none is near.
std::optional<std::int64_t> EvenBatchNear(std::int64_t global_batch, std::int64_t ranks);

// The note needs a step that is shorter by this fraction for each sequence.
inline constexpr double kWorthAnotherBatch = 0.10;

// Plans the question of an awkward batch again with the one near it. Returns a note with its predicted time;
// empty if it is hardly faster, or if there is no such batch. Requires a search by prediction of a described
// cluster. Gives up, without a note, once `watch` says no.
std::string EvenBatchNote(const v1::SearchSpec& spec, const v1::Recommendation& answer,
                          const PlanningWatch& watch);

// No question of more nodes is planned.
inline constexpr std::int64_t kMostNodesTried = 16'384;

// If no plan fits: returns how many nodes would be enough, or that no number of them is, by planning for
// twice the nodes again and again. Empty if something fits, the cluster is local, or planning was stopped.
std::string EnoughNodesNote(const v1::SearchSpec& spec, const v1::Recommendation& answer,
                            const PlanningWatch& watch);

}  // namespace autocfg::cli
