// Checks the op times of a described cluster against hand-computed figures and the placement of every rank,
// and their properties over random ops.
#include "search/cost/op_times/cluster_op_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/rank_mesh.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Round figures, so that times are easy to compute by hand.
ClusterSpec RoundCluster() {
  NodeGroup group;
  group.device = {.name = "round",
                  .kind = DeviceKind::kCuda,
                  .memory_bytes = std::int64_t{1} << 36,
                  .memory_bytes_per_s = 1e12,
                  .flops_per_s_fp32 = 1e13,
                  .flops_per_s_bf16 = 1e14,
                  .multiprocessors = 100,
                  .efficiency = {.matmul = 0.5,
                                 .matmul_k_half = 0,
                                 .attention_forward = 0.5,
                                 .attention_backward = 0.25,
                                 .memory = 0.5,
                                 .intra_node = 0.5,
                                 .inter_node = 0.5,
                                 .op_overhead_s = 0}};
  group.nodes = 4;
  group.gpus_per_node = 8;
  group.intra_node_bytes_per_s = 2e11;
  group.inter_node_bytes_per_s = 2e10;
  group.intra_node_latency_s = 1e-6;
  group.inter_node_latency_s = 1e-5;
  return {.name = "round", .groups = {group}};
}

std::shared_ptr<const ClusterOpTimes> TimesOf(const ClusterSpec& cluster,
                                              std::string_view precision = "bf16") {
  auto times = ClusterOpTimes::Create(cluster, *ParsePrecision(precision));
  EXPECT_TRUE(times.ok()) << times.status();
  return *times;
}

OpDesc ClusterMatmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {m, n, k}};
}

OpDesc Collective(OpKind kind, CommGroup group, std::int64_t size, std::int64_t elements) {
  return {.kind = kind,
          .dtype = DType::kBF16,
          .group = group,
          .group_size = static_cast<std::int32_t>(size),
          .dims = {elements}};
}

TEST(ClusterOpTimes, HaveTheHostTime) {
  ClusterSpec cluster = RoundCluster();
  const OpDesc op = ClusterMatmul(128, 128, 128);
  const double seconds = TimesOf(cluster)->Seconds(op, {});
  EXPECT_EQ(TimesOf(cluster)->HostOpSeconds(), 0) << "not given, not counted";
  cluster.groups[0].host_op_s = 1e-3;
  EXPECT_EQ(TimesOf(cluster)->HostOpSeconds(), 1e-3);
  EXPECT_EQ(TimesOf(cluster)->Seconds(op, {}), seconds) << "the device is as fast as it was";
}

TEST(ClusterOpTimes, MatrixProductsByHand) {
  const auto times = TimesOf(RoundCluster());
  // 10 x 10 tiles of 128 x 256, in one wave: the full rate.
  EXPECT_DOUBLE_EQ(times->Seconds(ClusterMatmul(1280, 2560, 4096), {}), 2.0 * 1280 * 2560 * 4096 / 5e13);
  // One more row of tiles needs a second wave, or smaller tiles that reach less of the rate.
  const double ratio = times->Seconds(ClusterMatmul(1281, 2560, 4096), {}) /
                       times->Seconds(ClusterMatmul(1280, 2560, 4096), {});
  EXPECT_GT(ratio, 1.4);
  EXPECT_LE(ratio, 2);
  // With a small inner dimension the bytes dominate: 2 for each of 8192 x 8192 results, plus the operands.
  EXPECT_DOUBLE_EQ(times->Seconds(ClusterMatmul(8192, 8192, 16), {}),
                   2.0 * (8192.0 * 8192 + 2 * 8192 * 16) / 5e11);
  ClusterSpec deep = RoundCluster();
  deep.groups[0].device.efficiency.matmul_k_half = 4096;
  deep.groups[0].device.efficiency.op_overhead_s = 1e-3;
  EXPECT_DOUBLE_EQ(TimesOf(deep)->Seconds(ClusterMatmul(1280, 2560, 4096), {}),
                   2 * 2.0 * 1280 * 2560 * 4096 / 5e13 + 1e-3);
  // A CPU has no tiles.
  ClusterSpec plain = RoundCluster();
  plain.groups[0].device.multiprocessors = 0;
  EXPECT_DOUBLE_EQ(TimesOf(plain)->Seconds(ClusterMatmul(1000, 1000, 1000), {}), 2e9 / 5e13);
}

// An epilogue adds its bytes, without a second launch.
TEST(ClusterOpTimes, EpiloguesByHand) {
  ClusterSpec cluster = RoundCluster();
  cluster.groups[0].device.efficiency.op_overhead_s = 1e-3;
  const auto times = TimesOf(cluster);
  const double m = 1280, n = 2560;
  const auto beyond_product = [&](Epilogue epilogue, bool bias = false, bool accumulate = false) {
    OpDesc op = ClusterMatmul(1280, 2560, 4096);
    SetEpilogue(op, epilogue);
    op.bias = bias;
    op.accumulate = accumulate;
    OpDesc plain = op;
    plain.epilogue = Epilogue::kNone;
    plain.bias = false;
    return (times->Seconds(op, {}) - times->Seconds(plain, {})) * 5e11;
  };
  EXPECT_NEAR(beyond_product(Epilogue::kBias), 2 * n, 1);
  EXPECT_NEAR(beyond_product(Epilogue::kActivation), 2 * m * n, 1);
  EXPECT_NEAR(beyond_product(Epilogue::kActivation, true), 2 * (m * n + n), 1);
  EXPECT_NEAR(beyond_product(Epilogue::kActivationGradient), 2 * m * n, 1);
  EXPECT_NEAR(beyond_product(Epilogue::kBiasGradient), 2 * n, 1);
  EXPECT_NEAR(beyond_product(Epilogue::kBiasGradient, false, true), 2 * 2 * n, 1);
  EXPECT_NEAR(beyond_product(Epilogue::kResidual, true), 2 * (m * n + n), 1);
}

TEST(ClusterOpTimes, AttentionByHand) {
  const auto times = TimesOf(RoundCluster());
  const double b = 2, s = 2048, n = 10, d = 128;
  OpDesc op{.kind = OpKind::kAttentionForward, .dtype = DType::kBF16, .dims = {2, 2048, 10, 128, 10}};
  EXPECT_DOUBLE_EQ(times->Seconds(op, {}), 4 * b * n * s * s * d / 5e13);
  op.kind = OpKind::kAttentionBackward;
  EXPECT_DOUBLE_EQ(times->Seconds(op, {}), 10 * b * n * s * s * d / 2.5e13);
  // Unfused: at least the passes over the scores. Two products write or read them once, softmax and dropout
  // four times, plus a mask of one byte.
  op.kind = OpKind::kUnfusedAttentionForward;
  EXPECT_GT(times->Seconds(op, {}), b * n * s * s * (2 * 6 + 1) / 5e11);
  EXPECT_LT(times->Seconds(op, {}), b * n * s * s * (2 * 6 + 1) / 5e11 + 2 * 4 * b * n * s * s * d / 5e13);
  const double forward = times->Seconds(op, {});
  op.kind = OpKind::kUnfusedAttentionBackward;
  EXPECT_GT(times->Seconds(op, {}) / forward, 11.0 / 9) << "twice the products, 11 bytes a score for 9";
  EXPECT_LT(times->Seconds(op, {}) / forward, 2);
}

TEST(ClusterOpTimes, MemoryBoundByHand) {
  const OpDesc op{.kind = OpKind::kResidualAdd, .dtype = DType::kBF16, .dims = {1000, 1000}};
  EXPECT_DOUBLE_EQ(TimesOf(RoundCluster())->Seconds(op, {}), 3 * 2e6 / 5e11);
}

// As nccl-tests defines it: bus bandwidth = payload / time x 2(n-1)/n for an all-reduce, (n-1)/n for an
// all-gather.
TEST(ClusterOpTimes, CollectivesByHand) {
  const auto times = TimesOf(RoundCluster());
  const double bytes = 2e9;
  const auto seconds = [&](OpKind kind, CommGroup group, std::int64_t size, const ParallelPlan& plan) {
    return times->Seconds(Collective(kind, group, size, 1'000'000'000), plan);
  };
  // Within a node: half of 200 GB/s, and twice seven steps of a microsecond.
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllReduceSum, CommGroup::kTensor, 8, {{.tp = 8}}),
                   2 * (0.875 * bytes / 1e11 + 7e-6));
  for (const OpKind half : {OpKind::kReduceScatter, OpKind::kAllGather})
    EXPECT_DOUBLE_EQ(seconds(half, CommGroup::kTensor, 8, {{.tp = 8}}), 0.875 * bytes / 1e11 + 7e-6);
  // Data groups across nodes. With tp = 8, one interface of a node serves each group; with tp = 1, eight
  // serve it, at 80 GB/s.
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllReduceSum, CommGroup::kData, 4, {{.tp = 8, .dp = 4}}),
                   2 * (0.75 * bytes / 1e10 + 3e-5));
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllReduceSum, CommGroup::kData, 32, {{.dp = 32}}),
                   2 * (31.0 / 32 * bytes / 8e10 + 28e-6 + 3e-5));
  // A tensor group over two nodes.
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllReduceSum, CommGroup::kTensor, 16, {{.tp = 16}}),
                   2 * (15.0 / 16 * bytes / 8e10 + 14e-6 + 1e-5));
  // Messages between stages, in one node and between two.
  EXPECT_DOUBLE_EQ(seconds(OpKind::kSend, CommGroup::kPipeline, 2, {{.tp = 4, .pp = 2}}),
                   bytes / 1e11 + 1e-6);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kRecv, CommGroup::kPipeline, 2, {{.tp = 8, .pp = 2}}),
                   bytes / 1e10 + 1e-5);
  EXPECT_EQ(seconds(OpKind::kAllReduceSum, CommGroup::kTensor, 1, {}), 0);
}

// Returns the ranks that exchange messages of that kind: a group of the mesh, or two neighbours in the
// pipeline.
std::vector<std::int64_t> MembersOf(const RankMesh& mesh, std::int64_t rank, CommGroup group) {
  std::vector<std::int64_t> members = mesh.Group(rank, group);
  if (group != CommGroup::kPipeline) return members;
  const auto stage = static_cast<std::size_t>(mesh.Coordinate(rank, Axis::kPipeline));
  if (stage + 1 == members.size()) return {rank};
  return {members[stage], members[stage + 1]};
}

// Returns the span of a kind of group by the placement of every rank, group by group.
GroupSpan PlacedSpan(const RankMesh& mesh, CommGroup group, std::int64_t per_node) {
  GroupSpan span{.size = 1, .in_node = std::numeric_limits<std::int64_t>::max(), .nodes = 1};
  std::set<std::int64_t> met;  // members of groups already visited
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    if (group != CommGroup::kPipeline && met.count(rank) > 0) continue;
    const auto members = MembersOf(mesh, rank, group);
    met.insert(members.begin(), members.end());
    if (members.size() == 1) continue;
    std::map<std::int64_t, std::int64_t> in_node;
    for (const std::int64_t member : members) ++in_node[member / per_node];
    span.size = static_cast<std::int64_t>(members.size());
    span.nodes = std::max(span.nodes, static_cast<std::int64_t>(in_node.size()));
    for (const auto& [node, count] : in_node) span.in_node = std::min(span.in_node, count);
  }
  if (span.size == 1) span.in_node = 1;
  return span;
}

void ExpectPlaced(const GroupSpan& span, const GroupSpan& placed, const testing::Message& where) {
  EXPECT_EQ(span.size, placed.size) << where;
  EXPECT_EQ(span.nodes, placed.nodes) << where;
  EXPECT_EQ(span.in_node, placed.in_node) << where;
}

// A mesh with one more axis that splits the batch, next to the data axis.
TEST(SpanOf, MatchesThePlacementOnMeshesOfOneMoreAxis) {
  std::mt19937 random(7);
  const auto size = [&](std::uint32_t most) { return static_cast<std::int64_t>(1 + random() % most); };
  int spread = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<MeshAxis> axes;
    for (const AxisRow& row : kAxes) axes.push_back({row.axis, row.splits, size(5)});
    const auto added = static_cast<Axis>(kAxisCount);
    axes.insert(axes.begin() + 1 + static_cast<std::ptrdiff_t>(random() % 2),
                {added, Splits::kBatch, size(4)});
    const std::int64_t batch_ranks = axes[1].size * axes[2].size, shards = std::gcd(batch_ranks, size(8));
    const RankMesh mesh(axes, shards);
    const std::int64_t per_node = size(18);
    for (const CommGroup group : {CommGroup::kTensor, CommGroup::kData, CommGroup::kShard,
                                  CommGroup::kReplica, CommGroup::kPipeline, CommGroup::kWorld}) {
      const GroupSpan placed = PlacedSpan(mesh, group, per_node);
      ExpectPlaced(SpanOf(group, mesh, per_node), placed, testing::Message() << Name(group) << " " << i);
      spread += placed.nodes > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(spread, 500);
}

// Node sizes are divided by groups, divide groups, or neither.
TEST(SpanOf, MatchesEveryRanksPlacement) {
  int spread = 0, uneven = 0;
  for (const std::int64_t per_node : {1, 2, 3, 4, 6, 8, 12, 18, 72}) {
    for (const std::int64_t tp : {1, 2, 3, 4, 5, 8, 16, 24}) {
      for (const std::int64_t dp : {1, 2, 3, 4, 9, 12, 16}) {
        for (const std::int64_t pp : {1, 2, 3, 4, 7}) {
          const ParallelPlan plan{{.tp = tp, .pp = pp, .dp = dp}};
          const RankMesh mesh(plan);
          for (const CommGroup group : {CommGroup::kTensor, CommGroup::kData, CommGroup::kPipeline,
                                        CommGroup::kWorld, CommGroup::kEmbedding}) {
            const GroupSpan placed = PlacedSpan(mesh, group, per_node);
            ExpectPlaced(SpanOf(group, mesh, per_node), placed,
                         testing::Message() << Name(group) << " tp=" << tp << " dp=" << dp << " pp=" << pp
                                            << " of " << per_node);
            spread += placed.nodes > 1 ? 1 : 0;
            uneven += placed.nodes > 1 && placed.size % placed.nodes != 0 ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(spread, 4000);
  EXPECT_GT(uneven, 1000);
}

// The same 144 GPUs in larger nodes. A tensor group that a boundary halves uses as many interfaces as two
// nodes of half its size.
TEST(SpanOf, LargerNodesAreNotSlower) {
  const ParallelPlan plan{{.tp = 16, .dp = 9}};
  const auto seconds = [&](std::int64_t nodes, std::int64_t per_node) {
    ClusterSpec cluster = RoundCluster();
    cluster.groups[0].nodes = nodes;
    cluster.groups[0].gpus_per_node = per_node;
    return TimesOf(cluster)->Seconds(Collective(OpKind::kAllReduceSum, CommGroup::kTensor, 16, 1'000'000'000),
                                     plan);
  };
  EXPECT_DOUBLE_EQ(seconds(2, 72), seconds(18, 8));
  EXPECT_LT(seconds(9, 16), seconds(18, 8));
}

// Pairs of ranks that share key-value heads stay within a node, and threes do not.
TEST(SpanOf, RanksThatShareKeyValueHeads) {
  const ParallelPlan plan{{.tp = 12, .dp = 2}};
  const auto span = [&](int size) {
    return SpanOf(Collective(OpKind::kAllReduceSum, CommGroup::kKvReplica, size, 1), plan, 4);
  };
  EXPECT_EQ(span(2).nodes, 1);
  EXPECT_EQ(span(3).nodes, 2);
  EXPECT_EQ(span(3).size, 3);
}

// Takes constant time for any number of ranks and any node size. Nodes of 1,000,003 begin 4, 1, 5, ... ranks
// into a group of 7. The second of two blocks of 7 million begins 21 ranks before the end of a node.
TEST(SpanOf, ManyRanks) {
  const std::int64_t million = 1'000'000, per_node = million + 3;
  const GroupSpan tensor =
      SpanOf(CommGroup::kTensor, RankMesh(ParallelPlan{{.tp = 7, .dp = million}}), per_node);
  EXPECT_EQ(tensor.in_node, 1);
  EXPECT_EQ(tensor.nodes, 2);
  const GroupSpan data =
      SpanOf(CommGroup::kData, RankMesh(ParallelPlan{{.tp = 7, .pp = 2, .dp = million}}), per_node);
  EXPECT_EQ(data.in_node, 3);
  EXPECT_EQ(data.nodes, 8);
}

TEST(ClusterOpTimes, GroupsOfOneTakeNoTime) {
  const auto times = TimesOf(RoundCluster());
  for (const OpKind kind :
       {OpKind::kAllReduceSum, OpKind::kAllReduceMax, OpKind::kReduceScatter, OpKind::kAllGather}) {
    for (const CommGroup group :
         {CommGroup::kTensor, CommGroup::kData, CommGroup::kEmbedding, CommGroup::kWorld})
      EXPECT_EQ(times->Seconds(Collective(kind, group, 1, 1000), {}), 0) << Name(kind) << " " << Name(group);
  }
  EXPECT_EQ(times->Seconds(Collective(OpKind::kSend, CommGroup::kPipeline, 1, 1000), {}), 0);
}

TEST(ClusterOpTimes, MissingFigures) {
  const auto refusal = [](auto change, std::string_view precision = "bf16") {
    ClusterSpec cluster = RoundCluster();
    change(cluster);
    const auto times = ClusterOpTimes::Create(cluster, *ParsePrecision(precision));
    EXPECT_EQ(times.status().code(), absl::StatusCode::kInvalidArgument) << times.status();
    return std::string(times.status().message());
  };
  const auto device = [&](auto change) {
    return refusal([&](ClusterSpec& c) { change(c.groups[0].device); });
  };
  EXPECT_THAT(
      device([](DeviceSpec& d) { d.flops_per_s_bf16 = 0; }),
      AllOf(HasSubstr("of round: device.flops_per_s.bf16 is missing"), HasSubstr("use precision fp32")));
  EXPECT_THAT(device([](DeviceSpec& d) {
                d.flops_per_s_bf16 = d.flops_per_s_fp16 = d.flops_per_s_fp32 = d.flops_per_s_fp64 = 0;
              }),
              HasSubstr("of round: device.flops_per_s is missing, which predictions need; give its bf16 "
                        "rate (for a CPU: kind cpu, and its fp32 rate)"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.memory_bytes_per_s = 0; }),
              HasSubstr("device.memory_bytes_per_s is missing"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.matmul = 0; }),
              HasSubstr("device.efficiency.matmul is missing"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.attention_forward = 0; }),
              HasSubstr("efficiency.attention_forward is missing"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.attention_backward = 0; }),
              HasSubstr("efficiency.attention_backward is missing"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.memory = 0; }),
              HasSubstr("device.efficiency.memory is missing"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.intra_node = 0; }),
              HasSubstr("efficiency.intra_node is missing"));
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.inter_node = 0; }),
              HasSubstr("efficiency.inter_node is missing"));
  EXPECT_THAT(refusal([](ClusterSpec& c) { c.groups[0].intra_node_bytes_per_s = 0; }),
              HasSubstr("intra_node_bytes_per_s is missing"));
  EXPECT_THAT(refusal([](ClusterSpec& c) { c.groups[0].inter_node_bytes_per_s = 0; }),
              HasSubstr("inter_node_bytes_per_s is missing"));
  // A missing overhead or latency is not taken for 0.
  EXPECT_THAT(device([](DeviceSpec& d) { d.efficiency.op_overhead_s.reset(); }),
              HasSubstr("device.efficiency.op_overhead_s is missing"));
  EXPECT_THAT(refusal([](ClusterSpec& c) { c.groups[0].intra_node_latency_s.reset(); }),
              HasSubstr(": intra_node_latency_s is missing"));
  EXPECT_THAT(refusal([](ClusterSpec& c) { c.groups[0].inter_node_latency_s.reset(); }),
              HasSubstr(": inter_node_latency_s is missing"));
  ClusterSpec none = RoundCluster();
  none.groups[0].intra_node_latency_s = none.groups[0].inter_node_latency_s = 0;
  EXPECT_TRUE(ClusterOpTimes::Create(none, *ParsePrecision("bf16")).ok());
  // GPUs do not run fp64 here, even if they have a rate. A CPU may lack the rate.
  EXPECT_THAT(refusal([](ClusterSpec& c) { c.groups[0].device.flops_per_s_fp64 = 1e13; }, "fp64"),
              AllOf(HasSubstr("of round: fp64 is for CPUs only"), HasSubstr("use precision bf16")));
  EXPECT_THAT(refusal([](ClusterSpec& c) { c.groups[0].device.kind = DeviceKind::kCpu; }, "fp64"),
              HasSubstr("flops_per_s.fp64 is missing"));
  // V100 has no bf16.
  const auto v100 = ClusterOpTimes::Create(*PresetCluster("v100-32gb-sxm:2x8"), *ParsePrecision("bf16"));
  EXPECT_THAT(
      std::string(v100.status().message()),
      AllOf(HasSubstr("v100-32gb-sxm"), HasSubstr("flops_per_s.bf16"), HasSubstr("use precision fp16")));
  // Links that no group uses may be missing.
  ClusterSpec one = RoundCluster();
  one.groups[0].nodes = one.groups[0].gpus_per_node = 1;
  one.groups[0].intra_node_bytes_per_s = one.groups[0].inter_node_bytes_per_s = 0;
  one.groups[0].intra_node_latency_s.reset();
  one.groups[0].inter_node_latency_s.reset();
  EXPECT_TRUE(ClusterOpTimes::Create(one, *ParsePrecision("bf16")).ok());
  ClusterSpec two = RoundCluster();
  two.groups.push_back(two.groups[0]);
  EXPECT_EQ(ClusterOpTimes::Create(two, *ParsePrecision("bf16")).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace autocfg
