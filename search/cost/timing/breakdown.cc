#include "search/cost/timing/breakdown.h"

#include <algorithm>

#include "search/cost/timing/stage_times.h"

namespace autocfg {
namespace {

// What of a step the pipeline does not hide.
struct Exposed {
  double zero_s = 0;            // the zeroing that the fill does not hide
  double begin_s = 0;           // the same, with what ranks wait for parameters
  double reduced_s = 0;         // the reductions that the drain does not hide
  double norm_gradients_s = 0;  // of them, the sum of the gradients of norms, at most
  double norm_s = 0, update_s = 0;
  double gather_s = 0;      // after the longest update
  std::size_t slowest = 0;  // the rank with the longest forward and backward of a microbatch
};

// `lead_s(rank)`: how long before the pipeline's end the rank's last backward ends; it hides as much of the
// rank's reduction.
template <typename Lead>
Exposed ExposedOf(const PipelineCosts& costs, const PipelineStages& pipeline, const Lead& lead_s) {
  const std::size_t p = costs.ranks.size();
  Exposed exposed;
  double fill_s = 0, slowest_s = -1, first_reduced = 0, last_reduced = 0, ends_s = 0;
  for (std::size_t s = 0; s < p; ++s) {
    const RankCosts& c = costs.ranks[s];
    const StageTime first_chunk = pipeline.At(s);
    exposed.zero_s = std::max(exposed.zero_s, c.zero_s - fill_s);
    exposed.begin_s = std::max(exposed.begin_s, c.zero_s + c.wait_s - fill_s);
    fill_s += first_chunk.forward;
    const double reduced = c.norm_gradients_s + c.reduce_s - lead_s(s);
    exposed.norm_gradients_s = std::max(exposed.norm_gradients_s, c.norm_gradients_s);
    if (s == 0) first_reduced = reduced;
    if (s + 1 == p) last_reduced = reduced;
    exposed.reduced_s = std::max(exposed.reduced_s, reduced);
    exposed.norm_s = std::max(exposed.norm_s, c.norm_s);
    exposed.update_s = std::max(exposed.update_s, c.update_s);
    ends_s = std::max(ends_s, c.update_s + c.gather_s);
    const double rank_s = pipeline.OfRank(s).Total();
    if (rank_s > slowest_s) {
      exposed.slowest = s;
      slowest_s = rank_s;
    }
  }
  exposed.gather_s = ends_s - exposed.update_s;
  if (const double tied_s = costs.ranks.front().tied_s; p > 1 && tied_s > 0)
    exposed.reduced_s = std::max(exposed.reduced_s, std::max(first_reduced, last_reduced) + tied_s);
  return exposed;
}

// Attributes the pipeline's time to the actions of its slowest rank; the rest is bubble. So is what a rank
// waits for messages that overlap.
Breakdown Attribute(const PipelineCosts& costs, std::int64_t microbatches, const Exposed& exposed,
                    double pipe_s) {
  const auto m = static_cast<double>(microbatches);
  const std::size_t p = costs.ranks.size();
  Breakdown parts;
  for (std::size_t stage = exposed.slowest; stage < costs.stages.size(); stage += p) {
    const StageCosts& q = costs.stages[stage];
    const int messages =
        costs.overlaps_messages ? 0 : (stage > 0 ? 1 : 0) + (stage + 1 < costs.stages.size() ? 1 : 0);
    const double messages_s = q.TensorMessages() - q.tp_recompute_s;
    parts.compute += q.Total(m) - m * (messages_s + q.recompute_s);
    parts.recompute += m * q.recompute_s;
    parts.tp_comm += m * std::max(0.0, messages_s - q.dp_s);
    parts.dp_comm += m * q.dp_s;
    parts.pp_comm += m * costs.p2p_s * messages;
  }
  const double busy = parts.Total();
  const bool waits = p > 1;  // a single rank waits for no other: busy and pipe_s differ only by rounding
  // With shared cores, the slowest rank runs faster than measured while others idle.
  if (waits && busy > pipe_s) {
    parts.Scale(pipe_s / busy);
  } else if (waits && busy < pipe_s) {
    parts.bubble = pipe_s - busy;
  }
  const double norm_gradients_s = std::min(exposed.norm_gradients_s, exposed.reduced_s);
  parts.tp_comm += norm_gradients_s;
  parts.dp_comm += exposed.begin_s - exposed.zero_s + exposed.reduced_s - norm_gradients_s + exposed.gather_s;
  parts.optimizer = exposed.zero_s + exposed.norm_s + exposed.update_s;
  parts.overhead = costs.scalars_s;
  return parts;
}

double AtLeastShared(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                     double pipe_s) {
  return ranks_per_core > 1 ? std::max(pipe_s, SharedCoreSeconds(costs, microbatches)) : pipe_s;
}

}  // namespace

double SharedCoreSeconds(const PipelineCosts& costs, std::int64_t microbatches) {
  double sum = 0;
  for (const StageCosts& c : costs.stages) sum += c.Total(static_cast<double>(microbatches));
  return sum / static_cast<double>(costs.ranks.size());
}

Breakdown BreakdownOf(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                      const PipelineEnd& pipeline) {
  const Exposed exposed = ExposedOf(costs, PipelineStages(costs, microbatches, ranks_per_core),
                                    [&](std::size_t rank) { return pipeline.lead_s[rank]; });
  return Attribute(costs, microbatches, exposed,
                   AtLeastShared(costs, microbatches, ranks_per_core, pipeline.seconds));
}

Breakdown BreakdownOf(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                      std::span<const double> worked_s) {
  const PipelineStages pipeline(costs, microbatches, ranks_per_core);
  const double end_s = *std::max_element(worked_s.begin(), worked_s.end());
  const Exposed exposed =
      ExposedOf(costs, pipeline, [&](std::size_t rank) { return end_s - worked_s[rank]; });
  // `worked_s` counts from the begin of the step, so it includes what precedes the first forward.
  const double pipe_s = end_s - exposed.begin_s;
  return Attribute(costs, microbatches, exposed, AtLeastShared(costs, microbatches, ranks_per_core, pipe_s));
}

}  // namespace autocfg
