#include "search/cost/closed_form.h"

#include <algorithm>
#include <vector>

#include "search/cost/walked_step.h"
#include "search/schedule/interleaved.h"

namespace autocfg {
namespace {

// Forward and backward of a stage, or of all stages of a rank, with the receives before them.
struct StageTime {
  double forward = 0;
  double backward = 0;

  double Both() const { return forward + backward; }
};

class Pipeline {
 public:
  Pipeline(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core)
      : costs_(costs),
        microbatches_(microbatches),
        m_(static_cast<double>(microbatches)),
        ranks_per_core_(ranks_per_core),
        ranks_(costs.ranks.size()),
        chunks_(costs.stages.size() / ranks_) {}

  std::size_t ranks() const { return ranks_; }
  std::size_t chunks() const { return chunks_; }

  StageTime At(std::size_t stage) const {
    const StageCosts& c = costs_.stages[stage];
    return {UnloadedForward(c, ranks_per_core_) + (stage == 0 ? 0 : costs_.p2p_s),
            UnloadedBackward(c, ranks_per_core_) + (stage + 1 == costs_.stages.size() ? 0 : costs_.p2p_s)};
  }

  StageTime OfRank(std::size_t rank) const {
    StageTime t;
    for (std::size_t stage = rank; stage < costs_.stages.size(); stage += ranks_) {
      const StageTime chunk = At(stage);
      t.forward += chunk.forward;
      t.backward += chunk.backward;
    }
    return t;
  }

  StageTime SlowestStages() const {
    StageTime most;
    for (std::size_t s = 0; s < ranks_; ++s) {
      const StageTime t = At(s);
      most.forward = std::max(most.forward, t.forward);
      most.backward = std::max(most.backward, t.backward);
    }
    return most;
  }

  double GPipe() const {
    double once = 0;
    for (std::size_t s = 0; s < ranks_; ++s) once += At(s).Both();
    return once + (m_ - 1) * SlowestStages().Both();
  }

  // 1F1B and interleaved, which are one but for the order of chunks and how far forwards run ahead.
  double OneFOneB() const {
    // Whole ways: down from the first forward to the last stage's, back up from the last stage's backward.
    const StageTime ways = LongestWays();
    StageTime total_last;  // of the last chunk, over all ranks
    for (std::size_t q = 0; q < ranks_; ++q) {
      const StageTime t = At(LastChunk(q));
      total_last.forward += t.forward;
      total_last.backward += t.backward;
    }
    double longest = 0;
    StageTime before;              // first chunks of the ranks before q
    StageTime after = total_last;  // last chunks of the ranks after q
    for (std::size_t q = 0; q < ranks_; ++q) {
      const StageTime rank = OfRank(q), last = At(LastChunk(q)), first = At(q);
      after.forward -= last.forward;
      after.backward -= last.backward;
      const double both = m_ * rank.Both();
      // Busy from the first forward to the last backward.
      const double busy = before.forward + both + before.backward;
      const StageTime outside = OutsideSteadyState(q);
      // Its first backward waits for the first microbatch to go all the way down and back up to it.
      const double waits = ways.forward + after.backward + both - outside.forward + before.backward;
      // Its last forward's microbatch goes down from it and all the way up.
      const double awaited = before.forward + both - outside.backward + after.forward + ways.backward;
      longest = std::max({longest, busy, waits, awaited});
      // Both, where its first backward comes before its last forward.
      if (outside.forward < m_ * rank.forward) {
        const double steady = both - outside.forward - outside.backward;
        longest = std::max(longest, ways.forward + after.backward + steady + after.forward + ways.backward);
      }
      before.forward += first.forward;
      before.backward += first.backward;
    }
    return longest;
  }

 private:
  std::size_t LastChunk(std::size_t rank) const { return (chunks_ - 1) * ranks_ + rank; }

  // The first microbatch's forward through all stages, or the last one's backward. Either it never waits; or
  // it waits at one rank, which takes all of the group through every chunk but the last.
  StageTime LongestWays() const {
    StageTime way, before_first, before_last, all_last;
    for (std::size_t s = 0; s < costs_.stages.size(); ++s) {
      const StageTime t = At(s);
      way.forward += t.forward;
      way.backward += t.backward;
      if (s >= LastChunk(0)) {
        all_last.forward += t.forward;
        all_last.backward += t.backward;
      }
    }
    if (chunks_ == 1) return way;
    const auto group = static_cast<double>(ranks_);  // microbatches; legal plans have a multiple of it
    for (std::size_t q = 0; q < ranks_; ++q) {
      const StageTime rank = OfRank(q), first = At(q), last = At(LastChunk(q));
      way.forward = std::max(way.forward, before_first.forward + group * (rank.forward - last.forward) +
                                              all_last.forward - before_last.forward);
      way.backward = std::max(way.backward, before_first.backward + group * (rank.backward - last.backward) +
                                                all_last.backward - before_last.backward);
      before_first.forward += first.forward;
      before_first.backward += first.backward;
      before_last.forward += last.forward;
      before_last.backward += last.backward;
    }
    return way;
  }

  // The rank's forwards before its first backward, and its backwards after its last forward (as many, in the
  // mirrored order of chunks).
  StageTime OutsideSteadyState(std::size_t q) const {
    if (chunks_ == 1) {
      const StageTime t = At(q);
      const double count = std::min(m_, static_cast<double>(ranks_ - q));
      return {count * t.forward, count * t.backward};
    }
    const auto p = static_cast<std::int64_t>(ranks_), v = static_cast<std::int64_t>(chunks_);
    const std::int64_t ahead = InterleavedWarmUp(static_cast<std::int64_t>(q), p, v, microbatches_);
    const std::int64_t count = std::min(microbatches_ * v, ahead + 1);
    StageTime outside;
    for (std::int64_t chunk = 0; chunk < v; ++chunk) {
      // The last backwards run the chunks in the order of the first forwards, seen from the end.
      const auto of_chunk = static_cast<double>(count / (p * v) * p +
                                                std::clamp<std::int64_t>(count % (p * v) - chunk * p, 0, p));
      const StageTime t = At(static_cast<std::size_t>(chunk * p) + q);
      outside.forward += of_chunk * t.forward;
      outside.backward += of_chunk * t.backward;
    }
    return outside;
  }

  const PipelineCosts& costs_;
  std::int64_t microbatches_;
  double m_;
  double ranks_per_core_;
  std::size_t ranks_, chunks_;
};

// Whether all stages between the first and the last cost the same: the paths above are then the longest ones.
bool AreAlike(const PipelineCosts& costs) {
  const std::vector<StageCosts>& stages = costs.stages;
  for (std::size_t s = 2; s + 1 < stages.size(); ++s) {
    if (stages[s].forward_s != stages[1].forward_s || stages[s].backward_s != stages[1].backward_s)
      return false;
  }
  return true;
}

}  // namespace

double UnloadedForward(const StageCosts& c, double ranks_per_core) {
  return (c.forward_s - c.tp_forward_s) / ranks_per_core + c.tp_forward_s;
}

double UnloadedBackward(const StageCosts& c, double ranks_per_core) {
  const double messages = c.tp_backward_s + c.tp_recompute_s;
  return (c.backward_s - messages) / ranks_per_core + messages;
}

double SharedCoreSeconds(const PipelineCosts& costs, std::int64_t microbatches) {
  double sum = 0;
  for (const StageCosts& c : costs.stages) sum += c.Total();
  return sum * static_cast<double>(microbatches) / static_cast<double>(costs.ranks.size());
}

Breakdown ClosedForm(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                     double ranks_per_core) {
  const auto m = static_cast<double>(microbatches);
  const std::size_t p = costs.ranks.size();
  const Pipeline pipeline(costs, microbatches, ranks_per_core);

  // Of a rank's zeroing only what is not hidden behind the fill counts. Relative to the end of the pipeline,
  // a rank has its last backward behind it by those of the ranks before it, all of first chunks; so much of
  // its reduction is hidden.
  double pipe_s = 0, zero_s = 0, fill_s = 0, drain_s = 0, slowest_s = -1;
  double first_ready = 0, last_ready = 0, ready = 0, norm = 0, update = 0;
  std::size_t slowest = 0;
  std::vector<double> ends;  // of the ranks' last backwards, where the pipeline was walked
  if (pipeline.chunks() > 1 && !AreAlike(costs)) {
    ends = WalkedEnds(costs, schedule, microbatches, ranks_per_core);
    pipe_s = *std::max_element(ends.begin(), ends.end());
  }
  for (std::size_t s = 0; s < p; ++s) {
    const RankCosts& c = costs.ranks[s];
    const StageTime first_chunk = pipeline.At(s);
    zero_s = std::max(zero_s, c.zero_s - fill_s);
    fill_s += first_chunk.forward;
    const double reduced = c.reduce_s - (ends.empty() ? drain_s : pipe_s - ends[s]);
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
  if (!ends.empty()) {
    pipe_s -= zero_s;
  } else {
    pipe_s = schedule == Schedule::kGPipe ? pipeline.GPipe() : pipeline.OneFOneB();
  }
  if (ranks_per_core > 1) pipe_s = std::max(pipe_s, SharedCoreSeconds(costs, microbatches));

  // The pipeline's time, attributed on its slowest rank; what that rank does not fill is bubble.
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

}  // namespace autocfg
