// What the timer skips of programs that repeat: those of all schedules, and others.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "search/cost/timing/program_timer.h"
#include "search/cost/timing/step_timers.h"
#include "search/plan/model_stages.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/looped_program.h"
#include "search/schedule/program.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/cost/timing/reference_times.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

using test::RandomRuns;

const std::vector<Schedule> kSteadySchedules = test::PredictedSchedules();

// Random numbers for pipelines of all schedules in turn. Those of ZB-H1, and whether messages overlap, which
// came later, have a stream of their own, so that the others stay the same.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed), split_(seed), messages_(seed + 1) {}
  RandomRuns& Of(Schedule schedule) { return SplitsBackward(schedule) ? split_ : random_; }
  bool Overlap() { return messages_.Coin(); }

 private:
  RandomRuns random_, split_, messages_;
};

Schedule ScheduleOf(int i) { return kSteadySchedules[static_cast<std::size_t>(i) % kSteadySchedules.size()]; }

struct StageSeconds {
  double forward = 0;
  double backward = 0;
  double first_saves = 0;
  double weights = 0;  // where backwards are split
};

struct SteadyPipeline {
  ParallelPlan plan;
  std::int64_t microbatches = 0;
  std::vector<StageSeconds> stages;
  std::vector<double> begin;
  double message = 0;

  double Seconds(std::int32_t rank, const Action& action) const {
    switch (action.kind) {
      case ActionKind::kZeroScalars: return begin[static_cast<std::size_t>(rank)];
      case ActionKind::kForward: return stages[static_cast<std::size_t>(action.stage)].forward;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient: {
        const StageSeconds& stage = stages[static_cast<std::size_t>(action.stage)];
        return stage.backward - (action.microbatch == 0 ? stage.first_saves : 0);
      }
      case ActionKind::kWeightGradient: {
        const double seconds = stages[static_cast<std::size_t>(action.stage)].weights;
        return action.microbatch == 0 ? 0.8 * seconds : seconds;
      }
      case ActionKind::kReduceGradients: return 0.1 * rank;
      default: return action.peer >= 0 ? message : 0.25;
    }
  }
  ActionSeconds Durations() const {
    return [this](std::int32_t rank, const Action& action) { return Seconds(rank, action); };
  }
  ProgramTimer Timer() const {
    auto timer =
        ProgramTimer::Create(LowerLoops(PipelineShape(plan, microbatches, /*ties_embeddings=*/true)));
    EXPECT_TRUE(timer.ok()) << timer.status();
    return *std::move(timer);
  }
  TimedStep Time() const { return Timer().Time(Durations()); }
  std::int64_t Computes() const {
    return (SplitsBackward(plan) ? 3 : 2) * microbatches * static_cast<std::int64_t>(stages.size());
  }
};

// A pipeline bound by any of its ranks, by a few that are nearly as slow, or by messages.
SteadyPipeline RandomSteadyPipeline(RandomRuns& random, Schedule schedule) {
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
                        2 * layers + (whole ? 0 : spread * random.Uniform()), 0.3 * random.Uniform()});
    if (!SplitsBackward(p.plan)) continue;
    p.stages.back().backward -= layers;
    p.stages.back().weights = layers + (whole ? 0 : spread * random.Uniform());
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
  p.stages.assign(static_cast<std::size_t>(StageCount(p.plan)), {0.0181, 0.0320, 0.0011});
  if (SplitsBackward(p.plan)) {
    for (StageSeconds& stage : p.stages) stage.weights = stage.backward -= 0.0160;
  }
  p.stages.front().forward += 0.0005;
  p.stages.back().forward += 0.002 * random.Uniform();
  p.stages.back().backward += 0.006 * random.Uniform();
  p.begin.assign(static_cast<std::size_t>(p.plan.pp), 0.002);
  p.message = 0.0005 * (1 + random.Uniform());
  return p;
}

void ExpectSame(const TimedStep& a, const TimedStep& b, double rounding, int i) {
  ASSERT_NEAR(a.step_time_s, b.step_time_s, rounding * b.step_time_s) << i;
  ASSERT_EQ(a.worked_s.size(), b.worked_s.size());
  for (std::size_t r = 0; r < b.worked_s.size(); ++r)
    ASSERT_NEAR(a.worked_s[r], b.worked_s[r], rounding * b.worked_s[r]) << i << ": rank " << r;
}

// Times the pipeline; every rank's last backward ends when it does if nothing is skipped.
TimedStep TimeAsTheWhole(const SteadyPipeline& p, int i) {
  const ProgramTimer timer = p.Timer();
  const TimedStep whole = timer.TimeAll(p.Durations());
  TimedStep step = timer.Time(p.Durations());
  EXPECT_EQ(whole.computes, p.Computes());
  ExpectSame(step, whole, 1e-10, i);
  return step;
}

// What is skipped changes nothing, and of most pipelines most is.
TEST(SteadyState, IsSkippedExactly) {
  Draws draws(31);
  std::map<Schedule, int> mostly_skipped;
  for (int i = 0; i < 4800; ++i) {
    const Schedule schedule = ScheduleOf(i);
    SteadyPipeline p = RandomSteadyPipeline(draws.Of(schedule), schedule);
    p.plan.p2p_overlap = draws.Overlap();
    const TimedStep step = TimeAsTheWhole(p, i);
    if (HasFailure()) return;
    ASSERT_LE(step.computes, p.Computes());
    if (2 * step.computes < p.Computes()) ++mostly_skipped[schedule];
  }
  for (const Schedule schedule : kSteadySchedules)
    EXPECT_GT(mostly_skipped[schedule], 600) << static_cast<int>(schedule);
}

// Deep pipelines of large models are steady once they are full, whatever becomes of their ends. Of few, a
// rank is so little slower than another that it takes long until it holds that one up. (GPipe's ranks do not
// wait for one another both ways, so that it always takes long.)
TEST(SteadyState, OfLargeModelsIsFoundAtOnce) {
  RandomRuns random(41);
  int at_once = 0;
  for (int i = 0; i < 120; ++i) {
    const SteadyPipeline p = LargeModel(random, i % 2 == 0 ? Schedule::kOneFOneB : Schedule::kInterleaved);
    const TimedStep step = TimeAsTheWhole(p, i);
    if (HasFailure()) return;
    const std::int64_t groups = p.microbatches / p.plan.pp;
    // The first backwards of a rank with several stages are a group that is like no other.
    const std::int64_t until_steady = p.plan.virtual_stages == 1 ? 4 : 5;
    if (step.computes <= p.Computes() / groups * until_steady) ++at_once;
  }
  EXPECT_GE(at_once, 115);
}

// A million microbatches take no longer than a thousand.
TEST(SteadyState, OfAMillionMicrobatches) {
  Draws draws(43);
  for (const Schedule schedule : kSteadySchedules) {
    SteadyPipeline p = LargeModel(draws.Of(schedule), schedule);
    p.microbatches = 1024 * 1024;
    const TimedStep many = p.Time();
    p.microbatches = 1024;
    const TimedStep few = p.Time();
    EXPECT_EQ(many.computes, few.computes);
    // once steady, each microbatch adds as much
    p.microbatches = 2048;
    const double each = (p.Time().worked_s[0] - few.worked_s[0]) / 1024;
    const double expected = few.worked_s[0] + each * (1024 * 1024 - 1024);
    EXPECT_NEAR(many.worked_s[0], expected, 1e-9 * expected);
  }
}

// The step of a program as its trace has it, every row of which is that of the reference.
TimedStep TracedTimes(const Program& program, const ActionSeconds& seconds) {
  const auto trace = TraceProgram(program, seconds);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const test::ReferenceTimes reference(program, seconds);
  TimedStep step{.step_time_s = trace->step_time_s, .worked_s = std::vector<double>(program.ranks.size())};
  for (const TraceRow& row : trace->rows) {
    const auto rank = static_cast<std::size_t>(row.rank);
    const auto action = static_cast<std::size_t>(row.action);
    const double end = reference.End(rank, action);
    EXPECT_NEAR(row.end_s, end, 1e-12 * end) << rank << ": " << ToString(program.ranks[rank][action]);
    const ActionKind kind = program.ranks[rank][action].kind;
    if (IsStageCompute(kind)) step.worked_s[rank] = row.end_s;
  }
  return step;
}

// Loops and the program that Lower makes are one program, for every schedule and any stages and messages; the
// timer gives it the times of the reference.
TEST(SteadyState, IsThatOfTracedPrograms) {
  Draws draws(37);
  int mostly_skipped = 0;
  for (int i = 0; i < 800; ++i) {
    const Schedule schedule = ScheduleOf(i);
    RandomRuns& random = draws.Of(schedule);
    SteadyPipeline p = i % 20 == 0 ? LargeModel(random, schedule) : RandomSteadyPipeline(random, schedule);
    p.microbatches = std::min<std::int64_t>(p.microbatches, 10 * p.plan.pp);
    if (schedule != Schedule::kInterleaved && i % 5 == 0) p.microbatches = random.Between(1, 2 * p.plan.pp);
    const Program program =
        Lower({test::SmallGpt(StageCount(p.plan)), test::Fp32(p.microbatches, 16), p.plan});
    const TimedStep step = TimeAsTheWhole(p, i);
    ExpectSame(step, TracedTimes(program, p.Durations()), 1e-10, i);
    if (HasFailure()) return;
    if (2 * step.computes < p.Computes()) ++mostly_skipped;
  }
  EXPECT_GT(mostly_skipped, 200);
}

// A program that no schedule makes: ranks compute, send to any other rank, receive, and sum scalars together,
// over and over. Rank r writes several repetitions as one, and has one after them as a loop of its own, so
// that no two ranks' loops are alike. What is issued is issued in one order by all ranks, so that it never
// gets stuck.
class HandMade {
 public:
  explicit HandMade(RandomRuns& random) : random_(random) {
    plan_.pp = random.Between(1, 5);
    lanes_[0] = random.Coin() ? Lane::kPipelineSend : Lane::kReduce;
    lanes_[1] = random.Coin() ? Lane::kPipelineRecv : lanes_[0];
    for (std::int64_t i = random.Between(1, 12); i > 0; --i) events_.push_back(RandomEvent());
    times_ = 12 * random.Between(1, 20);
    for (std::int64_t r = 0; r < plan_.pp; ++r) {
      unroll_.push_back(random.Pick({1, 1, 2, 3}));
      for (int kind = 0; kind < 4; ++kind) seconds_.push_back(random.Coin() ? random.Uniform() : 1);
    }
  }

  ActionSeconds Durations() const {
    return [this](std::int32_t rank, const Action& action) {
      const std::size_t kind = action.kind == ActionKind::kForward    ? 0
                               : action.kind == ActionKind::kBackward ? 1
                               : action.peer >= 0                     ? 2
                                                                      : 3;
      return seconds_[4 * static_cast<std::size_t>(rank) + kind];
    };
  }

  LoopedProgram Loops() const {
    LoopWriter writer(plan_);
    for (std::int32_t r = 0; r < plan_.pp; ++r) {
      writer.BeginRank();
      std::array<LoopWriter::Handle, kUsers> users{};
      std::size_t next = 0;
      const auto add = [&](const Action& action, std::span<const std::size_t> waits) {
        std::vector<LoopWriter::Handle> after;
        for (const std::size_t ago : waits) after.push_back(users[(next + kUsers - 1 - ago) % kUsers]);
        const auto handle =
            writer.Add({action.kind, action.lane, action.stage, action.microbatch, action.peer}, after);
        users[next++ % kUsers] = handle;
      };
      const auto latest_first = [&] {
        std::vector<LoopWriter::Handle> handles;
        for (std::size_t ago = 0; ago < kUsers; ++ago)
          handles.push_back(users[(next + kUsers - 1 - ago) % kUsers]);
        return handles;
      };
      const std::int64_t unroll = unroll_[static_cast<std::size_t>(r)];
      const auto repetitions = [&](std::int64_t) {
        for (std::int64_t i = 0; i < unroll; ++i) ForEachAction(r, add);
      };
      writer.Repeat(1, times_ / unroll, repetitions, latest_first);
    }
    return writer.Take();
  }

  Program Flat() const {
    Program program{plan_, 1, {}};
    for (std::int32_t r = 0; r < plan_.pp; ++r) {
      RankProgram& list = program.ranks.emplace_back();
      for (std::int64_t i = 0; i < times_; ++i) {
        ForEachAction(r, [&](Action action, std::span<const std::size_t> waits) {
          const auto size = static_cast<std::int64_t>(list.size());
          for (const std::size_t ago : waits) {
            if (const std::int64_t index = size - 1 - static_cast<std::int64_t>(ago); index >= 0)
              action.after.push_back(static_cast<std::int32_t>(index));
          }
          list.push_back(std::move(action));
        });
      }
    }
    return program;
  }

 private:
  static constexpr std::size_t kUsers = 6;

  struct Event {
    ActionKind kind = ActionKind::kForward;
    std::int32_t rank = 0, peer = 0;
    std::vector<std::size_t> waits, peer_waits;  // for which of the rank's last actions
  };

  Event RandomEvent() {
    Event event;
    event.rank = static_cast<std::int32_t>(random_.Between(0, plan_.pp - 1));
    event.peer = static_cast<std::int32_t>(random_.Between(0, plan_.pp - 1));
    const std::int64_t what = random_.Between(0, 9);
    if (what < 4 || (what < 9 && event.peer == event.rank)) {
      event.kind = random_.Coin() ? ActionKind::kForward : ActionKind::kBackward;
    } else if (what < 9) {
      event.kind = random_.Coin() ? ActionKind::kSendActivation : ActionKind::kSendGradient;
    } else {
      event.kind = ActionKind::kReduceScalars;
    }
    for (std::vector<std::size_t>* waits : {&event.waits, &event.peer_waits}) {
      for (std::int64_t n = random_.Between(0, 2); n > 0; --n)
        waits->push_back(static_cast<std::size_t>(random_.Between(0, kUsers - 1)));
    }
    return event;
  }

  template <class Add>
  void ForEachAction(std::int32_t rank, const Add& add) const {
    for (const Event& e : events_) {
      const bool sends = e.kind == ActionKind::kSendActivation || e.kind == ActionKind::kSendGradient;
      if (e.kind == ActionKind::kReduceScalars) {
        add({.kind = e.kind, .lane = Lane::kReduce}, e.waits);
      } else if (rank == e.rank) {
        if (sends) {
          add({.kind = e.kind, .lane = lanes_[0], .stage = 0, .microbatch = 0, .peer = e.peer}, e.waits);
        } else {
          add({.kind = e.kind, .stage = rank, .microbatch = 0}, e.waits);
        }
      } else if (sends && rank == e.peer) {
        add({.kind = ReceiveOf(e.kind), .lane = lanes_[1], .stage = 0, .microbatch = 0, .peer = e.rank},
            e.peer_waits);
      }
    }
  }

  RandomRuns& random_;
  ParallelPlan plan_;
  std::array<Lane, 2> lanes_{};
  std::vector<Event> events_;
  std::int64_t times_ = 0;
  std::vector<std::int64_t> unroll_;  // by rank
  std::vector<double> seconds_;       // by rank: forward, backward, message, sum
};

TEST(SteadyState, OfProgramsThatNoScheduleMakes) {
  RandomRuns random(47);
  int mostly_skipped = 0;
  for (int i = 0; i < 2000; ++i) {
    const HandMade made(random);
    const auto timer = ProgramTimer::Create(made.Loops());
    ASSERT_TRUE(timer.ok()) << i << ": " << timer.status();
    const TimedStep whole = timer->TimeAll(made.Durations()), step = timer->Time(made.Durations());
    ExpectSame(step, whole, 1e-10, i);
    ExpectSame(whole, TracedTimes(made.Flat(), made.Durations()), 1e-10, i);
    if (HasFailure()) return;
    if (2 * step.computes < whole.computes) ++mostly_skipped;
  }
  EXPECT_GT(mostly_skipped, 500);
}

// Whether a loop of computes has more rounds if there are more microbatches: all of gpipe's, and of the
// others those that have forwards and the last actions of microbatches. Fill and drain stay.
bool Grows(const ComputeLoop& loop, Schedule schedule) {
  const auto has = [&](auto is) {
    return std::any_of(loop.computes.begin(), loop.computes.end(),
                       [&](const StageCompute& compute) { return is(compute.kind); });
  };
  const bool both = has([](ActionKind kind) { return kind == ActionKind::kForward; }) && has(FreesSlot);
  return schedule == Schedule::kGPipe || both;
}

// The growth of the loops of a program that `more` rounds of microbatches add to: one microbatch each, for
// interleaved one for each rank.
std::vector<LoopGrowth> GrowthOfAll(const PipelineShape& shape, std::int64_t more) {
  const LoopedProgram program = LowerLoops(shape);
  std::vector<LoopGrowth> growth;
  for (const LoopedProgram::Repetition& r : program.repetitions) {
    if (Grows(MakeComputeLoops(shape, r.rank)[r.computes], shape.schedule))
      growth.push_back({r.rank, r.loop, more});
  }
  return growth;
}

TEST(GrownTimer, IsThatOfTheLongerProgram) {
  Draws draws(77);
  for (int i = 0; i < 400; ++i) {
    RandomRuns& random = draws.Of(ScheduleOf(i));
    SteadyPipeline p = RandomSteadyPipeline(random, ScheduleOf(i));
    p.plan.p2p_overlap = draws.Overlap();
    const std::int64_t round = p.plan.schedule == Schedule::kInterleaved ? p.plan.pp : 1;
    // Where messages overlap, a rank is up to two microbatches ahead of the next one.
    p.microbatches = round * (random.Between(40, 60) + (p.plan.p2p_overlap ? 30 : 0));
    const ProgramTimer timer = p.Timer();
    const std::int64_t more = random.Between(-5, 50);
    const auto grown = timer.Grown(GrowthOfAll(PipelineShape(p.plan, p.microbatches, true), more));
    ASSERT_TRUE(grown.has_value()) << i << ": " << p.microbatches << " microbatches, " << more << " more";
    p.microbatches += more * round;
    const ProgramTimer whole = p.Timer();
    EXPECT_EQ(grown->node_count(), whole.node_count()) << i;
    const TimedStep a = grown->Time(p.Durations()), b = whole.Time(p.Durations());
    EXPECT_EQ(a.step_time_s, b.step_time_s) << i;
    EXPECT_EQ(a.worked_s, b.worked_s) << i;
    EXPECT_EQ(grown->TimeAll(p.Durations()).computes, p.Computes()) << i;
  }
}

TEST(GrownTimer, RefusesGrowthThatRanksDoNotShare) {
  for (const Schedule schedule : kSteadySchedules) {
    ParallelPlan plan{{.pp = 4}, {}, {.schedule = schedule}};
    if (schedule == Schedule::kInterleaved) plan.virtual_stages = 2;
    const PipelineShape shape(plan, 64, true);
    const auto timer = ProgramTimer::Create(LowerLoops(shape));
    ASSERT_TRUE(timer.ok());
    std::vector<LoopGrowth> growth = GrowthOfAll(shape, 3);
    ASSERT_GE(growth.size(), 4u) << Name(schedule);
    EXPECT_TRUE(timer->Grown(growth).has_value()) << Name(schedule);
    growth.back().repetitions = 4;
    EXPECT_FALSE(timer->Grown(growth).has_value()) << Name(schedule) << ": one loop grows by more";
    growth.pop_back();
    EXPECT_FALSE(timer->Grown(growth).has_value()) << Name(schedule) << ": one loop does not grow";
    EXPECT_FALSE(timer->Grown(GrowthOfAll(shape, -1000)).has_value()) << Name(schedule);
    EXPECT_FALSE(timer->Grown(std::vector<LoopGrowth>{{0, 99, 1}}).has_value()) << "there is no such loop";
  }
}

// In whatever order the numbers of microbatches come, whether a timer is made or grown.
TEST(StepTimers, FindTheTimerOfTheProgram) {
  Draws draws(5);
  for (int i = 0; i < 80; ++i) {
    StepTimers timers;
    RandomRuns& random = draws.Of(ScheduleOf(i));
    SteadyPipeline p = RandomSteadyPipeline(random, ScheduleOf(i));
    p.plan.p2p_overlap = draws.Overlap();
    const std::int64_t round = p.plan.schedule == Schedule::kInterleaved ? p.plan.pp : 1;
    for (int j = 0; j < 12; ++j) {
      p.microbatches = round * random.Between(1, random.Coin() ? 6 : 80);
      const TimedStep found = timers.Find(PipelineShape(p.plan, p.microbatches, true)).Time(p.Durations());
      const TimedStep made = p.Timer().Time(p.Durations());
      ASSERT_NO_FATAL_FAILURE(ExpectSame(found, made, 1e-12, i));
      EXPECT_EQ(found.computes, made.computes) << i;
    }
  }
}

}  // namespace
}  // namespace autocfg
