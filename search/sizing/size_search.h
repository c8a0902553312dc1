// Recommends the size of a model for a budget of GPUs and days, by predictions alone. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/planner/planning.h"
#include "search/space/search_space.h"

namespace autocfg {

struct SizeQuestion {
  ClusterSpec cluster = {};                       // described, with all its figures; all its ranks are used
  double days = 0;                                // the budget
  std::optional<double> tokens = {};              // empty: kOptimalTokensPerParameter of each model
  std::optional<std::int64_t> global_batch = {};  // empty: GlobalBatchNear(DefaultBatchTokens)
  std::int64_t seq_len = 0;
  Precision precision = {};
};

// How a model of the family fares.
enum class SizeVerdict : std::uint8_t {
  kInTime,        // it has a plan, which takes at most the days
  kTooLong,       // its fastest plan takes longer
  kOutOfMemory,   // no legal plan fits
  kTooManyRanks,  // no plan of all ranks is legal: the model or its batch is too small to be split so often
};

// Returns "in_time", "too_long", "out_of_memory" or "too_many_ranks".
std::string_view Name(SizeVerdict verdict);

struct SizedModel {
  ModelSpec model = {};
  Workload workload = {};
  double tokens = 0;  // of the whole run
  SizeVerdict verdict = SizeVerdict::kTooManyRanks;
  std::string reason = {};  // why there is no plan; empty if there is one
  // Only with a plan:
  ParallelPlan plan = {};
  Prediction predicted = {};
  double days = 0;
};

struct SizeAnswer {
  std::optional<SizedModel> best;         // the largest that is in time
  std::optional<SizedModel> next_larger;  // the next of the family, which is not; empty if `best` is the last
  std::vector<SizedModel> tried;          // all that were predicted, smallest first
};

// Predicts one model of the family with its best plan.
using TrySize = std::function<absl::StatusOr<SizedModel>(const ModelSpec&)>;

// Finds the largest model in time by bisection: days grow with the size, and so does memory. A model with
// kTooManyRanks counts as one that is small enough. `family` is sorted by size. Errors are those of
// `try_size`.
absl::StatusOr<SizeAnswer> LargestInTime(const std::vector<ModelSpec>& family, const TrySize& try_size);

// Returns the values of a plan that a candidate's search goes through: those of every search, except that tp
// stays within a node and layers are spread evenly. Such a search of thousands of ranks takes about a second.
// Uneven splits make some plans of long pipelines up to a tenth faster.
AxisValues SizeSpace(const ClusterSpec& cluster);

// Searches the fastest plan of one model. InvalidArgument: the cluster lacks a figure, or the workload is not
// one of the model. Cancelled once `watch` says no.
absl::StatusOr<SizedModel> TryModel(const SizeQuestion& question, const ModelSpec& model,
                                    const PlanningWatch& watch = {});

// LargestInTime of FamilyOfSizes by TryModel.
absl::StatusOr<SizeAnswer> RecommendSize(const SizeQuestion& question, const PlanningWatch& watch = {});

}  // namespace autocfg
