// Tests the engine on a device whose memory the host cannot access and whose streams run late. In every
// layout its steps must equal those on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "search/plan/plan_text.h"
#include "tests/support/llama_parts.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/calibrate/calibrate.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using test::RunAsThreads;
using test::RunThreads;
using test::SmallConfig;
using test::TrainedRun;
using test::World;

TrainConfig ShortConfig(const ParallelPlan& plan) {
  TrainConfig c = SmallConfig();
  c.plan = plan;
  c.lr.steps = 4;
  return c;
}

std::vector<ParallelPlan> Plans() {
  return {{},
          {{.tp = 2}},
          {{.dp = 2}, {.micro_batch = 2, .recompute = Recompute::kFull}},
          {{.pp = 2}, {}, {.schedule = Schedule::kGPipe}},
          {{.pp = 4}, {}, {.schedule = Schedule::kOneFOneB}},
          {{.pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}},
          {{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}},
          {{.tp = 2, .pp = 2, .dp = 2}}};
}

void ExpectSameOutcome(const TrainedRun& got, const TrainedRun& want) {
  EXPECT_THAT(got.differences, ::testing::IsEmpty());
  ASSERT_EQ(got.steps.size(), want.steps.size());
  for (std::size_t s = 0; s < got.steps.size(); ++s) {
    EXPECT_EQ(got.steps[s].loss, want.steps[s].loss) << "step " << s;
    EXPECT_EQ(got.steps[s].grad_norm, want.steps[s].grad_norm) << "step " << s;
  }
  EXPECT_EQ(got.weights, want.weights);
}

TEST(Remote, MatchesStepsOnTheCpu) {
  for (const ParallelPlan& plan : Plans()) {
    SCOPED_TRACE(fmt::format("tp={} pp={} dp={} vpp={}", plan.tp, plan.pp, plan.dp, plan.virtual_stages));
    const TrainConfig c = ShortConfig(plan);
    ExpectSameOutcome(RunAsThreads(c, World::kStaged), RunAsThreads(c));
  }
}

// Even with clipping, a rank waits for its device once per step, to read loss and norm at the end.
TEST(Remote, SynchronizesOncePerStep) {
  for (const ParallelPlan& plan : Plans()) {
    SCOPED_TRACE(fmt::format("tp={} pp={} dp={} vpp={}", plan.tp, plan.pp, plan.dp, plan.virtual_stages));
    const TrainConfig c = ShortConfig(plan);
    ASSERT_GT(c.clip_norm, 0);
    const auto ranks = static_cast<int>(RankCount(plan));
    auto rendezvous = CreateLocalRendezvous(ranks);
    RunThreads(ranks, [&](int rank) {
      Backend backend = test::MakeBackend(*rendezvous[static_cast<std::size_t>(rank)], World::kStreamed);
      RankTrainer trainer(c, rank, ranks, backend);
      const std::int64_t& waits = static_cast<const RemoteDevice&>(*backend.device).engine()->host_waits;
      for (int step = 0; step < 3; ++step) {
        const std::int64_t before = waits;
        EXPECT_GT(trainer.Step().grad_norm, 0);
        EXPECT_EQ(waits - before, 1) << "rank " << rank << " step " << step;
      }
      trainer.Barrier();
    });
  }
}

// Memory that ops allocate for a step is released after it. Releasing waits for running work (RemoteOps):
// after the step there is none, but within a step peers could wait for this rank meanwhile.
TEST(Remote, ReleasesMemoryBetweenSteps) {
  for (const World world : {World::kStaged, World::kStreamed}) {
    const TrainConfig c = ShortConfig({{.tp = 2, .pp = 2}});
    auto rendezvous = CreateLocalRendezvous(4);
    RunThreads(4, [&](int rank) {
      Backend backend = test::MakeBackend(*rendezvous[static_cast<std::size_t>(rank)], world);
      RankTrainer trainer(c, rank, 4, backend);
      for (int step = 1; step <= 3; ++step) {
        trainer.Step();
        EXPECT_EQ(static_cast<const RemoteOps&>(*backend.ops).releases(), step);
      }
      trainer.Barrier();
    });
  }
}

// The same order of operations on the device's own streams, without host waits within a step. Sums are
// computed in another order.
TEST(Remote, MatchesStepsOnTheCpuWithItsOwnStreams) {
  for (const ParallelPlan& plan : Plans()) {
    SCOPED_TRACE(fmt::format("tp={} pp={} dp={} vpp={}", plan.tp, plan.pp, plan.dp, plan.virtual_stages));
    const TrainConfig c = ShortConfig(plan);
    const TrainedRun got = RunAsThreads(c, World::kStreamed), want = RunAsThreads(c);
    EXPECT_THAT(got.differences, ::testing::IsEmpty());
    test::ExpectSameSteps(want, got, 1e-12);
    test::ExpectSameWeights(c.model, want, got, 1e-10);
  }
}

// Collectives on the device's streams are timed; those that hosts carry out are not.
TEST(Remote, KnowsWhatOverlapHidesOnItsOwnStreams) {
  for (const std::string text :
       {"tp=2,mbs=1,sp=1", "dp=2,mbs=1,zero=1,grad_overlap=0,param_overlap=0", "tp=2,mbs=1,tp_overlap=2",
        "dp=2,mbs=1,grad_overlap=1", "dp=2,mbs=1,zero=1,param_overlap=1",
        "tp=2,pp=2,dp=2,mbs=1,zero=1,grad_overlap=1,param_overlap=1,tp_overlap=2"}) {
    for (const World world : {World::kStaged, World::kStreamed}) {
      SCOPED_TRACE(text);
      TrainConfig c = ShortConfig(*ParsePlanText(text));
      c.untimed_steps = 2;
      c.record_breakdown = true;
      const auto ranks = static_cast<int>(RankCount(c.plan));
      auto rendezvous = CreateLocalRendezvous(ranks);
      RunThreads(ranks, [&](int rank) {
        Backend backend = test::MakeBackend(*rendezvous[static_cast<std::size_t>(rank)], world);
        const v1::TrainResult result = Train(c, rank, ranks, backend, {});
        const bool overlaps =
            TensorChunks(c.plan) > 1 || OverlapsGradients(c.plan) || OverlapsParameters(c.plan);
        EXPECT_EQ(result.breakdown_s().has_hidden_comm(), world == World::kStreamed || !overlaps);
        EXPECT_GE(result.breakdown_s().hidden_comm(), 0);
        EXPECT_EQ(result.losses_size(), c.lr.steps);
      });
    }
  }
}

class RemoteWorlds : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, RemoteWorlds, ::testing::Values(World::kStaged, World::kStreamed),
                         [](const auto& info) {
                           return info.param == World::kStaged ? "Staged" : "Streamed";
                         });

TEST_P(RemoteWorlds, SavesAndLoadsWeights) {
  const TempDir directory;
  const std::string path = directory.File("a.safetensors");
  TrainConfig c = ShortConfig({{.tp = 2, .pp = 2}});
  c.lr.steps = 1;
  const TrainedRun saved = RunAsThreads(c, GetParam(), [&](RankTrainer& trainer) { trainer.Save(path); });
  {
    const SafetensorsFile file(path);
    for (const auto& [name, values] : saved.weights) {
      std::vector<double> stored(values.size());
      file.Read(name, 0, stored);
      EXPECT_EQ(stored, values) << name;
    }
  }
  c.init_path = path;
  c.lr.lr = c.lr.min_lr = 0;  // the step changes nothing
  for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{{.tp = 2, .dp = 2}}}) {
    c.plan = plan;
    EXPECT_EQ(RunAsThreads(c, GetParam()).weights, saved.weights);
  }
}

TrainConfig Bf16Llama(const ParallelPlan& plan) {
  TrainConfig c = ShortConfig(plan);
  c.model.kv_heads = 2;
  SetLlamaParts(c.model);
  c.workload.precision = *ParsePrecision("bf16");
  return c;
}

// The initial state of a model.
struct Started {
  std::map<std::string, std::vector<double>> values;
  std::set<std::string> other_masters;  // parameters whose master copy differs from the value
};

// Starts a job and, if a path is given, saves it before any step: the CPU's ops compute none in bf16.
Started Start(const TrainConfig& config, World world, const std::string& save_path = "") {
  const int ranks = static_cast<int>(RankCount(config.plan));
  auto rendezvous = CreateLocalRendezvous(ranks);
  std::vector<test::RankPart> parts(static_cast<std::size_t>(ranks));
  std::vector<std::set<std::string>> others(static_cast<std::size_t>(ranks));
  RunThreads(ranks, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    Backend backend = test::MakeBackend(*rendezvous[r], world);
    RankTrainer trainer(config, rank, ranks, backend);
    if (!save_path.empty()) trainer.Save(save_path);
    parts[r] = test::TakePart(trainer, {}, *backend.device);
    for (std::size_t i = 0; i < parts[r].parameters.size(); ++i) {
      const ParameterTensors& t = trainer.layout().parameter_tensors()[i];
      if (test::ToDoubles(t.master, *backend.device) != parts[r].values[i])
        others[r].insert(parts[r].parameters[i].name);
    }
    trainer.Barrier();
  });
  TrainedRun outcome = test::Assemble(parts);
  EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
  Started started{std::move(outcome.weights), {}};
  for (const auto& names : others) started.other_masters.insert(names.begin(), names.end());
  return started;
}

// Covers each part of a Llama's file: split, transposed, two bytes per element. Master copies, which AdamW
// updates, are the loaded values; those of an initialized model are more precise.
TEST_P(RemoteWorlds, SavesAndLoadsBf16) {
  const TempDir directory;
  const std::string path = directory.File("a.safetensors");
  TrainConfig c = Bf16Llama({{.tp = 2, .pp = 2}});
  const Started saved = Start(c, GetParam(), path);
  EXPECT_THAT(saved.other_masters, ::testing::Not(::testing::IsEmpty()))
      << "otherwise the test is meaningless";
  const SafetensorsFile file(path);
  for (const auto& [name, tensor] : file.tensors()) EXPECT_EQ(tensor.dtype, "BF16") << name;
  // The keys of layer 1: columns 32 to 47 of 64, as rows.
  std::vector<double> keys(16 * 32);
  file.Read("model.layers.1.self_attn.k_proj.weight", 0, keys);
  const std::vector<double>& fused = saved.values.at("transformer.h.1.attn.c_attn.weight");
  for (std::size_t i = 0; i < 32; ++i) {
    for (std::size_t o = 0; o < 16; ++o) ASSERT_EQ(keys[o * 32 + i], fused[i * 64 + 32 + o]);
  }
  c.init_path = path;
  for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{{.tp = 2, .dp = 2}}}) {
    SCOPED_TRACE(fmt::format("tp={} pp={} dp={}", plan.tp, plan.pp, plan.dp));
    c.plan = plan;
    const Started started = Start(c, GetParam());
    EXPECT_EQ(started.values, saved.values);
    EXPECT_THAT(started.other_masters, ::testing::IsEmpty());
  }
}

// A value that is finite in the file but not in bf16, whose largest value is 0x1.fep127.
TEST_P(RemoteWorlds, RejectsValuesTooLargeForBf16) {
  const TempDir directory;
  const std::string path = directory.File("a.safetensors");
  TrainConfig c = Bf16Llama({});
  c.workload.precision = *ParsePrecision("fp32");
  c.lr.steps = 1;
  RunAsThreads(c, GetParam(), [&](RankTrainer& trainer) { trainer.Save(path); });
  c.workload.precision = *ParsePrecision("bf16");
  c.init_path = path;
  const auto message = [&](float first) -> std::string {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), 8);
    file.seekp(static_cast<std::streamoff>(8 + header));
    file.write(reinterpret_cast<const char*>(&first), sizeof(first));
    file.close();
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = test::MakeBackend(*rendezvous[0], GetParam());
    try {
      RankTrainer trainer(c, 0, 1, backend);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(0x1.fep127f), "accepted");
  EXPECT_THAT(message(3.4e38f), ::testing::HasSubstr("holds 3.39999995"));
  EXPECT_THAT(message(-3.4e38f), ::testing::HasSubstr("which is too large for this precision"));
}

// Losses, the trace with its common origin, and saving: everything that Train does on a device that computes.
TEST_P(RemoteWorlds, TrainsWithLossesTraceAndWeights) {
  TrainConfig c = ShortConfig({{.pp = 2, .dp = 2}});
  c.trace = true;
  const TempDir directory;
  const std::string path = c.save_path = directory.File("a.safetensors");
  std::vector<v1::TrainResult> results(4);
  auto rendezvous = CreateLocalRendezvous(4);
  RunThreads(4, [&](int rank) {
    Backend backend = test::MakeBackend(*rendezvous[static_cast<std::size_t>(rank)], GetParam());
    results[static_cast<std::size_t>(rank)] = Train(c, rank, 4, backend, {});
  });
  c.trace = false;
  c.save_path.clear();
  const TrainedRun want = RunAsThreads(c);
  double earliest_s = 1e9;
  for (const v1::TrainResult& result : results) {
    ASSERT_EQ(result.losses_size(), 4);
    for (int s = 0; s < 4; ++s)
      EXPECT_NEAR(result.losses(s), want.steps[static_cast<std::size_t>(s)].loss, 1e-12);
    ASSERT_GT(result.trace_size(), 0);
    earliest_s = std::min(earliest_s, result.trace(0).start_s());
    for (const v1::TraceRow& row : result.trace()) EXPECT_GE(row.end_s(), row.start_s());
  }
  EXPECT_GE(earliest_s, 0);
  EXPECT_EQ(SafetensorsFile(path).tensors().size(), want.weights.size());
}

TEST_P(RemoteWorlds, FindsTheLargestOverRanks) {
  const TrainConfig c = ShortConfig({{.dp = 3}});
  TrainConfig fitting = c;
  fitting.workload.global_batch = 9;
  auto rendezvous = CreateLocalRendezvous(3);
  RunThreads(3, [&](int rank) {
    Backend backend = test::MakeBackend(*rendezvous[static_cast<std::size_t>(rank)], GetParam());
    RankTrainer trainer(fitting, rank, 3, backend);
    EXPECT_EQ(trainer.LargestOverRanks(rank == 1 ? 5.5 : -rank), 5.5);
    EXPECT_EQ(trainer.LargestOverRanks(-2.0 - rank), -2.0);
    trainer.Barrier();
  });
}

TEST_P(RemoteWorlds, TimesOps) {
  OpDesc matmul, reduce, send;
  matmul.kind = OpKind::kMatmul;
  matmul.dims = {16, 16, 16, 0};
  reduce.kind = OpKind::kAllReduceSum;
  reduce.group = CommGroup::kData;
  reduce.group_size = 2;
  reduce.dims = {1000};
  send.kind = OpKind::kSend;
  send.group = CommGroup::kPipeline;
  send.group_size = 2;
  send.dims = {1000};
  auto rendezvous = CreateLocalRendezvous(2);
  RunThreads(2, [&](int rank) {
    Backend backend = test::MakeBackend(*rendezvous[static_cast<std::size_t>(rank)], GetParam());
    const auto times = TimeOps({matmul, reduce, send}, {.budget_s = 0.01}, rank, 2, backend);
    for (const OpTime& timed : times) EXPECT_GT(timed.seconds, 0) << ToString(timed.op);
    EXPECT_EQ(static_cast<const RemoteOps&>(*backend.ops).releases(), 3) << "after each of them";
  });
}

}  // namespace
}  // namespace autocfg::trainer
