#include "search/cost/pipeline_walk.h"

#include <vector>

#include "gtest/gtest.h"
#include "search/cost/pipeline_simulator.h"
#include "search/plan/model_stages.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

// The walk gives what the simulator gives for the program that Lower makes, whatever the stages and messages
// cost.
TEST(PipelineWalk, IsWhatTheSimulatorGives) {
  test::RandomRuns random(59);
  for (int i = 0; i < 500; ++i) {
    ParallelPlan plan;
    plan.pp = random.Pick({1, 2, 3, 4, 8});
    std::int64_t m = random.Between(1, 20);
    if (plan.pp > 1 && random.Between(1, 3) == 1) {
      plan.schedule = Schedule::kGPipe;
    } else if (plan.pp > 1 && random.Coin()) {
      plan.schedule = Schedule::kInterleaved;
      plan.virtual_stages = random.Pick({2, 3, 5});
      m = plan.pp * random.Between(1, 5);
    }
    std::vector<StageSeconds> stages(static_cast<std::size_t>(StageCount(plan)));
    std::vector<double> begin(static_cast<std::size_t>(plan.pp));
    const double message = random.Coin() ? 0 : random.Pick({1, 10}) * random.Uniform();
    for (StageSeconds& s : stages) s = {random.Uniform(), 2 * random.Uniform()};
    for (double& b : begin) b = random.Uniform();

    const Program program = Lower(test::SmallGpt(StageCount(plan)), test::Fp32(m, 16), plan);
    const auto step = SimulateProgram(program, [&](std::int32_t rank, const Action& action) -> double {
      switch (action.kind) {
        case ActionKind::kZeroGradients: return begin[static_cast<std::size_t>(rank)];
        case ActionKind::kForward: return stages[static_cast<std::size_t>(action.stage)].forward;
        case ActionKind::kBackward: return stages[static_cast<std::size_t>(action.stage)].backward;
        default: return action.peer >= 0 ? message : 0;
      }
    });
    ASSERT_TRUE(step.ok()) << step.status();
    const bool gpipe = plan.schedule == Schedule::kGPipe;
    const std::vector<ComputeEnds> walked = WalkEveryCompute({stages, begin, message, gpipe}, m);
    std::vector<ComputeEnds> next(begin.size());
    std::size_t compared = 0;
    for (const TraceRow& row : step->rows) {
      const auto rank = static_cast<std::size_t>(row.rank);
      const Action& action = program.ranks[rank][static_cast<std::size_t>(row.action)];
      if (action.kind != ActionKind::kForward && action.kind != ActionKind::kBackward) continue;
      const bool forward = action.kind == ActionKind::kForward;
      std::vector<double>& seen = forward ? next[rank].forwards : next[rank].backwards;
      const std::vector<double>& ends = forward ? walked.at(rank).forwards : walked.at(rank).backwards;
      ASSERT_NEAR(ends.at(seen.size()), row.end_s, 1e-9 * row.end_s) << i << ": " << ToString(action);
      seen.push_back(row.end_s);
      ++compared;
    }
    EXPECT_EQ(compared, static_cast<std::size_t>(2 * m) * stages.size());
  }
}

}  // namespace
}  // namespace autocfg
