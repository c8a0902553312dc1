// Pipelines with the costs of their stages, drawn at random or given: their times by the timer and by the
// closed form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/cost/timing/breakdown.h"
#include "search/cost/timing/closed_form.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/timing/program_timer.h"
#include "search/cost/timing/step_timers.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/schedule/compute_order.h"
#include "search/schedule/program.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/support/plan_values.h"

namespace autocfg::test {

// The parts of a step by the closed form.
inline Breakdown ClosedForm(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                            double ranks_per_core) {
  return BreakdownOf(costs, microbatches, ranks_per_core,
                     PipelineBound(costs, schedule, microbatches, ranks_per_core));
}

// A program of the pipeline alone, whose ranks are the pipeline's (dp = 1) or twice as many.
inline Program ProgramOf(const ParallelPlan& plan, std::int64_t microbatches) {
  return Lower({SmallGpt(StageCount(plan)), Fp32(plan.dp * microbatches, 16), plan});
}

// A pipeline of stages as unequal as they come: each time drawn from a range of six to one, messages as long
// as forwards.
struct UnequalPipeline {
  ParallelPlan plan;
  std::int64_t microbatches = 0;
  PipelineCosts costs;
};

inline UnequalPipeline RandomPipeline(RandomRuns& random, Schedule schedule) {
  UnequalPipeline p;
  ParallelPlan& plan = p.plan;
  plan.pp = random.Pick({2, 4, 8, 16});
  plan.schedule = schedule;
  std::int64_t& m = p.microbatches;
  m = random.Pick({1, 2, 3, 5, 8, 13, 21, 32});
  if (plan.schedule == Schedule::kInterleaved) {
    plan.virtual_stages = random.Pick({2, 3, 4});
    m = plan.pp * random.Pick({1, 2, 3, 5});
  }
  PipelineCosts& costs = p.costs;
  costs.stages.resize(static_cast<std::size_t>(StageCount(plan)));
  costs.ranks.resize(static_cast<std::size_t>(plan.pp));
  costs.p2p_s = random.Coin() ? random.Uniform() : 0;
  costs.ranks.front().tied_s = costs.ranks.back().tied_s = random.Uniform();
  for (StageCosts& s : costs.stages) {
    s.forward_s = 0.2 + random.Uniform();
    s.backward_s = 0.4 + 2 * random.Uniform();
    s.first_saves_s = 0.4 * random.Uniform() - 0.05;  // measured times may differ the other way too
    if (!SplitsBackward(plan)) continue;
    s.weight_s = 0.2 + random.Uniform();
    s.weight_first_saves_s = 0.2 * random.Uniform() - 0.02;
  }
  for (RankCosts& r : costs.ranks) {
    r.reduce_s = random.Uniform();
    r.gather_s = m % 2 == 0 ? 0 : 0.5 * r.reduce_s;
    r.zero_s = 0.1 * random.Uniform();
    r.norm_s = 0.1 * random.Uniform();
    r.update_s = 0.3 * random.Uniform();
  }
  plan.dp = 2;
  plan.zero_stage = m % 2;
  return p;
}

// Draws pipelines of all schedules in turn. Those of ZB-H1, and whether messages overlap, which came later,
// have a stream of their own, so that the others stay the same.
class RandomPipelines {
 public:
  explicit RandomPipelines(std::uint64_t seed) : random_(seed), split_(seed), messages_(seed + 1) {}
  UnequalPipeline Next() {
    const Schedule schedule = schedules_[next_++ % schedules_.size()];
    UnequalPipeline p = RandomPipeline(SplitsBackward(schedule) ? split_ : random_, schedule);
    p.plan.p2p_overlap = p.costs.overlaps_messages = messages_.Coin();
    return p;
  }

 private:
  RandomRuns random_, split_, messages_;
  std::size_t next_ = 0;
  const std::vector<Schedule> schedules_ = PredictedSchedules();
};

inline TimedStep TimeOf(const UnequalPipeline& p, const PipelineCosts& costs) {
  StepTimers timers;
  return TimeStep(timers.Find(PipelineShape(p.plan, p.microbatches, /*ties_embeddings=*/true)), costs, 1);
}

}  // namespace autocfg::test
