#include "search/cost/steady_state.h"

#include <algorithm>
#include <map>
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

using test::RandomRuns;

constexpr Schedule kSchedules[] = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved};

struct SteadyPipeline {
  ParallelPlan plan;
  std::int64_t microbatches = 0;
  std::vector<StageSeconds> stages;
  std::vector<double> begin;
  double message = 0;

  WalkedPipeline Walked() const {
    return {.stages = stages,
            .begin_s = begin,
            .message_s = message,
            .forwards_first = plan.schedule == Schedule::kGPipe};
  }
  std::int64_t Computes() const { return 2 * microbatches * static_cast<std::int64_t>(stages.size()); }
};

// A pipeline bound by any of its ranks, by a few that are nearly as slow, or by messages.
SteadyPipeline RandomPipeline(RandomRuns& random, Schedule schedule) {
  SteadyPipeline p;
  p.plan.pp = random.Pick({2, 3, 4, 5, 6, 8, 16});
  p.plan.schedule = schedule;
  if (schedule == Schedule::kInterleaved) p.plan.virtual_stages = random.Pick({2, 3, 4});
  p.microbatches =
      schedule == Schedule::kInterleaved ? p.plan.pp * random.Between(1, 44) : random.Between(1, 300);
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

// Equal layers, an embedding in front and a head behind, messages short beside them, as large models have
// them. Interleaved, ranks that drain free those behind them, whose last computes are never like those
// before.
SteadyPipeline LargeModel(RandomRuns& random, Schedule schedule) {
  SteadyPipeline p;
  p.plan.pp = random.Pick({8, 16, 32});
  p.plan.schedule = schedule;
  if (schedule == Schedule::kInterleaved) p.plan.virtual_stages = random.Pick({2, 3, 6});
  p.microbatches = p.plan.pp * random.Between(8, 24);
  p.stages.assign(static_cast<std::size_t>(StageCount(p.plan)), {0.0181, 0.0320});
  p.stages.front().forward += 0.0005;
  p.stages.back().forward += 0.002 * random.Uniform();
  p.stages.back().backward += 0.006 * random.Uniform();
  p.begin.assign(static_cast<std::size_t>(p.plan.pp), 0.002);
  p.message = 0.0005 * (1 + random.Uniform());
  return p;
}

// Every rank's last backward ends when it does in the walk of all computes.
void ExpectAsTheWholeWalk(const SteadyPipeline& p, const PipelineEnds& ends, int i) {
  const std::vector<ComputeEnds> whole = WalkEveryCompute(p.Walked(), p.microbatches);
  ASSERT_EQ(ends.last_backward_s.size(), whole.size());
  for (std::size_t r = 0; r < whole.size(); ++r) {
    ASSERT_EQ(whole[r].forwards.size() + whole[r].backwards.size(),
              static_cast<std::size_t>(p.Computes()) / whole.size());
    const double end = whole[r].backwards.back();
    ASSERT_NEAR(ends.last_backward_s[r], end, 1e-10 * end) << i << ": rank " << r << " of " << whole.size();
  }
}

// What is skipped changes nothing, and of most pipelines most is.
TEST(SteadyState, IsSkippedExactly) {
  RandomRuns random(31);
  std::map<Schedule, int> mostly_skipped;
  for (int i = 0; i < 3600; ++i) {
    const Schedule schedule = kSchedules[i % 3];
    const SteadyPipeline p = RandomPipeline(random, schedule);
    const PipelineEnds ends = WalkPipeline(p.Walked(), p.microbatches);
    ExpectAsTheWholeWalk(p, ends, i);
    if (HasFatalFailure()) return;
    ASSERT_LE(ends.walked, p.Computes());
    if (2 * ends.walked < p.Computes()) ++mostly_skipped[schedule];
  }
  for (const Schedule schedule : kSchedules)
    EXPECT_GT(mostly_skipped[schedule], 600) << static_cast<int>(schedule);
}

// Deep pipelines of large models are steady once they are full, whatever becomes of their ends. Of few, a
// rank is so little slower than another that it takes long until it holds that one up. (GPipe's ranks do not
// wait for one another both ways, so that it always takes long.)
TEST(SteadyState, OfLargeModelsIsFoundAtOnce) {
  RandomRuns random(41);
  int at_once = 0;
  for (int i = 0; i < 120; ++i) {
    const SteadyPipeline p = LargeModel(random, kSchedules[1 + i % 2]);
    const PipelineEnds ends = WalkPipeline(p.Walked(), p.microbatches);
    ExpectAsTheWholeWalk(p, ends, i);
    if (HasFatalFailure()) return;
    const std::int64_t groups = p.microbatches / p.plan.pp;
    if (ends.walked <= p.Computes() / groups * 4) ++at_once;
  }
  EXPECT_GE(at_once, 115);
}

// The walk takes as long for a million microbatches as for a thousand.
TEST(SteadyState, OfAMillionMicrobatches) {
  RandomRuns random(43);
  for (const Schedule schedule : kSchedules) {
    SteadyPipeline p = LargeModel(random, schedule);
    p.microbatches = 1024 * 1024;
    const PipelineEnds many = WalkPipeline(p.Walked(), p.microbatches);
    p.microbatches = 1024;
    const PipelineEnds few = WalkPipeline(p.Walked(), p.microbatches);
    EXPECT_EQ(many.walked, few.walked);
    // once steady, each microbatch adds as much
    p.microbatches = 2048;
    const double each =
        (WalkPipeline(p.Walked(), p.microbatches).last_backward_s[0] - few.last_backward_s[0]) / 1024;
    const double expected = few.last_backward_s[0] + each * (1024 * 1024 - 1024);
    EXPECT_NEAR(many.last_backward_s[0], expected, 1e-9 * expected);
  }
}

// When each rank's last backward ends, by the program and the simulator.
std::vector<double> SimulatedEnds(const SteadyPipeline& p) {
  const Program program = Lower(test::SmallGpt(StageCount(p.plan)), test::Fp32(p.microbatches, 16), p.plan);
  const auto step = SimulateProgram(program, [&](std::int32_t rank, const Action& action) -> double {
    switch (action.kind) {
      case ActionKind::kZeroGradients: return p.begin[static_cast<std::size_t>(rank)];
      case ActionKind::kForward: return p.stages[static_cast<std::size_t>(action.stage)].forward;
      case ActionKind::kBackward: return p.stages[static_cast<std::size_t>(action.stage)].backward;
      default: return action.peer >= 0 ? p.message : 0.25;
    }
  });
  std::vector<double> ends(program.ranks.size());
  for (const TraceRow& row : step->rows) {
    const auto rank = static_cast<std::size_t>(row.rank);
    if (program.ranks[rank][static_cast<std::size_t>(row.action)].kind == ActionKind::kBackward)
      ends[rank] = std::max(ends[rank], row.end_s);
  }
  return ends;
}

// The same of simulated programs, with pipelines of both kinds.
TEST(SteadyState, IsThatOfSimulatedPrograms) {
  RandomRuns random(37);
  int mostly_skipped = 0;
  for (int i = 0; i < 48; ++i) {
    const Schedule schedule = kSchedules[i % 3];
    SteadyPipeline p = i % 2 == 0 ? RandomPipeline(random, schedule) : LargeModel(random, schedule);
    p.microbatches = std::min<std::int64_t>(p.microbatches, 10 * p.plan.pp);
    const PipelineEnds ends = WalkPipeline(p.Walked(), p.microbatches);
    const std::vector<double> simulated = SimulatedEnds(p);
    for (std::size_t r = 0; r < simulated.size(); ++r)
      ASSERT_NEAR(ends.last_backward_s[r], simulated[r], 1e-9 * simulated[r]) << i;
    if (2 * ends.walked < p.Computes()) ++mostly_skipped;
  }
  EXPECT_GT(mostly_skipped, 20);
}

}  // namespace
}  // namespace autocfg
