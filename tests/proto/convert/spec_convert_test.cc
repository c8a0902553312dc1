// Round trips of models, plans, clusters and workloads through their messages, and rejection of invalid
// messages.
#include "proto/convert/spec_convert.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/text/engines.h"
#include "tests/proto/convert/wire.h"

namespace autocfg {
namespace {

using test::Refusal;
using test::Wire;
using ::testing::HasSubstr;

ModelSpec SomeModel() {
  ModelSpec model;
  model.name = std::string("some model");
  model.layers = 3;
  model.hidden = 96;
  model.heads = 6;
  model.kv_heads = 2;
  model.head_dim = 32;
  model.ffn_hidden = 200;
  model.vocab = 1000;
  model.max_seq_len = 77;
  model.activation = Activation::kGeGlu;
  model.norm = Norm::kRmsNorm;
  model.norm_eps = 1e-6;
  model.position = Position::kRope;
  model.rope_theta = 5e5;
  model.rope_scaling = RopeScaling::kLlama3;
  model.rope_scaling_parameters = Llama3Scaling(8);
  model.init_std = 0.01;
  model.vocab_multiple = 64;
  SetBiases(model, false);
  model.tied_embeddings = false;
  return model;
}

TEST(ModelConvert, UnsetFieldsGetDefaults) {
  v1::ModelSpec message;
  message.set_layers(2);
  message.set_hidden(64);
  message.set_heads(4);
  message.set_vocab(100);
  const auto model = FromProto(message);
  ASSERT_TRUE(model.ok()) << model.status();
  ModelSpec expected;
  expected.layers = 2;
  expected.hidden = 64;
  expected.heads = 4;
  expected.vocab = 100;
  EXPECT_EQ(*model, expected);
}

TEST(ModelConvert, RejectsInvalidMessages) {
  const v1::ModelSpec good = ToProto(SomeModel());
  v1::ModelSpec bad = good;
  bad.set_layers(0);
  EXPECT_THAT(Refusal(bad), HasSubstr("layers is 0"));
  bad = good;
  bad.set_hidden(std::numeric_limits<std::int64_t>::min());
  EXPECT_THAT(Refusal(bad), HasSubstr("hidden is -9223372036854775808"));
  bad = good;
  bad.set_hidden(std::numeric_limits<std::int64_t>::max());
  bad.clear_head_dim();
  bad.clear_ffn_hidden();
  EXPECT_THAT(Refusal(bad), HasSubstr("hidden"));
  bad = good;
  bad.set_activation("tanh");
  EXPECT_THAT(Refusal(bad), HasSubstr("activation 'tanh'"));
  bad = good;
  bad.set_norm("batch");
  EXPECT_THAT(Refusal(bad), HasSubstr("norm 'batch'"));
  bad = good;
  bad.set_position("sin");
  EXPECT_THAT(Refusal(bad), HasSubstr("position 'sin'"));
  bad = good;
  bad.set_qk_norm("heads");
  EXPECT_THAT(Refusal(bad), HasSubstr("qk_norm 'heads'"));
  bad = good;
  bad.set_norm_placement("post");
  EXPECT_THAT(Refusal(bad), HasSubstr("norm_placement 'post'"));
  bad = good;
  bad.set_norm_eps(std::nan(""));
  EXPECT_THAT(Refusal(bad), HasSubstr("norm_eps"));
  EXPECT_THAT(Refusal(v1::ModelSpec()), HasSubstr("layers is 0"));
}

TEST(PlanConvert, RoundTrips) {
  std::mt19937_64 random(3);
  const auto pick = [&random](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 500; ++i) {
    ParallelPlan plan;
    plan.tp = 1 + pick(8);
    plan.pp = 1 + pick(8);
    plan.dp = 1 + pick(8);
    plan.micro_batch = 1 + pick(8);
    plan.virtual_stages = 1 + pick(3);
    plan.schedule = static_cast<Schedule>(pick(4));
    plan.split = static_cast<SplitMode>(pick(3));
    if (plan.split == SplitMode::kExplicit) plan.split_layers = {1 + pick(5), 1 + pick(5)};
    plan.recompute = static_cast<Recompute>(pick(3));
    if (plan.recompute == Recompute::kFull) plan.recompute_layers = pick(4);
    plan.attention = static_cast<Attention>(pick(2));
    plan.sequence_parallel = pick(2) == 1;
    plan.zero_stage = pick(4);
    if (plan.zero_stage > 0) plan.dp_shard = pick(static_cast<unsigned>(plan.dp));  // 0: all
    plan.tp_overlap = std::int64_t{1} << pick(4);
    plan.grad_overlap = pick(2) == 1;
    plan.param_overlap = pick(2) == 1;
    plan.p2p_overlap = pick(2) == 1;
    plan.scatter_gather = pick(2) == 1;
    const auto back = FromProto(Wire(ToProto(plan)));
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(*back, plan);
  }
}

TEST(PlanConvert, UnsetFieldsGetDefaults) {
  EXPECT_EQ(*FromProto(v1::ParallelPlan()), ParallelPlan());
  v1::ParallelPlan message;
  message.set_virtual_stages(2);
  EXPECT_EQ(FromProto(message)->schedule, Schedule::kInterleaved);
}

TEST(PlanConvert, RejectsInvalidMessages) {
  v1::ParallelPlan bad;
  bad.set_tp(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("tp=-1 is not valid"));
  bad.Clear();
  bad.set_dp(std::int64_t{1} << 31);
  EXPECT_THAT(Refusal(bad), HasSubstr("dp=2147483648 is not valid"));
  bad.Clear();
  bad.set_schedule("2f2b");
  EXPECT_THAT(Refusal(bad), HasSubstr("schedule=2f2b"));
  bad.Clear();
  bad.set_split("4+");
  EXPECT_THAT(Refusal(bad), HasSubstr("split=4+"));
  bad.Clear();
  bad.set_recompute("some");
  EXPECT_THAT(Refusal(bad), HasSubstr("recompute=some"));
  bad.Clear();
  bad.set_zero_stage(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("zero=-1"));
  bad.Clear();
  bad.set_tp_overlap(3);
  EXPECT_THAT(Refusal(bad), HasSubstr("tp_overlap=3"));
}

ClusterSpec SomeCluster() {
  NodeGroup group;
  group.device = {.name = "d",
                  .kind = DeviceKind::kCuda,
                  .memory_bytes = 1 << 20,
                  .memory_bytes_per_s = 2e9,
                  .flops_per_s_fp64 = 3e12,
                  .flops_per_s_fp32 = 4e12,
                  .flops_per_s_bf16 = 5e12,
                  .flops_per_s_fp16 = 6e12,
                  .multiprocessors = 14,
                  .overhead_bytes = 15,
                  .efficiency = {.matmul = 0.1, .memory = 0.4, .op_overhead_s = 0.7}};
  group.nodes = 7;
  group.gpus_per_node = 8;
  group.intra_node_bytes_per_s = 9e9;
  group.inter_node_bytes_per_s = 10e9;
  group.intra_node_latency_s = 0.11;
  group.inter_node_latency_s = 0.12;
  group.ranks_per_core = 6;
  group.host_op_s = 0.13;
  NodeGroup other = group;
  other.device.kind = DeviceKind::kCpu;
  other.device.flops_per_s_bf16 = 0;
  other.device.efficiency.op_overhead_s = 0;  // zero overhead differs from unknown overhead
  other.device.overhead_bytes = 0;
  other.intra_node_latency_s = 0;
  other.inter_node_latency_s.reset();
  other.host_op_s = 0;
  NodeGroup unknown = group;
  unknown.device.overhead_bytes.reset();
  unknown.host_op_s.reset();
  return {.name = "c", .local = true, .groups = {group, other, unknown}};
}

TEST(ClusterConvert, RoundTrips) {
  const auto back = FromProto(Wire(ToProto(SomeCluster())));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, SomeCluster());
}

TEST(ClusterConvert, TheEngineTravelsByItsName) {
  ClusterSpec cluster = SomeCluster();
  EXPECT_EQ(ToProto(cluster).engine(), "");
  cluster.engine = *EngineNamed("megatron");
  const auto back = FromProto(Wire(ToProto(cluster)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, cluster);
  v1::ClusterSpec unknown = ToProto(cluster);
  unknown.set_engine("megatorn");
  const auto of_workers = FromProto(unknown);  // on local, an engine of their own files
  ASSERT_TRUE(of_workers.ok()) << of_workers.status();
  EXPECT_EQ(of_workers->engine.name, "megatorn");
  unknown.set_local(false);
  EXPECT_THAT(std::string(FromProto(unknown).status().message()),
              HasSubstr("cluster: unknown engine 'megatorn'; expected autocfg"));
}

TEST(ClusterConvert, CalibrationRoundTrips) {
  ClusterSpec cluster = SomeCluster();
  cluster.local = false;
  cluster.groups.resize(1);
  cluster.groups[0].ranks_per_core = 1;
  cluster.calibration = {.measurements = 3,
                         .one_node_sigma = 0.01,
                         .many_nodes_sigma = 0.02,
                         .figures = {{"host_op_s", 1e-5, 2e-5, 0.3, true}},
                         .layers = {0.1,
                                    0.2,
                                    3,
                                    {{{1024, 2048, 4, 2}, -0.5, 0.04}},
                                    {{{1024, 2048, 1, 2}, true, 0.3}, {{1024, 2048, 4, 4}, false, 0.2}}},
                         .output_layers = {0.4, 0.5, 6, {{{1024, 2048, 4, 8}, 0.7, 0.05}}, {}}};
  const auto back = FromProto(Wire(ToProto(cluster)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, cluster);
  cluster.calibration->layers.shapes[0].shape.tp = 0;
  EXPECT_FALSE(FromProto(ToProto(cluster)).ok());
}

TEST(ClusterConvert, RanksPerCore) {
  v1::ClusterSpec message = ToProto(SomeCluster());
  message.mutable_groups(0)->set_ranks_per_core(0);
  const auto not_given = FromProto(message);
  ASSERT_TRUE(not_given.ok()) << not_given.status();
  EXPECT_EQ(not_given->groups[0].ranks_per_core, 1);
  message.mutable_groups(0)->set_ranks_per_core(0.5);
  EXPECT_THAT(Refusal(message), HasSubstr("ranks_per_core is 0.5; it must be from 1"));
  message.mutable_groups(0)->set_ranks_per_core(2);
  message.set_local(false);
  EXPECT_THAT(Refusal(message),
              HasSubstr("node group 0: ranks_per_core is 2, but each rank of a described cluster"));
}

TEST(ClusterConvert, RejectsInvalidMessages) {
  const v1::ClusterSpec good = ToProto(SomeCluster());
  EXPECT_THAT(Refusal(v1::ClusterSpec()), HasSubstr("no node groups"));
  v1::ClusterSpec bad = good;
  bad.mutable_groups(1)->set_nodes(0);
  EXPECT_THAT(Refusal(bad), HasSubstr("node group 1: nodes is 0"));
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_kind("tpu");
  EXPECT_THAT(Refusal(bad), HasSubstr("device kind 'tpu'"));
  bad = good;
  (*bad.mutable_groups(0)->mutable_device()->mutable_flops_per_s())["int8"] = 1;
  EXPECT_THAT(Refusal(bad), HasSubstr("flops_per_s: unknown precision 'int8'"));
  bad = good;
  bad.mutable_groups(0)->set_intra_node_latency_s(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("intra_node_latency_s is -1"));
  for (const double wrong : {-1e-6, std::nan(""), HUGE_VAL}) {
    bad = good;
    bad.mutable_groups(2)->set_host_op_s(wrong);
    EXPECT_THAT(Refusal(bad), HasSubstr("node group 2: host_op_s is"));
    EXPECT_THAT(Refusal(bad), HasSubstr("it must be a finite number, not negative"));
  }
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_memory_bytes(-5);
  EXPECT_THAT(Refusal(bad), HasSubstr("memory_bytes is -5"));
  bad = good;
  bad.mutable_groups(1)->mutable_device()->mutable_efficiency()->set_memory(1.01);
  EXPECT_THAT(Refusal(bad), HasSubstr("node group 1: efficiency.memory is 1.01; at most 1"));
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_overhead_bytes(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("overhead_bytes is -1"));
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_multiprocessors(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("multiprocessors is -1"));
}

TEST(WorkloadConvert, RoundTripsAndRejectsInvalidMessages) {
  for (const char* precision : {"fp64", "fp32", "bf16", "fp16"}) {
    const Workload workload{16, 64, *ParsePrecision(precision)};
    const auto back = FromProto(Wire(ToProto(workload)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, workload);
  }
  v1::Workload bad = ToProto(Workload{16, 64, {}});
  bad.set_precision("fp4");
  EXPECT_THAT(
      Refusal(bad),
      HasSubstr("unknown precision 'fp4'; expected fp64, fp32, bf16, fp16, fp8, fp8_block, mxfp8 or nvfp4"));
  bad = ToProto(Workload{0, 64, {}});
  EXPECT_THAT(Refusal(bad), HasSubstr("global_batch is 0"));
  bad = ToProto(Workload{16, -1, {}});
  EXPECT_THAT(Refusal(bad), HasSubstr("seq_len is -1"));
}

}  // namespace
}  // namespace autocfg
