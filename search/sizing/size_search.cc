#include "search/sizing/size_search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/planner/search_loop.h"
#include "search/predict/prediction_interval.h"
#include "search/sizing/model_family.h"
#include "search/training_time/training_estimate.h"

namespace autocfg {
namespace {

bool TooLarge(const SizedModel& sized) {
  return sized.verdict == SizeVerdict::kTooLong || sized.verdict == SizeVerdict::kOutOfMemory;
}

// Says why no plan of the search has been predicted, and sets the verdict.
void ExplainNone(const SearchLoop& loop, CostModel& costs, SizedModel& sized) {
  const SearchCounts& counts = loop.counts();
  if (const std::optional<ParallelPlan> smallest = loop.Smallest(); counts.out_of_memory > 0 && smallest) {
    sized.verdict = SizeVerdict::kOutOfMemory;
    sized.reason = fmt::format("no plan fits in memory: {}", costs.PredictMemory(*smallest).reason);
    return;
  }
  sized.verdict = SizeVerdict::kTooManyRanks;
  sized.reason = fmt::format("a step of {} sequences of this model cannot be split over all GPUs",
                             sized.workload.global_batch);
}

}  // namespace

std::string_view Name(SizeVerdict verdict) {
  switch (verdict) {
    case SizeVerdict::kInTime: return "in_time";
    case SizeVerdict::kTooLong: return "too_long";
    case SizeVerdict::kOutOfMemory: return "out_of_memory";
    case SizeVerdict::kTooManyRanks: return "too_many_ranks";
  }
  return "";
}

absl::StatusOr<SizeAnswer> LargestInTime(const std::vector<ModelSpec>& family, const TrySize& try_size) {
  std::vector<std::optional<SizedModel>> tried(family.size());
  // All below `low` are small enough, all from `high` on too large.
  std::size_t low = 0, high = family.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    AUTOCFG_ASSIGN_OR_RETURN(tried[middle], try_size(family[middle]));
    if (TooLarge(*tried[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  SizeAnswer answer;
  if (low > 0 && tried[low - 1]->verdict == SizeVerdict::kInTime) answer.best = tried[low - 1];
  if (low < family.size()) answer.next_larger = tried[low];
  for (std::optional<SizedModel>& one : tried) {
    if (one) answer.tried.push_back(*std::move(one));
  }
  return answer;
}

AxisValues SizeSpace(const ClusterSpec& cluster) {
  const std::int64_t node = cluster.groups.front().gpus_per_node;
  std::vector<std::string> tp;
  for (std::int64_t size = 1; size <= node; ++size) {
    if (node % size == 0) tp.push_back(fmt::to_string(size));
  }
  return {{"tp", std::move(tp)}, {"split", {"even"}}};
}

absl::StatusOr<SizedModel> TryModel(const SizeQuestion& question, const ModelSpec& model,
                                    const PlanningWatch& watch) {
  const ClusterSpec& cluster = question.cluster;
  const std::int64_t parameters = ParameterCount(model);
  SizedModel sized{.model = model};
  sized.workload = {question.global_batch.value_or(GlobalBatchNear(DefaultBatchTokens(parameters),
                                                                   question.seq_len, RankCount(cluster))),
                    question.seq_len, question.precision};
  sized.tokens = question.tokens.value_or(kOptimalTokensPerParameter * static_cast<double>(parameters));
  AUTOCFG_ASSIGN_OR_RETURN(const auto times, ClusterOpTimes::Create(cluster, question.precision));
  const std::int64_t overhead = DeviceOverheadBytes(cluster);
  const double margin = DefaultMemoryMargin(cluster);
  AUTOCFG_ASSIGN_OR_RETURN(auto loop,
                           SearchLoop::Create({model, sized.workload, cluster}, SizeSpace(cluster),
                                              {.predict_only = true, .memory_margin = margin}, watch));
  if (loop.phase() == SearchPhase::kCalibrating) {  // else no plan fits
    AUTOCFG_RETURN_IF_ERROR(loop.SetCalibration(std::shared_ptr<const OpTimeModel>(times), overhead));
  }
  CostModel costs({model, sized.workload, cluster}, times, overhead, margin);
  const std::vector<RankedPlan> ranking = loop.Ranking(1);
  if (ranking.empty()) {
    ExplainNone(loop, costs, sized);
    return sized;
  }
  sized.plan = ranking.front().plan;
  sized.predicted = ranking.front().predicted;
  SetDescribedInterval(sized.predicted, costs, sized.plan);
  const TrainingEstimate estimate = EstimateTraining(
      {.tokens = sized.tokens}, {model, sized.workload, cluster}, sized.predicted.step_time_s);
  sized.days = *estimate.days;
  sized.verdict = sized.days <= question.days ? SizeVerdict::kInTime : SizeVerdict::kTooLong;
  return sized;
}

absl::StatusOr<SizeAnswer> RecommendSize(const SizeQuestion& question, const PlanningWatch& watch) {
  return LargestInTime(FamilyOfSizes(question.seq_len),
                       [&](const ModelSpec& model) { return TryModel(question, model, watch); });
}

}  // namespace autocfg
