// Compares the trainer on the paced device with the simulator. Both execute the same program, so with equal
// op times each action of each rank must start and end at the same time. The rows of both are joined on
// (rank, action).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "base/fnv1a.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/cost/plan_op_times.h"
#include "search/cost/timing/program_timer.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "search/plan/rank_mesh.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/trainer/model_styles.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::RunThreads;
using test::SmallGpt;

// Times between 1 us and 1 ms, different for every op and the same in every run. A rank that sums fewer
// squares or updates fewer parameters takes less time for it, as the simulator assumes.
class ArbitraryTimes final : public OpTimeModel {
 public:
  explicit ArbitraryTimes(double scale_of_messages, double host_op_s = 0)
      : scale_of_messages_(scale_of_messages), host_op_s_(host_op_s) {}
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    if (op.kind == OpKind::kSumOfSquares || op.kind == OpKind::kAdamW)
      return 1e-8 * static_cast<double>(op.dims[0]);
    const double seconds = 1e-6 * static_cast<double>(1 + (base::Fnv1a(ToString(op)) >> 20) % 1000);
    return IsCommunication(op.kind) ? seconds * scale_of_messages_ : seconds;
  }
  double HostOpSeconds() const override { return host_op_s_; }

 private:
  const double scale_of_messages_, host_op_s_;
};

TrainConfig PacedConfig(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                        const OpTimeModel& times) {
  TrainConfig c;
  c.model = model;
  c.workload = workload;
  c.plan = plan;
  c.lr.steps = 2;
  c.trace = true;
  for (const OpTime& time : PlanOpTimes({model, workload, plan}, times))
    c.op_times.emplace(time.op, time.seconds);
  c.host_op_s = times.HostOpSeconds();
  return c;
}

std::vector<v1::TrainResult> RunPaced(const TrainConfig& c) {
  const int ranks = static_cast<int>(RankCount(c.plan));
  auto rendezvous = CreateLocalRendezvous(ranks);
  std::vector<v1::TrainResult> results(static_cast<std::size_t>(ranks));
  RunThreads(ranks, [&](int rank) {
    Backend backend =
        CreateTrainBackend(EngineDevice::kPaced, *rendezvous[static_cast<std::size_t>(rank)], c);
    results[static_cast<std::size_t>(rank)] = Train(c, rank, ranks, backend, {});
  });
  return results;
}

// Returns the seconds of ops in a row. With tp_overlap, the sums of a product over the tensor group run
// beside the products after it, one after the other.
double SecondsOf(const TrainConfig& c, const std::vector<OpDesc>& ops) {
  double computed_s = 0, summed_s = 0;
  bool product = false;  // the op before
  for (const OpDesc& op : ops) {
    const double op_s = c.op_times.at(op);
    if (c.plan.tp_overlap > 1 && product && op.group == CommGroup::kTensor) {
      summed_s = std::max(summed_s, computed_s) + op_s;
      continue;
    }
    product = op.kind == OpKind::kMatmul;
    if (!product) computed_s = std::max(computed_s, summed_s);
    computed_s += op_s;
  }
  return std::max(computed_s, summed_s);
}

TracedStep SimulateOps(const TrainConfig& c) {
  const RankMesh mesh(c.plan);
  std::map<std::pair<std::int64_t, std::string>, double> known;  // by pipeline rank and action
  const auto step = TraceProgram(Lower(c), [&](std::int32_t rank, const Action& action) {
    const std::int64_t pipeline_rank = mesh.Coordinate(rank, Axis::kPipeline);
    Action any = action;
    any.microbatch = std::min(action.microbatch, 1);  // the first is unlike the others
    any.peer = -1;
    const auto [it, made] = known.try_emplace({pipeline_rank, ToString(any)}, 0);
    if (made) {
      const auto ops = ActionOps(c, pipeline_rank, action);
      it->second = SecondsOf(c, ops);
      if (IsStageCompute(action.kind)) {
        const auto computes =
            std::count_if(ops.begin(), ops.end(), [](const OpDesc& op) { return !IsCommunication(op.kind); });
        it->second = std::pow(
            std::pow(it->second, 4) + std::pow(static_cast<double>(computes) * c.host_op_s, 4), 0.25);
      }
    }
    return it->second;
  });
  EXPECT_TRUE(step.ok()) << step.status();
  return step.value_or(TracedStep{});
}

void ExpectNear(double got, double want, const char* what) {
  ASSERT_NEAR(got, want, 1e-9 * std::max(std::abs(want), 1e-12)) << what;
}

void ExpectSameRows(const std::vector<v1::TrainResult>& results, const TracedStep& simulated,
                    const Program& program) {
  std::map<std::pair<std::int32_t, std::int32_t>, TraceRow> rows;
  for (const TraceRow& row : simulated.rows) rows[{row.rank, row.action}] = row;
  std::size_t joined = 0;
  for (const v1::TrainResult& result : results) {
    ASSERT_EQ(result.step_time_s_size(), 2);
    ExpectNear(result.step_time_s(0), simulated.step_time_s, "first step");
    ExpectNear(result.step_time_s(1), simulated.step_time_s, "second step");
    for (const v1::TraceRow& row : result.trace()) {
      const auto it = rows.find({row.rank(), row.action()});
      ASSERT_NE(it, rows.end());
      SCOPED_TRACE(::testing::Message() << "rank " << row.rank() << " "
                                        << ToString(program.ranks[static_cast<std::size_t>(row.rank())]
                                                                 [static_cast<std::size_t>(row.action())]));
      EXPECT_EQ(row.lane(), Name(it->second.lane));
      ExpectNear(row.start_s(), it->second.start_s, "start");
      ExpectNear(row.end_s(), it->second.end_s, "end");
      ++joined;
    }
  }
  EXPECT_EQ(joined, rows.size());
}

std::int64_t Pick(std::mt19937_64& random, const std::vector<std::int64_t>& values) {
  return values[random() % values.size()];
}

// `split` says whether backwards are split, `messages` whether messages overlap; all other choices follow
// from `random`.
TrainConfig RandomConfig(std::mt19937_64& random, std::mt19937_64& split, std::mt19937_64& messages) {
  ParallelPlan plan;
  plan.tp = Pick(random, {1, 1, 2});
  plan.pp = Pick(random, {1, 2, 3, 4});
  plan.dp = Pick(random, {1, 2});
  plan.schedule = random() % 2 ? Schedule::kGPipe : Schedule::kOneFOneB;
  std::int64_t microbatches = Pick(random, {1, 2, 3, 5, 8});
  if (plan.pp > 1 && random() % 2) {
    plan.schedule = Schedule::kInterleaved;
    plan.virtual_stages = Pick(random, {2, 3});
    microbatches = plan.pp * Pick(random, {1, 2, 3});
  } else if (plan.pp > 1 && split() % 2 == 0) {
    plan.schedule = Schedule::kZeroBubbleH1;
  }
  plan.p2p_overlap = plan.pp > 1 && messages() % 2 == 0;
  if (plan.tp > 1) plan.tp_overlap = Pick(messages, {1, 2, 4});
  plan.micro_batch = Pick(random, {1, 2});
  plan.recompute = random() % 2 ? Recompute::kFull : Recompute::kNone;
  const std::int64_t stages = plan.pp * plan.virtual_stages;
  const std::vector<ModelSpec> styles = test::ModelStyles();
  ModelSpec model = styles[random() % styles.size()];
  test::SetLayers(model, stages * Pick(random, {1, 2}));
  if (plan.recompute == Recompute::kFull) plan.recompute_layers = Pick(random, {0, 1});
  if (random() % 2) {
    plan.split = SplitMode::kExplicit;
    plan.split_layers.assign(static_cast<std::size_t>(stages), model.layers / stages);
    plan.split_layers.front() += 2;
    test::SetLayers(model, model.layers + 2);
  }
  // The mean op takes 0.5 ms. Depending on the plan, the host is slower for no action, some actions or all.
  const ArbitraryTimes times(random() % 3 == 0 ? 10.0 : 0.5,
                             std::vector{0.0, 4e-4, 6e-4, 2e-3}[random() % 4]);
  test::FitChunks(model, 7);
  return PacedConfig(model, Fp32(microbatches * plan.micro_batch * plan.dp, 7), plan, times);
}

TEST(Paced, EveryActionOfRandomPlansMatchesTheSimulator) {
  std::mt19937_64 random(20260917), split(1), messages(2);
  int interleaved = 0, splits = 0, overlaps = 0;
  for (int i = 0; i < 60; ++i) {
    const TrainConfig c = RandomConfig(random, split, messages);
    SCOPED_TRACE(::testing::Message()
                 << "plan " << i << ": tp=" << c.plan.tp << " pp=" << c.plan.pp << " dp=" << c.plan.dp
                 << " vpp=" << c.plan.virtual_stages << " schedule=" << static_cast<int>(c.plan.schedule)
                 << " p2p_overlap=" << c.plan.p2p_overlap << " tp_overlap=" << c.plan.tp_overlap);
    interleaved += c.plan.schedule == Schedule::kInterleaved;
    splits += SplitsBackward(c.plan);
    overlaps += OverlapsMessages(c.plan);
    const TracedStep simulated = SimulateOps(c);
    ASSERT_NO_FATAL_FAILURE(ExpectSameRows(RunPaced(c), simulated, Lower(c)));
  }
  EXPECT_GT(interleaved, 5);
  EXPECT_GT(splits, 5);
  EXPECT_GT(overlaps, 15);
}

// Returns the cost model of a plan whose collectives run beside computes.
CostModel HidingCosts(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                      std::shared_ptr<const OpTimeModel> times) {
  ClusterSpec cluster = LocalRanks(RankCount(plan));
  cluster.groups.front().device.kind = DeviceKind::kCuda;
  return CostModel({model, workload, cluster}, std::move(times));
}

// Compares with the cost model's own trace of a plan, from the same op times.
TEST(Paced, MatchesTheTraceOfTheCostModel) {
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{{.tp = 2, .pp = 2, .dp = 2}},
        ParallelPlan{{.pp = 4}, {.recompute = Recompute::kFull}, {.schedule = Schedule::kGPipe}},
        ParallelPlan{{.tp = 2, .pp = 4}, {}, {.schedule = Schedule::kZeroBubbleH1}},
        ParallelPlan{{.tp = 2, .pp = 2}, {.recompute = Recompute::kFull, .tp_overlap = 4}},
        ParallelPlan{{.tp = 2, .pp = 2}, {.tp_overlap = 2}, {.schedule = Schedule::kZeroBubbleH1}},
        ParallelPlan{{.pp = 4}, {}, {.schedule = Schedule::kGPipe}, {.p2p_overlap = true}},
        ParallelPlan{{.pp = 2, .dp = 2},
                     {},
                     {.virtual_stages = 2, .schedule = Schedule::kInterleaved},
                     {.p2p_overlap = true}},
        ParallelPlan{{.pp = 2, .dp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
    SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
    const ModelSpec model = SmallGpt(4, 16, 4, 61);
    const Workload workload = Fp32(8, 8);
    for (const double host_op_s : {0.0, 4e-4, 2e-3}) {
      const auto times = std::make_shared<ArbitraryTimes>(1.0, host_op_s);
      const TracedStep traced = HidingCosts(model, workload, plan, times).Trace(plan);
      ASSERT_NO_FATAL_FAILURE(ExpectSameRows(RunPaced(PacedConfig(model, workload, plan, *times)), traced,
                                             Lower({model, workload, plan})));
    }
  }
}

TEST(Paced, ScatteredSumsMatchTheTrace) {
  const ModelSpec model = SmallGpt(4, 16, 4, 61);
  const Workload workload = Fp32(8, 8);
  for (const Schedule schedule : {Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
    for (const std::int64_t chunks : {1, 2, 4}) {
      const ParallelPlan plan{
          {.tp = 2, .pp = 2}, {.sequence_parallel = true, .tp_overlap = chunks}, {.schedule = schedule}};
      const auto times = std::make_shared<ArbitraryTimes>(1.0, 0.0);
      const TracedStep traced = HidingCosts(model, workload, plan, times).Trace(plan);
      ASSERT_NO_FATAL_FAILURE(ExpectSameRows(RunPaced(PacedConfig(model, workload, plan, *times)), traced,
                                             Lower({model, workload, plan})));
    }
  }
}

// Returns random plans over the data axis, in every schedule, with every stage of sharding.
struct DataRun {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
};
DataRun RandomDataRun(std::mt19937_64& random) {
  for (;;) {
    ParallelPlan plan{
        {.tp = Pick(random, {1, 1, 2}), .pp = Pick(random, {1, 1, 2, 3}), .dp = Pick(random, {2, 4})}};
    std::int64_t microbatches = Pick(random, {1, 2, 4});
    if (plan.pp > 1) {
      plan.schedule = static_cast<Schedule>(random() % kScheduleCount);
      if (TakesVirtualStages(plan.schedule)) {
        plan.virtual_stages = 2;
        microbatches = plan.pp * Pick(random, {1, 2});
      }
    }
    if (plan.tp > 1) plan.sequence_parallel = random() % 2;
    plan.recompute = random() % 2 ? Recompute::kFull : Recompute::kNone;
    plan.recompute_layers = plan.recompute == Recompute::kFull ? Pick(random, {0, 1}) : 0;
    plan.zero_stage = Pick(random, {0, 1, 1, 2, 3});
    plan.dp_shard = plan.zero_stage > 0 && plan.dp == 4 ? Pick(random, {0, 2}) : 0;
    plan.grad_overlap = random() % 4 != 0;
    plan.param_overlap = plan.zero_stage > 0 && random() % 4 != 0;
    const std::vector<ModelSpec> styles = test::ModelStyles();
    ModelSpec model = styles[random() % styles.size()];
    test::SetLayers(model, plan.pp * plan.virtual_stages * Pick(random, {1, 3}));
    const Workload workload = Fp32(microbatches * plan.dp, 6);
    if (!FindIllegality({model, workload, plan}, RankCount(plan))) return {model, workload, plan};
  }
}

// Returns by how much the parts of states of other ranks take longer than that of data coordinate 0, whose
// time is predicted: a part with less padding has more elements.
double UnevenSeconds(const DataRun& run, const OpTimeModel& times) {
  double seconds = 0;
  for (const bool update : {false, true}) {
    double most_s = 0;
    for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
      const auto of = [&](std::int64_t data) {
        if (!update) return times.Seconds(GradientNormOp(run, rank, {0, data}), run.plan);
        double sum_s = 0;
        for (const RepeatedOp& op : RankOps(run, rank, ActionKind::kOptimizer, {0, data}))
          sum_s += static_cast<double>(op.times) * times.Seconds(op.op, run.plan);
        return sum_s;
      };
      for (std::int64_t data = 1; data < StateShards(run.plan); ++data)
        most_s = std::max(most_s, of(data) - of(0));
    }
    seconds += most_s;
  }
  return seconds;
}

// Reductions and gathers of units take the time that is predicted. Rows are compared where all ranks have
// equal parts of states, and none gathers: the simulator delays a first forward that waits for parameters.
// Where a rank has several stages, it delays it for those of later ones by the least that may come before.
TEST(Paced, UnitsTakeThePredictedTime) {
  std::mt19937_64 random(20261125);
  std::map<std::pair<std::int64_t, bool>, int>
      seen;  // by zero stage and whether pipelines have several ranks
  for (int i = 0; i < 150; ++i) {
    const DataRun run = RandomDataRun(random);
    SCOPED_TRACE(run.model.name + " " + PlanText(run.plan));
    // Messages that hide entirely, in part, and hardly.
    const auto times = std::make_shared<ArbitraryTimes>(std::vector{0.3, 2.0, 20.0}[random() % 3], 0.0);
    const TracedStep traced = HidingCosts(run.model, run.workload, run.plan, times).Trace(run.plan);
    const TrainConfig c = PacedConfig(run.model, run.workload, run.plan, *times);
    ++seen[{run.plan.zero_stage, run.plan.pp > 1}];
    const double uneven_s = UnevenSeconds(run, *times);
    const std::vector<v1::TrainResult> results = RunPaced(c);
    for (const v1::TrainResult& result : results) {
      if (OverlapsParameters(run.plan) && run.plan.virtual_stages > 1) {
        ASSERT_LE(result.step_time_s(0), traced.step_time_s * (1 + 1e-9));
        ASSERT_GE(result.step_time_s(0), traced.step_time_s * 0.9);
      } else if (uneven_s > 0) {
        ASSERT_GE(result.step_time_s(0), traced.step_time_s * (1 - 1e-9));
        ASSERT_LE(result.step_time_s(0), (traced.step_time_s + uneven_s) * (1 + 1e-9));
      } else {
        ASSERT_NO_FATAL_FAILURE(ExpectNear(result.step_time_s(0), traced.step_time_s, "step"));
      }
    }
    if (ShardsStates(run.plan)) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectSameRows(results, traced, Lower(run)));
  }
  EXPECT_EQ(seen.size(), 8u);
  for (const auto& [kind, count] : seen) EXPECT_GE(count, 5) << "zero=" << kind.first;
}

// Only attention and the weight gradients of linear layers take time, so all stages are equal and messages
// are free: a forward takes 1 s per layer, a backward 2 s, half of it for the four weight gradients.
class EqualLayers final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    const bool attention = op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionBackward;
    return attention ? 1 : op.epilogue == Epilogue::kBiasGradient ? 0.25 : 0;
  }
};

// The bubble over the ideal time is (p-1)/m (Huang et al. 2019; Narayanan et al. 2021, section 2.2.1), and
// (p-1)/(v m) if p ranks interleave v stages each (section 2.2.2). Under ZB-H1 it is (p-1)(f + b - w) of
// m (f + b + w), where f, b and w are the times of forwards, input gradients and weight gradients (Qi et al.
// 2023, section 2); here they are equal.
TEST(Paced, BubblesMatchPublishedFormulas) {
  constexpr std::int64_t kLayers = 8, kMicrobatches = 8;
  for (const std::int64_t pp : {2, 4}) {
    for (const ParallelPlan& plan :
         {ParallelPlan{{.pp = pp}, {}, {.schedule = Schedule::kGPipe}},
          ParallelPlan{{.pp = pp}, {}, {.schedule = Schedule::kOneFOneB}},
          ParallelPlan{{.pp = pp}, {}, {.schedule = Schedule::kZeroBubbleH1}},
          ParallelPlan{{.pp = pp}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
      TrainConfig c = PacedConfig(SmallGpt(kLayers, 16, 4, 61), Fp32(kMicrobatches, 8), plan, EqualLayers());
      const double ideal_s = 3.0 * kMicrobatches * kLayers / static_cast<double>(pp);
      const double bubble = static_cast<double>(pp - 1) /
                            static_cast<double>(plan.virtual_stages * kMicrobatches) /
                            (SplitsBackward(plan) ? 3 : 1);
      for (const v1::TrainResult& result : RunPaced(c))
        EXPECT_DOUBLE_EQ(result.step_time_s(1) - ideal_s, bubble * ideal_s);
    }
  }
}

TEST(Paced, ReportsTimesAndBytesAndNoLosses) {
  const ParallelPlan plan{{.pp = 2}};
  TrainConfig c = PacedConfig(SmallGpt(4, 16, 4, 61), Fp32(4, 8), plan, ArbitraryTimes(1));
  c.workload.precision = *ParsePrecision("bf16");
  c.op_times.clear();
  for (const OpTime& time : PlanOpTimes({c.model, c.workload, plan}, ArbitraryTimes(1)))
    c.op_times.emplace(time.op, time.seconds);
  c.trace = false;
  c.untimed_steps = 1;
  for (const v1::TrainResult& result : RunPaced(c)) {
    EXPECT_EQ(result.losses_size() + result.grad_norms_size() + result.trace_size(), 0);
    EXPECT_EQ(result.step_time_s_size(), 1);
    EXPECT_GT(result.planned_memory_bytes().total(), 0);
    EXPECT_EQ(result.peak_memory_bytes(), result.planned_memory_bytes().total());
  }
}

std::string Refusal(EngineDevice device, const TrainConfig& c) {
  auto rendezvous = CreateLocalRendezvous(1);
  try {
    Backend backend = CreateTrainBackend(device, *rendezvous[0], c);
    Train(c, 0, 1, backend, {});
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Paced, NamesOpWithoutTime) {
  TrainConfig c = PacedConfig(SmallGpt(2, 16, 4, 61), Fp32(2, 8), {}, ArbitraryTimes(1));
  EXPECT_EQ(Refusal(EngineDevice::kPaced, c), "");
  OpDesc gone;
  for (const auto& [op, seconds] : c.op_times) {
    if (op.kind == OpKind::kAttentionBackward) gone = op;
  }
  c.op_times.erase(gone);
  EXPECT_EQ(Refusal(EngineDevice::kPaced, c),
            "op_times: no time for " + ToString(gone) + "; give one for every op of the plan");
  c.op_times.clear();
  EXPECT_EQ(Refusal(EngineDevice::kPaced, c),
            "op_times are missing; the paced device needs a time for every op");
  c.op_times[gone] = 1;
  EXPECT_EQ(Refusal(EngineDevice::kCpu, c),
            "op_times were given for the cpu device; only the paced device uses them");
  c.op_times.clear();
  c.host_op_s = 1e-6;
  EXPECT_EQ(Refusal(EngineDevice::kCpu, c),
            "host_op_s was given for the cpu device; only the paced device uses it");
}

TEST(Paced, SavesNothing) {
  TrainConfig c = PacedConfig(SmallGpt(2, 16, 4, 61), Fp32(2, 8), {}, ArbitraryTimes(1));
  c.save_path = "x.safetensors";
  EXPECT_EQ(Refusal(EngineDevice::kPaced, c), "the paced device computes no weights; leave out --save");
}

TEST(Trace, RejectsTraceOnTheDryDevice) {
  TrainConfig c;
  c.model = SmallGpt(2, 16, 4, 61);
  c.workload = Fp32(2, 8);
  c.lr.steps = 1;
  c.trace = true;
  EXPECT_EQ(Refusal(EngineDevice::kDry, c),
            "the dry device takes no time and cannot be traced; use cpu, cuda or paced");
}

}  // namespace
}  // namespace autocfg::trainer
