// Times of pipelines that are known beforehand: published bubbles, messages that overlap, ranks that share
// cores. By the timer and by the closed form.
#include <cstddef>
#include <cstdint>
#include <map>

#include "gtest/gtest.h"
#include "search/cost/cost_model.h"
#include "search/cost/timing/closed_form.h"
#include "search/cost/timing/program_timer.h"
#include "tests/search/cost/random_cases.h"
#include "tests/search/cost/timing/random_pipelines.h"

namespace autocfg {
namespace {

using test::ClosedForm;
using test::ModelOf;
using test::ProgramOf;
using test::RandomCase;
using test::RandomCases;
using test::RandomPipelines;
using test::TimeOf;
using test::UnequalPipeline;

// Equal stages without messages: (m + (p-1)/v)(f + b), f and b a rank's times per microbatch.
TEST(CostModel, InterleavedBubbleIsTheKnownOne) {
  for (const std::int64_t pp : {2, 4, 8}) {
    for (const std::int64_t v : {2, 3, 4}) {
      for (const std::int64_t m : {pp, 2 * pp, 5 * pp}) {
        ParallelPlan plan;
        plan.pp = pp;
        plan.virtual_stages = v;
        plan.schedule = Schedule::kInterleaved;
        PipelineCosts costs;
        const double chunk = 1.0 / static_cast<double>(v);
        costs.stages.assign(static_cast<std::size_t>(pp * v), {.forward_s = chunk, .backward_s = 2 * chunk});
        costs.ranks.resize(static_cast<std::size_t>(pp));
        const double expected =
            3 * (static_cast<double>(m) + static_cast<double>(pp - 1) / static_cast<double>(v));
        EXPECT_NEAR(ClosedForm(costs, plan.schedule, m, 1).Total(), expected, 1e-9)
            << pp << " " << v << " " << m;
        const auto step = TraceProgram(ProgramOf(plan, m), [&](std::int32_t rank, const Action& a) {
          return SecondsOf(costs, 1, rank, a);
        });
        ASSERT_TRUE(step.ok()) << step.status();
        EXPECT_NEAR(step->step_time_s, expected, 1e-9) << pp << " " << v << " " << m;
      }
    }
  }
}

// Equal stages without messages, forwards, input gradients and weight gradients of a second each:
// 3 m + (p-1) (Qi et al. 2023: the bubble is (p-1)(f + b - w)), where 1F1B takes 3 (m + p-1).
TEST(CostModel, ZeroBubbleIsTheKnownOne) {
  for (const std::int64_t pp : {2, 3, 4, 8}) {
    for (const std::int64_t m : {pp, pp + 1, 2 * pp, 5 * pp}) {
      ParallelPlan plan{{.pp = pp}, {}, {.schedule = Schedule::kZeroBubbleH1}};
      PipelineCosts costs;
      costs.stages.assign(static_cast<std::size_t>(pp), {.forward_s = 1, .backward_s = 1, .weight_s = 1});
      costs.ranks.resize(static_cast<std::size_t>(pp));
      const auto traced = [&](const PipelineCosts& of) {
        const auto step = TraceProgram(ProgramOf(plan, m), [&](std::int32_t rank, const Action& a) {
          return SecondsOf(of, 1, rank, a);
        });
        EXPECT_TRUE(step.ok()) << step.status();
        return step.ok() ? step->step_time_s : 0;
      };
      const auto expected = static_cast<double>(3 * m + pp - 1);
      EXPECT_NEAR(traced(costs), expected, 1e-9) << pp << " " << m;
      EXPECT_NEAR(ClosedForm(costs, plan.schedule, m, 1).Total(), expected, 1e-9) << pp << " " << m;
      plan.schedule = Schedule::kOneFOneB;
      costs.stages.assign(static_cast<std::size_t>(pp), {.forward_s = 1, .backward_s = 2});
      EXPECT_NEAR(traced(costs), static_cast<double>(3 * (m + pp - 1)), 1e-9) << pp << " " << m;
    }
  }
}

// Equal stages of any times: the bound is exact, and the bubble is (p-1)(f + b - w) if forwards take at least
// as long as weight gradients and these no longer than input gradients.
TEST(CostModel, ZeroBubbleOfEqualStagesOfAnyTimes) {
  RandomCases random(61);
  int published = 0;
  for (int i = 0; i < 300; ++i) {
    UnequalPipeline p;
    p.plan = {{.pp = random.Between(2, 9)}, {}, {.schedule = Schedule::kZeroBubbleH1}};
    p.microbatches = p.plan.pp + random.Between(0, 12);
    const StageCosts stage{.forward_s = 0.5 + random.Uniform(),
                           .backward_s = 0.5 + random.Uniform(),
                           .weight_s = 0.5 + random.Uniform()};
    p.costs.stages.assign(static_cast<std::size_t>(p.plan.pp), stage);
    p.costs.ranks.resize(static_cast<std::size_t>(p.plan.pp));
    const double timed = TimeOf(p, p.costs).step_time_s;
    ASSERT_NEAR(PipelineBound(p.costs, p.plan.schedule, p.microbatches, 1).seconds, timed, 1e-9 * timed) << i;
    if (stage.forward_s < stage.weight_s || stage.backward_s < stage.weight_s) continue;
    const double bubble =
        static_cast<double>(p.plan.pp - 1) * (stage.forward_s + stage.backward_s - stage.weight_s);
    EXPECT_NEAR(timed, static_cast<double>(p.microbatches) * stage.Total() + bubble, 1e-9 * timed) << i;
    ++published;
  }
  EXPECT_GT(published, 80);
}

// A step is never longer with messages that overlap, whatever the stages, and most are shorter where messages
// take time. (Without, a rank of unequal stages may be shorter too: it waits less until a slower one
// receives.)
TEST(CostModel, OverlappingMessagesNeverCostTime) {
  RandomPipelines random(67);
  std::map<Schedule, int> shorter, compared;
  for (int i = 0; i < 2000; ++i) {
    UnequalPipeline p = random.Next();
    const auto timed = [&](bool overlaps) {
      p.plan.p2p_overlap = p.costs.overlaps_messages = overlaps;
      return TimeOf(p, p.costs).step_time_s;
    };
    const double plain = timed(false), overlapping = timed(true);
    ASSERT_LE(overlapping, plain * (1 + 1e-12)) << i;
    if (p.costs.p2p_s == 0 || p.microbatches == 1) continue;
    ++compared[p.plan.schedule];
    if (overlapping < 0.999 * plain) ++shorter[p.plan.schedule];
  }
  for (const auto& [schedule, of] : compared)
    EXPECT_GT(shorter[schedule], of * 8 / 10) << static_cast<int>(schedule) << " of " << of;
}

// Equal stages, messages of a time t no longer than a compute. GPipe: each rank is busy from its first
// forward on, and messages cost 2 (p-1) t in all. Without overlap each of the m microbatches costs 2 t more.
TEST(CostModel, OverlappingMessagesOfGPipeCostTheFillAlone) {
  for (const std::int64_t pp : {2, 4, 8}) {
    for (const std::int64_t m : {1, 4, 16}) {
      for (const double message_s : {0.0, 0.3, 1.0}) {
        UnequalPipeline p;
        p.plan = {{.pp = pp}, {}, {.schedule = Schedule::kGPipe}, {.p2p_overlap = true}};
        p.microbatches = m;
        p.costs.overlaps_messages = true;
        p.costs.p2p_s = message_s;
        p.costs.stages.assign(static_cast<std::size_t>(pp), {.forward_s = 1, .backward_s = 2});
        p.costs.ranks.resize(static_cast<std::size_t>(pp));
        const double expected =
            3 * static_cast<double>(m + pp - 1) + 2 * static_cast<double>(pp - 1) * message_s;
        EXPECT_NEAR(TimeOf(p, p.costs).step_time_s, expected, 1e-9) << pp << " " << m << " " << message_s;
        EXPECT_NEAR(PipelineBound(p.costs, p.plan.schedule, m, 1).seconds, expected, 1e-9);
      }
    }
  }
}

// Two stages on one core do their work one after the other: no bubble, and no gain over what the core can do.
TEST(CostModel, RanksThatShareCores) {
  PipelineCosts costs;
  costs.stages.assign(2, {.forward_s = 1, .backward_s = 2});
  costs.ranks.resize(2);
  EXPECT_DOUBLE_EQ(ClosedForm(costs, Schedule::kOneFOneB, 4, 1).Total(), 5 * 3);
  EXPECT_DOUBLE_EQ(ClosedForm(costs, Schedule::kOneFOneB, 4, 2).Total(), 4 * 3);
  // One microbatch: the ranks take turns, each at twice the measured speed.
  EXPECT_DOUBLE_EQ(ClosedForm(costs, Schedule::kOneFOneB, 1, 2).Total(), 2 * 1.5);
  // One stage, every rank always at work: as measured.
  costs.stages.resize(1);
  costs.ranks.resize(1);
  EXPECT_DOUBLE_EQ(ClosedForm(costs, Schedule::kOneFOneB, 4, 2).Total(), 4 * 3);

  RandomCases cases(29);
  for (int i = 0; i < 100; ++i) {
    const RandomCase c = cases.Next();
    CostModel alone = ModelOf(c), shared = ModelOf(c, 4);
    EXPECT_LE(shared.Estimate(c.plan).step_time_s, alone.Estimate(c.plan).step_time_s * (1 + 1e-9));
    EXPECT_NEAR(shared.Estimate(c.plan).step_time_s / shared.Predict(c.plan).step_time_s, 1, 0.03) << i;
  }
}

}  // namespace
}  // namespace autocfg
