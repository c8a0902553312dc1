#include "search/cost/timing/closed_form.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "search/cost/timing/stage_times.h"
#include "search/schedule/generators.h"

namespace autocfg {
namespace {

// How far apart the bounds with and without overlapping messages may be, where the former stands for a time
// that lies between both.
constexpr double kClose = 1.02;

class Pipeline {
 public:
  Pipeline(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core, bool overlaps)
      : stages_(costs, microbatches, ranks_per_core, overlaps),
        microbatches_(microbatches),
        m_(static_cast<double>(microbatches)),
        ranks_(stages_.ranks()),
        chunks_(stages_.chunks()) {}

  PipelineEnd GPipe() const {
    double down = 0, slowest_forward = 0;
    for (std::size_t s = 0; s < ranks_; ++s) {
      const double passing = stages_.At(s).forward, busy = stages_.Busy(s).forward;
      down += passing;
      slowest_forward = std::max({slowest_forward, busy, passing - busy});  // messages follow one another too
    }
    const std::vector<double> up = BackwardEnds();
    PipelineEnd end{down + (m_ - 1) * slowest_forward + up.front(), {}};
    for (const double rank_s : up) end.lead_s.push_back(up.front() - rank_s);
    return end;
  }

  // 1F1B and interleaved. They differ only in the order of chunks and in how far forwards run ahead.
  PipelineEnd OneFOneB() const {
    // Both whole ways: down from the first forward to the last stage's, up from the last stage's backward.
    const StageTime ways = LongestWays();
    StageTime total_last;  // of the last chunk, over all ranks
    for (std::size_t q = 0; q < ranks_; ++q) {
      const StageTime t = stages_.At(LastChunk(q));
      total_last.forward += t.forward;
      total_last.backward += t.backward;
    }
    double longest = 0;
    PipelineEnd end;
    StageTime before;                          // first chunks of the ranks before q
    StageTime after = total_last;              // last chunks of the ranks after q
    double first_after = total_last.backward;  // of the first microbatch's backwards there
    for (std::size_t q = 0; q < ranks_; ++q) first_after -= stages_.FirstSaves(LastChunk(q));
    for (std::size_t q = 0; q < ranks_; ++q) {
      const StageTime rank = stages_.OfRank(q), last = stages_.At(LastChunk(q)), first = stages_.At(q);
      after.forward -= last.forward;
      after.backward -= last.backward;
      first_after -= last.backward - stages_.FirstSaves(LastChunk(q));
      const double both = m_ * rank.Total() - stages_.RankFirstSaves(q);
      end.lead_s.push_back(before.backward);
      // The messages that a path to the rank waits for, if they overlap: `rank` has none then.
      const double first_input = first.forward - stages_.Busy(q).forward;
      const double first_gradient = last.backward - stages_.Busy(LastChunk(q)).backward;
      // Busy from the first forward to the last backward.
      const double busy = before.forward + first_input + both + before.backward;
      const StageTime outside = OutsideSteadyState(q);
      // Its first backward waits until the first microbatch went all the way down and back up to it.
      const double waits =
          ways.forward + first_after + first_gradient + both - outside.forward + before.backward;
      // The microbatch of its last forward goes down from it and all the way up.
      const double awaited =
          before.forward + first_input + both - outside.backward + after.forward + ways.backward;
      longest = std::max({longest, busy, waits, awaited});
      // Both, if its first backward precedes its last forward.
      if (ForwardsBeforeSteadyState(q) < microbatches_ * static_cast<std::int64_t>(chunks_)) {
        const double steady = both - outside.forward - outside.backward;
        longest = std::max(
            longest, ways.forward + first_after + first_gradient + steady + after.forward + ways.backward);
      }
      before.forward += first.forward;
      before.backward += first.backward;
    }
    if (stages_.overlaps() && chunks_ == 1) longest = std::max(longest, RoundTrips());
    end.seconds = longest;
    return end;
  }

  PipelineEnd ZeroBubbleH1() const {
    double forwards = 0, first_after = 0;  // the latter: of the first microbatch's input gradients
    for (std::size_t q = 0; q < ranks_; ++q) {
      forwards += stages_.At(q).forward;
      first_after += stages_.At(q).backward - stages_.FirstSaves(q);
    }
    std::vector<double> ends(ranks_);  // first of the last input gradients
    double last_forward = 0;           // when the last rank has ended its last forward
    double before = 0;                 // forwards of the ranks before q
    for (std::size_t q = 0; q < ranks_; ++q) {
      const StageTime t = stages_.Busy(q), passing = stages_.At(q);
      first_after -= passing.backward - stages_.FirstSaves(q);
      const double all = m_ * t.Total() - stages_.FirstSaves(q) - stages_.FirstWeightsSave(q);
      // Forwards before the first input gradient; as many input gradients follow the last forward.
      const double ahead = std::min(m_, static_cast<double>(ranks_ - q));
      const double to_last_gradient = all - LastWeights(q, static_cast<double>(q + 1));
      const double to_last_forward = all - ahead * t.backward + (ahead < m_ ? 0 : stages_.FirstSaves(q)) -
                                     LastWeights(q, ahead + static_cast<double>(q));
      // Its first input gradient waits until the first microbatch went all the way down and back up to it.
      const double waits = forwards + first_after - ahead * t.forward;
      ends[q] = std::max(before, waits) + to_last_gradient;
      const double begins = ahead < m_ ? std::max(before, waits) : before;
      before += passing.forward;
      last_forward = std::max(last_forward, begins + to_last_forward + forwards - before);
    }
    ends.back() = std::max(ends.back(), last_forward + stages_.At(ranks_ - 1).backward);
    for (std::size_t q = ranks_ - 1; q-- > 0;)
      ends[q] = std::max(ends[q], ends[q + 1] + stages_.At(q).backward);
    for (std::size_t q = 0; q < ranks_; ++q) ends[q] += LastWeights(q, static_cast<double>(q + 1));
    PipelineEnd end{*std::max_element(ends.begin(), ends.end()), {}};
    for (const double rank_s : ends) end.lead_s.push_back(end.seconds - rank_s);
    return end;
  }

 private:
  // 1F1B: the first rank runs the forward of microbatch k + ranks after the backward of microbatch k, and
  // that one waits until its microbatch went all the way down and back, messages included. So they go one
  // after the other; at last the first rank runs the backwards that are left.
  double RoundTrips() const {
    StageTime way;
    double first_saves = 0;
    for (std::size_t s = 0; s < ranks_; ++s) {
      way.forward += stages_.At(s).forward;
      way.backward += stages_.At(s).backward;
      first_saves += stages_.FirstSaves(s);
    }
    const std::int64_t whole = (microbatches_ - 1) / static_cast<std::int64_t>(ranks_);
    const auto trips = static_cast<double>(whole);
    const double left = m_ - 1 - trips * static_cast<double>(ranks_);
    return (1 + trips) * (way.forward + way.backward) - first_saves + left * stages_.Busy(0).backward;
  }

  // GPipe: by rank, the seconds from the first backward on the last stage to the rank's last backward. The
  // first backward goes up to a stage. From there the second goes on, and all but it wait for the slowest
  // stage on their way.
  std::vector<double> BackwardEnds() const {
    // Stages with the same slowest one on the way from them.
    struct Way {
      double slowest = 0;
      double begin = 0;  // the latest end of a first backward, less the way up to the last rank, `passed`
      double most = 0;   // of this way and of those below it on the stack, without `passed`
    };
    std::vector<Way> ways;  // from the slowest to the fastest
    std::vector<double> ends(ranks_);
    double first = 0, passed = 0;
    for (std::size_t s = ranks_; s-- > 0;) {
      const double passing = stages_.At(s).backward, busy = stages_.Busy(s).backward;
      // The last of the messages that follow one another, where they overlap.
      const double last_message = first + m_ * (passing - busy);
      first += passing - stages_.FirstSaves(s);
      Way way{busy, first - passed - (passing - busy), 0};
      passed += passing;
      for (; !ways.empty() && ways.back().slowest <= way.slowest; ways.pop_back())
        way.begin = std::max(way.begin, ways.back().begin);
      way.most = way.begin + (m_ - 2) * way.slowest;
      if (!ways.empty()) way.most = std::max(way.most, ways.back().most);
      ways.push_back(way);
      ends[s] = m_ > 1 ? std::max({first, passed + way.most, last_message + busy}) : first;
    }
    return ends;
  }

  // Returns the time of the rank's last `count` weight gradients, or of all if there are fewer.
  double LastWeights(std::size_t q, double count) const {
    return std::min(m_, count) * stages_.At(q).weights - (count < m_ ? 0 : stages_.FirstWeightsSave(q));
  }

  std::size_t LastChunk(std::size_t rank) const { return (chunks_ - 1) * ranks_ + rank; }

  // Returns the time of the first microbatch's forward through all stages, and of the last one's backward.
  // Each either never waits, or waits at one rank, which runs the whole group through every chunk but the
  // last.
  StageTime LongestWays() const {
    StageTime way, before_first, before_last, all_last;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const StageTime t = stages_.At(s);
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
      const StageTime rank = stages_.OfRank(q), first = stages_.At(q), last = stages_.At(LastChunk(q));
      const StageTime busy_last = stages_.Busy(LastChunk(q));
      // The rank begins with a message, and runs the last chunk of the first microbatch when it is done with
      // the group: messages that overlap have arrived by then.
      const double first_input = first.forward - stages_.Busy(q).forward;
      const double last_input = last.forward - busy_last.forward;
      way.forward = std::max(way.forward, before_first.forward + first_input +
                                              group * (rank.forward - busy_last.forward) + all_last.forward -
                                              before_last.forward - last_input);
      // A group of all microbatches has the first one.
      const double saves = microbatches_ == static_cast<std::int64_t>(ranks_)
                               ? stages_.RankFirstSaves(q) - stages_.FirstSaves(LastChunk(q))
                               : 0;
      way.backward =
          std::max(way.backward, before_first.backward + group * (rank.backward - busy_last.backward) -
                                     saves + all_last.backward - before_last.backward);
      before_first.forward += first.forward;
      before_first.backward += first.backward;
      before_last.forward += last.forward;
      before_last.backward += last.backward;
    }
    return way;
  }

  // Returns how many forwards of its chunks a rank runs before its first backward.
  std::int64_t ForwardsBeforeSteadyState(std::size_t q) const {
    const auto rank = static_cast<std::int64_t>(q), p = static_cast<std::int64_t>(ranks_),
               v = static_cast<std::int64_t>(chunks_);
    if (chunks_ == 1) return std::min(microbatches_, p - rank);
    return std::min(microbatches_ * v, InterleavedWarmUp(rank, p, v, microbatches_) + 1);
  }

  // Returns the time of the rank's forwards before its first backward, and of its backwards after its last
  // forward (as many, in the mirrored order of chunks). Those of all microbatches include the first.
  StageTime OutsideSteadyState(std::size_t q) const {
    const std::int64_t forwards = ForwardsBeforeSteadyState(q);
    if (chunks_ == 1) {
      const StageTime t = stages_.Busy(q);
      const auto count = static_cast<double>(forwards);
      return {count * t.forward, count * t.backward - (count < m_ ? 0 : stages_.FirstSaves(q))};
    }
    const auto p = static_cast<std::int64_t>(ranks_), v = static_cast<std::int64_t>(chunks_);
    StageTime outside;
    for (std::int64_t chunk = 0; chunk < v; ++chunk) {
      // Seen from the end, the last backwards run the chunks in the order of the first forwards.
      const auto of_chunk = static_cast<double>(InterleavedComputes(forwards, p, v, chunk));
      const auto stage = static_cast<std::size_t>(chunk * p) + q;
      const StageTime t = stages_.Busy(stage);
      outside.forward += of_chunk * t.forward;
      outside.backward += of_chunk * t.backward - (of_chunk < m_ ? 0 : stages_.FirstSaves(stage));
    }
    return outside;
  }

  PipelineStages stages_;
  std::int64_t microbatches_;
  double m_;
  std::size_t ranks_, chunks_;
};

PipelineEnd BoundOf(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                    double ranks_per_core, bool overlaps) {
  const Pipeline pipeline(costs, microbatches, ranks_per_core, overlaps);
  switch (schedule) {
    case Schedule::kGPipe: return pipeline.GPipe();
    case Schedule::kOneFOneB:
    case Schedule::kInterleaved: return pipeline.OneFOneB();
    case Schedule::kZeroBubbleH1: return pipeline.ZeroBubbleH1();
  }
  throw std::logic_error("a schedule without a bound");
}

}  // namespace

PipelineEnd PipelineBound(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                          double ranks_per_core) {
  return BoundOf(costs, schedule, microbatches, ranks_per_core, costs.overlaps_messages);
}

bool PipelineBoundIsClose(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                          double ranks_per_core) {
  if (SplitsBackward(schedule)) {
    return !costs.overlaps_messages &&
           microbatches / kMicrobatchesOfCloseZeroBubble >= static_cast<std::int64_t>(costs.ranks.size());
  }
  const std::vector<StageCosts>& stages = costs.stages;
  const bool one_each = stages.size() == costs.ranks.size();
  // Units may take the first and the last stage many times as long as those between.
  if (!one_each && stages.front().dp_s > 0) return false;
  for (std::size_t s = 2; !one_each && s + 1 < stages.size(); ++s) {
    if (stages[s].forward_s != stages[1].forward_s || stages[s].backward_s != stages[1].backward_s ||
        stages[s].first_saves_s != stages[1].first_saves_s) {
      return false;
    }
  }
  if (!costs.overlaps_messages || costs.p2p_s == 0 || schedule == Schedule::kGPipe) return true;
  const auto bound_s = [&](bool overlaps) {
    return BoundOf(costs, schedule, microbatches, ranks_per_core, overlaps).seconds;
  };
  return bound_s(false) <= kClose * bound_s(true);
}

}  // namespace autocfg
