#include "search/cost/timing/step_parts.h"

#include <algorithm>

namespace autocfg {
namespace {

Breakdown Parts(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core, double pipe_s,
                std::span<const double> worked_s) {
  const auto m = static_cast<double>(microbatches);
  const std::size_t p = costs.ranks.size();
  const PipelineStages pipeline(costs, ranks_per_core);

  // Only the part of a rank's zeroing counts that the fill does not hide. A rank's last backward ends before
  // the pipeline does: by the last backwards of the ranks before it, on their first chunks. That hides as
  // much of its reduction.
  double zero_s = 0, fill_s = 0, drain_s = 0, slowest_s = -1;
  double first_ready = 0, last_ready = 0, ready = 0, norm = 0, update = 0;
  std::size_t slowest = 0;
  if (!worked_s.empty()) pipe_s = *std::max_element(worked_s.begin(), worked_s.end());
  for (std::size_t s = 0; s < p; ++s) {
    const RankCosts& c = costs.ranks[s];
    const StageTime first_chunk = pipeline.At(s);
    zero_s = std::max(zero_s, c.zero_s - fill_s);
    fill_s += first_chunk.forward;
    const double reduced = c.reduce_s - (worked_s.empty() ? drain_s : pipe_s - worked_s[s]);
    drain_s += first_chunk.backward;
    if (s == 0) first_ready = reduced;
    if (s + 1 == p) last_ready = reduced;
    ready = std::max(ready, reduced);
    norm = std::max(norm, c.norm_s);
    update = std::max(update, c.update_s);
    const double rank_s = pipeline.chunks() == 1 ? first_chunk.Both() : pipeline.OfRank(s).Both();
    if (rank_s > slowest_s) {
      slowest = s;
      slowest_s = rank_s;
    }
  }
  if (p > 1 && costs.tied_s > 0) ready = std::max(ready, std::max(first_ready, last_ready) + costs.tied_s);
  if (!worked_s.empty()) pipe_s -= zero_s;
  if (ranks_per_core > 1) pipe_s = std::max(pipe_s, SharedCoreSeconds(costs, microbatches));

  // The pipeline's time by what its slowest rank does; the rest is bubble.
  Breakdown parts;
  for (std::size_t stage = slowest; stage < costs.stages.size(); stage += p) {
    const StageCosts& q = costs.stages[stage];
    const int messages = (stage > 0 ? 1 : 0) + (stage + 1 < costs.stages.size() ? 1 : 0);
    parts.compute += m * (q.forward_s - q.tp_forward_s + q.backward_s - q.tp_backward_s - q.recompute_s);
    parts.recompute += m * q.recompute_s;
    parts.tp_comm += m * (q.tp_forward_s + q.tp_backward_s);
    parts.pp_comm += m * costs.p2p_s * messages;
  }
  const double busy = parts.Total();
  const bool waits = p > 1;      // one rank waits for no other: busy and pipe_s differ by rounding alone
  if (waits && busy > pipe_s) {  // shared cores: the slowest rank runs faster than measured while others idle
    const double scale = pipe_s / busy;
    parts.compute *= scale;
    parts.recompute *= scale;
    parts.tp_comm *= scale;
    parts.pp_comm *= scale;
  } else if (waits && busy < pipe_s) {
    parts.bubble = pipe_s - busy;
  }
  parts.dp_comm = ready;
  parts.optimizer = zero_s + norm + update;
  parts.overhead = costs.scalars_s;
  return parts;
}

}  // namespace

double SharedCoreSeconds(const PipelineCosts& costs, std::int64_t microbatches) {
  double sum = 0;
  for (const StageCosts& c : costs.stages) sum += c.Total();
  return sum * static_cast<double>(microbatches) / static_cast<double>(costs.ranks.size());
}

Breakdown StepParts(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                    double pipe_s) {
  return Parts(costs, microbatches, ranks_per_core, pipe_s, {});
}

Breakdown StepParts(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                    std::span<const double> worked_s) {
  return Parts(costs, microbatches, ranks_per_core, 0, worked_s);
}

}  // namespace autocfg
