// Tests the initial weights: the generator against its published vectors, the distribution, and that layouts
// make no difference.
#include "trainer/model/initialize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "kernels/cpu/cpu_device.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

// Known answers of philox4x32-10 (Random123's kat_vectors).
TEST(Philox, MatchesPublishedVectors) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(NormalNumbers, AreNormalAndIndependentOfTheStart) {
  const auto key = PhiloxKey(1, "some.weight");
  std::vector<double> all(100'000);
  NormalNumbers(key, 0, all);
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  double variance = 0, fourth = 0;
  for (const double v : all) {
    variance += v * v / static_cast<double>(all.size());
    fourth += v * v * v * v / static_cast<double>(all.size());
  }
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(variance, 1, 0.02);
  EXPECT_NEAR(fourth, 3, 0.15);
  for (const std::int64_t first : {1, 2, 3, 7, 4096}) {
    std::vector<double> part(13);
    NormalNumbers(key, first, part);
    EXPECT_EQ(part, std::vector<double>(all.begin() + first, all.begin() + first + 13));
  }
  std::vector<double> other(4);
  NormalNumbers(PhiloxKey(2, "some.weight"), 0, other);
  EXPECT_NE(other[0], all[0]);
  NormalNumbers(PhiloxKey(1, "some.weighs"), 0, other);
  EXPECT_NE(other[0], all[0]);
}

// Large enough for several threads and several blocks; split by columns, it consists of many short runs.
TEST(InitializeParameter, ElementsDoNotDependOnTheSplit) {
  constexpr std::int64_t kRows = 1001, kColumns = 1536, kShards = 3;
  const auto device = CreateCpuDevice();
  const auto stream = device->CreateStream();
  Parameter parameter;
  parameter.name = "some.weight";
  parameter.global_shape = {kRows, kColumns};
  parameter.parts = {kColumns / 2, kColumns / 2};
  parameter.std = 0.5;
  std::vector<double> whole(kRows * kColumns);
  NormalNumbers(PhiloxKey(7, parameter.name), 0, whole);

  std::vector<double> weights(whole.size());
  parameter.shape = parameter.global_shape;
  ParameterTensors tensors;
  tensors.value = {.data = weights.data(), .dtype = DType::kF64, .rank = 2, .shape = {kRows, kColumns}};
  tensors.kept = {0, tensors.value.Elements()};
  tensors.kept_value = tensors.value;
  InitializeParameter(parameter, 7, tensors, *device, *stream);
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(weights[i], 0.5 * whole[i]) << i;

  constexpr std::int64_t kWidth = kColumns / kShards, kPart = kWidth / 2;
  parameter.sharding = Sharding::kColumns;
  parameter.shards = kShards;
  parameter.shard = 1;
  parameter.shape = {kRows, kWidth};
  std::vector<double> shard(kRows * kWidth);
  tensors.value = {.data = shard.data(), .dtype = DType::kF64, .rank = 2, .shape = {kRows, kWidth}};
  tensors.kept = {0, tensors.value.Elements()};
  tensors.kept_value = tensors.value;
  InitializeParameter(parameter, 7, tensors, *device, *stream);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kWidth; ++column) {
      const std::int64_t global = column < kPart ? kPart + column : kColumns / 2 + kPart + (column - kPart);
      ASSERT_EQ(shard[row * kWidth + column], 0.5 * whole[row * kColumns + global]) << row << "," << column;
    }
  }
}

std::map<std::string, std::vector<double>> InitialWeights(const ParallelPlan& plan, const char* precision) {
  TrainConfig c = test::SmallConfig();
  c.plan = plan;
  c.workload.precision = *ParsePrecision(precision);
  c.lr.steps = 0;
  const int ranks = static_cast<int>(RankCount(plan));
  std::vector<test::RankPart> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    c.lr.steps = 1;
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
    backend.comm = CreateNullWorld(rank, ranks);  // no step is run, so no peers are needed
    RankTrainer trainer(c, rank, ranks, backend);
    parts.push_back(test::TakePart(trainer, {}, *backend.device));
  }
  const test::TrainedRun outcome = test::Assemble(parts);
  EXPECT_TRUE(outcome.differences.empty());
  return outcome.weights;
}

TEST(InitialWeights, DependOnlyOnTheModel) {
  const auto one = InitialWeights({}, "fp64");
  for (const ParallelPlan& plan :
       {ParallelPlan{{.tp = 2}}, ParallelPlan{{.tp = 4, .pp = 2}}, ParallelPlan{{.pp = 4, .dp = 2}}}) {
    EXPECT_EQ(InitialWeights(plan, "fp64"), one);
  }
  auto rounded = one;
  for (auto& [name, values] : rounded) {
    for (double& v : values) v = static_cast<float>(v);
  }
  EXPECT_EQ(InitialWeights({{.tp = 2}}, "fp32"), rounded);
}

// bf16 parameters and their master copies start from the same numbers, each rounded to its type.
TEST(InitialWeights, MasterCopiesStartFromTheSameNumbers) {
  TrainConfig c = test::SmallConfig();
  c.workload.precision = *ParsePrecision("bf16");
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = test::MakeBackend(*rendezvous[0], test::World::kStaged);
  RankTrainer trainer(c, 0, 1, backend);
  const auto single = InitialWeights({}, "fp32");
  for (std::size_t i = 0; i < trainer.layout().parameters().size(); ++i) {
    const Parameter& p = trainer.layout().parameters()[i];
    const ParameterTensors& t = trainer.layout().parameter_tensors()[i];
    const std::vector<double> masters = test::ToDoubles(t.master, *backend.device);
    const std::vector<double> values = test::ToDoubles(t.value, *backend.device);
    ASSERT_EQ(values.size(), masters.size());
    const std::vector<double>& want = single.at(p.name);
    for (std::size_t k = 0; k < masters.size(); ++k) {
      ASSERT_EQ(values[k], FromBf16(ToBf16(static_cast<float>(masters[k])))) << p.name;
      if (k < want.size()) {
        ASSERT_EQ(masters[k], want[k]) << p.name;
      }
    }
  }
}

TEST(InitialWeights, HaveTheStandardDeviationsOfGpt2) {
  const auto weights = InitialWeights({}, "fp64");
  const auto deviation = [&](const std::string& name) {
    double sum = 0;
    for (const double v : weights.at("transformer." + name)) sum += v * v;
    return std::sqrt(sum / static_cast<double>(weights.at("transformer." + name).size()));
  };
  const double residual = 0.02 / std::sqrt(2.0 * 4);
  EXPECT_NEAR(deviation("wte.weight"), 0.02, 0.002);
  EXPECT_NEAR(deviation("wpe.weight"), 0.02, 0.003);
  EXPECT_NEAR(deviation("h.0.attn.c_attn.weight"), 0.02, 0.002);
  EXPECT_NEAR(deviation("h.3.mlp.c_fc.weight"), 0.02, 0.002);
  EXPECT_NEAR(deviation("h.1.attn.c_proj.weight"), residual, residual / 10);
  EXPECT_NEAR(deviation("h.2.mlp.c_proj.weight"), residual, residual / 10);
  EXPECT_EQ(deviation("h.2.mlp.c_proj.bias"), 0);
  EXPECT_EQ(weights.at("transformer.ln_f.weight"), std::vector<double>(32, 1.0));
  EXPECT_NE(weights.at("transformer.h.0.mlp.c_fc.weight"), weights.at("transformer.h.1.mlp.c_fc.weight"));
}

}  // namespace
}  // namespace autocfg::trainer
