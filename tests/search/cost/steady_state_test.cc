#include "search/cost/steady_state.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "search/cost/pipeline_simulator.h"
#include "search/cost/pipeline_walk.h"
#include "search/plan/model_stages.h"
#include "search/schedule/program.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using testing::RandomRuns;

// A pipeline bound by any of its ranks, by a few that are nearly as slow, or by messages.
struct Pipeline {
  ParallelPlan plan;
  std::int64_t microbatches = 0;
  std::vector<StageSeconds> stages;
  std::vector<double> begin;
  double message = 0;
};

Pipeline RandomPipeline(RandomRuns& random, Schedule schedule) {
  Pipeline p;
  p.plan.pp = random.Pick({2, 3, 4, 6, 8});
  p.plan.schedule = schedule;
  if (schedule == Schedule::kInterleaved) p.plan.virtual_stages = random.Pick({2, 3, 4});
  p.microbatches =
      schedule == Schedule::kInterleaved ? p.plan.pp * random.Between(4, 44) : random.Between(4, 300);
  const double spread = std::vector{0.0, 0.01, 0.1, 1.0, 3.0}[static_cast<std::size_t>(random.Between(0, 4))];
  const bool whole = random.Coin();  // stages of one layer or two
  for (std::int64_t s = 0; s < StageCount(p.plan); ++s) {
    const double layers = whole ? static_cast<double>(random.Between(1, 2)) : 1;
    p.stages.push_back({layers + (whole ? 0 : spread * random.Uniform()),
                        2 * layers + (whole ? 0 : spread * random.Uniform())});
  }
  for (std::int64_t r = 0; r < p.plan.pp; ++r) p.begin.push_back(random.Uniform());
  p.message =
      std::vector{0.0, 0.05, 1.0, 10.0}[static_cast<std::size_t>(random.Between(0, 3))] * random.Uniform();
  return p;
}

PipelineRun Simulated(const Pipeline& p, std::int64_t microbatches) {
  const Program program =
      Lower(testing::SmallGpt(StageCount(p.plan)), testing::Fp32(microbatches, 16), p.plan);
  const auto step = SimulateProgram(program, [&](std::int32_t, const Action& action) -> double {
    if (action.kind == ActionKind::kForward) return p.stages[static_cast<std::size_t>(action.stage)].forward;
    if (action.kind == ActionKind::kBackward)
      return p.stages[static_cast<std::size_t>(action.stage)].backward;
    return action.peer >= 0 ? p.message : 0.25;
  });
  PipelineRun run{.step_s = step->step_time_s,
                  .pipeline_end_s = 0,
                  .ranks = std::vector<ComputeEnds>(program.ranks.size())};
  for (const TraceRow& row : step->rows) {
    const auto rank = static_cast<std::size_t>(row.rank);
    const ActionKind kind = program.ranks[rank][static_cast<std::size_t>(row.action)].kind;
    if (kind == ActionKind::kForward) run.ranks[rank].forwards.push_back(row.end_s);
    if (kind == ActionKind::kBackward) run.ranks[rank].backwards.push_back(row.end_s);
    if (kind == ActionKind::kBackward) run.pipeline_end_s = std::max(run.pipeline_end_s, row.end_s);
  }
  return run;
}

// What is extended is what the whole run gives, and most runs are extended.
TEST(SteadyState, IsExtendedExactly) {
  RandomRuns random(31);
  int extended = 0;
  for (int i = 0; i < 2400; ++i) {
    const Schedule schedule =
        std::vector{Schedule::kOneFOneB, Schedule::kInterleaved}[static_cast<std::size_t>(i % 2)];
    const Pipeline p = RandomPipeline(random, schedule);
    const auto walk = [&](std::int64_t m) { return WalkPipeline({p.stages, p.begin, p.message}, m); };
    std::int64_t most = 0;
    const PipelineRun run = ExtendSteadyState(p.plan, p.microbatches, [&](std::int64_t m) {
      most = std::max(most, m);
      return walk(m);
    });
    const PipelineRun whole = walk(p.microbatches);
    ASSERT_NEAR(run.step_s, whole.step_s, 1e-9 * whole.step_s) << i;
    ASSERT_NEAR(run.pipeline_end_s, whole.pipeline_end_s, 1e-9 * whole.pipeline_end_s) << i;
    if (most < p.microbatches) ++extended;
  }
  EXPECT_GT(extended, 1400);
}

// The same of simulated programs, GPipe's among them.
TEST(SteadyState, OfSimulatedPrograms) {
  RandomRuns random(37);
  int extended = 0;
  for (int i = 0; i < 90; ++i) {
    const Schedule schedule = std::vector{Schedule::kGPipe, Schedule::kOneFOneB,
                                          Schedule::kInterleaved}[static_cast<std::size_t>(i % 3)];
    Pipeline p = RandomPipeline(random, schedule);
    p.microbatches = std::min<std::int64_t>(p.microbatches, 16 * p.plan.pp);
    std::int64_t most = 0;
    const PipelineRun run = ExtendSteadyState(p.plan, p.microbatches, [&](std::int64_t m) {
      most = std::max(most, m);
      return Simulated(p, m);
    });
    const PipelineRun whole = Simulated(p, p.microbatches);
    ASSERT_NEAR(run.step_s, whole.step_s, 1e-9 * whole.step_s) << i;
    ASSERT_NEAR(run.pipeline_end_s, whole.pipeline_end_s, 1e-9 * whole.pipeline_end_s) << i;
    if (most < p.microbatches) ++extended;
  }
  EXPECT_GT(extended, 40);
}

}  // namespace
}  // namespace autocfg
