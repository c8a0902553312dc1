#include "search/plan/cluster_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000;  // nodes, ranks per node; their product is far below 2^63
constexpr std::int64_t kMaxMemoryBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMinGpuMemoryBytes = std::int64_t{1} << 20;
constexpr double kMinBytesPerSecond = 1e6;
constexpr double kMaxBytesPerSecond = 1e15;
constexpr double kMinFlopsPerSecond = 1e6;
constexpr double kMaxFlopsPerSecond = 1e18;
constexpr double kMinFraction = 1e-3;
constexpr double kMaxSeconds = 1;
constexpr double kMaxMatmulKHalf = 1e6;
constexpr std::size_t kMaxClusterNameBytes = 256;

// Returns the error. `group` names the faulty group by its index if there are several.
absl::Status Invalid(std::string_view group, std::string_view field, std::string_view problem) {
  return base::InvalidArgument("cluster", fmt::format("{}{} {}", group, field, problem));
}

absl::Status CheckCount(std::string_view group, std::string_view field, std::int64_t value) {
  if (value >= 1 && value <= kMaxCount) return absl::OkStatus();
  return Invalid(group, field, fmt::format("is {}; it must be from 1 to {}", value, kMaxCount));
}

struct Figure {
  std::string_view field;
  double value;  // 0: unknown, or absent
  double least;
  double most;
  std::string_view unit;
};

absl::Status CheckFigure(std::string_view group, const Figure& figure) {
  if (!std::isfinite(figure.value) || figure.value < 0) {
    return Invalid(group, figure.field,
                   fmt::format("is {}; it must be a finite number, not negative", figure.value));
  }
  const std::string unit = figure.unit.empty() ? "" : fmt::format(", in {}", figure.unit);
  if (figure.value > figure.most) {
    return Invalid(group, figure.field,
                   fmt::format("is {:g}; at most {:g} is possible{}", figure.value, figure.most, unit));
  }
  if (figure.value > 0 && figure.value < figure.least) {
    return Invalid(group, figure.field,
                   fmt::format("is {:g}; at least {:g} is needed{}", figure.value, figure.least, unit));
  }
  return absl::OkStatus();
}

absl::Status ValidateMemory(std::string_view group, const DeviceSpec& device) {
  if (device.memory_bytes < 0 || device.memory_bytes > kMaxMemoryBytes) {
    return Invalid(group, "memory_bytes",
                   fmt::format("is {}; it must be from 0 to {}", device.memory_bytes, kMaxMemoryBytes));
  }
  if (device.kind == DeviceKind::kCuda && device.memory_bytes < kMinGpuMemoryBytes) {
    return Invalid(
        group, "memory_bytes",
        fmt::format("is {}; a GPU has at least {}, in bytes", device.memory_bytes, kMinGpuMemoryBytes));
  }
  const std::int64_t overhead = device.overhead_bytes.value_or(0);
  if (overhead < 0 || overhead > device.memory_bytes) {
    return Invalid(
        group, "overhead_bytes",
        fmt::format("is {}; it must be from 0 to memory_bytes, {}", overhead, device.memory_bytes));
  }
  return absl::OkStatus();
}

// Only ranks of this machine may share a core, because op times are then measured that way. Each rank of a
// described cluster has a core or GPU of its own.
absl::Status ValidateRanksPerCore(std::string_view index, const NodeGroup& group, bool local) {
  const double ranks = group.ranks_per_core;
  if (!local && ranks != 1) {
    return Invalid(index, "ranks_per_core",
                   fmt::format("is {:g}, but each rank of a described cluster has a core or GPU of its own; "
                               "leave it out (--cluster local:1xN is "
                               "for N ranks that share this machine's cores)",
                               ranks));
  }
  if (!std::isfinite(ranks) || ranks < 1 || ranks > static_cast<double>(group.gpus_per_node)) {
    return Invalid(
        index, "ranks_per_core",
        fmt::format("is {:g}; it must be from 1 to gpus_per_node, {}", ranks, group.gpus_per_node));
  }
  return absl::OkStatus();
}

absl::Status ValidateGroup(std::string_view index, const NodeGroup& group, bool local) {
  const DeviceSpec& device = group.device;
  for (const auto& [field, value] : {std::pair<std::string_view, std::int64_t>{"nodes", group.nodes},
                                     {"gpus_per_node", group.gpus_per_node}}) {
    AUTOCFG_RETURN_IF_ERROR(CheckCount(index, field, value));
  }
  AUTOCFG_RETURN_IF_ERROR(ValidateMemory(index, device));
  if (device.multiprocessors < 0 || device.multiprocessors > kMaxCount) {
    return Invalid(index, "multiprocessors",
                   fmt::format("is {}; it must be from 0 to {}", device.multiprocessors, kMaxCount));
  }
  constexpr std::string_view kRate = "FLOP per second", kBandwidth = "bytes per second", kTime = "seconds",
                             kShare = "";
  const DeviceEfficiency& efficiency = device.efficiency;
  for (const Figure& figure :
       {Figure{"memory_bytes_per_s", device.memory_bytes_per_s, kMinBytesPerSecond, kMaxBytesPerSecond,
               kBandwidth},
        Figure{"flops_per_s.fp64", device.flops_per_s_fp64, kMinFlopsPerSecond, kMaxFlopsPerSecond, kRate},
        Figure{"flops_per_s.fp32", device.flops_per_s_fp32, kMinFlopsPerSecond, kMaxFlopsPerSecond, kRate},
        Figure{"flops_per_s.bf16", device.flops_per_s_bf16, kMinFlopsPerSecond, kMaxFlopsPerSecond, kRate},
        Figure{"flops_per_s.fp16", device.flops_per_s_fp16, kMinFlopsPerSecond, kMaxFlopsPerSecond, kRate},
        Figure{"flops_per_s.fp8", device.flops_per_s_fp8, kMinFlopsPerSecond, kMaxFlopsPerSecond, kRate},
        Figure{"efficiency.matmul", efficiency.matmul, kMinFraction, 1, kShare},
        Figure{"efficiency.matmul_k_half", efficiency.matmul_k_half, 0, kMaxMatmulKHalf, kShare},
        Figure{"efficiency.attention_forward", efficiency.attention_forward, kMinFraction, 2, kShare},
        Figure{"efficiency.attention_backward", efficiency.attention_backward, kMinFraction, 2, kShare},
        Figure{"efficiency.attention_head_dim_half", efficiency.attention_head_dim_half, 0, kMaxMatmulKHalf,
               kShare},
        Figure{"efficiency.memory", efficiency.memory, kMinFraction, 1, kShare},
        Figure{"efficiency.intra_node", efficiency.intra_node, kMinFraction, 1, kShare},
        Figure{"efficiency.inter_node", efficiency.inter_node, kMinFraction, 1, kShare},
        Figure{"efficiency.intra_node_message", efficiency.intra_node_message, kMinFraction, 1, kShare},
        Figure{"efficiency.inter_node_message", efficiency.inter_node_message, kMinFraction, 1, kShare},
        Figure{"efficiency.optimizer", efficiency.optimizer, kMinFraction, 1, kShare},
        Figure{"efficiency.data_exposed", efficiency.data_exposed, kMinFraction, 1, kShare},
        Figure{"efficiency.overlap_contention", efficiency.overlap_contention.value_or(0), 0, 1, kShare},
        Figure{"efficiency.op_overhead_s", efficiency.op_overhead_s.value_or(0), 0, kMaxSeconds, kTime},
        Figure{"intra_node_bytes_per_s", group.intra_node_bytes_per_s, kMinBytesPerSecond, kMaxBytesPerSecond,
               kBandwidth},
        Figure{"inter_node_bytes_per_s", group.inter_node_bytes_per_s, kMinBytesPerSecond, kMaxBytesPerSecond,
               kBandwidth},
        Figure{"intra_node_latency_s", group.intra_node_latency_s.value_or(0), 0, kMaxSeconds, kTime},
        Figure{"inter_node_latency_s", group.inter_node_latency_s.value_or(0), 0, kMaxSeconds, kTime},
        Figure{"host_op_s", group.host_op_s.value_or(0), 0, kMaxSeconds, kTime}}) {
    AUTOCFG_RETURN_IF_ERROR(CheckFigure(index, figure));
  }
  return ValidateRanksPerCore(index, group, local);
}

// Names are printed verbatim.
absl::Status ValidateName(std::string_view field, std::string_view name) {
  if (name.size() > kMaxClusterNameBytes) {
    return Invalid("", field,
                   fmt::format("has {} bytes; at most {} are allowed", name.size(), kMaxClusterNameBytes));
  }
  if (std::any_of(name.begin(), name.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; })) {
    return Invalid("", field, "has a control character, such as a line break; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

std::int64_t RankCount(const ClusterSpec& cluster) {
  std::int64_t ranks = 0;
  for (const NodeGroup& group : cluster.groups) ranks += group.nodes * group.gpus_per_node;
  return ranks;
}

bool HidesCollectives(const ClusterSpec& cluster) {
  return std::none_of(cluster.groups.begin(), cluster.groups.end(),
                      [](const NodeGroup& group) { return group.device.kind == DeviceKind::kCpu; });
}

EngineProfile TimedEngine(const ClusterSpec& cluster) {
  return cluster.calibration ? EngineProfile() : cluster.engine;
}

double OverlapContention(const ClusterSpec& cluster) {
  if (cluster.groups.empty() || !HidesCollectives(cluster)) return 0;
  return cluster.groups.front().device.efficiency.overlap_contention.value_or(0);
}

std::int64_t MemoryCapacity(const ClusterSpec& cluster) {
  if (cluster.groups.empty()) return 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const NodeGroup& group : cluster.groups) least = std::min(least, group.device.memory_bytes);
  return least;
}

std::int64_t DeviceOverheadBytes(const ClusterSpec& cluster) {
  std::int64_t most = 0;
  for (const NodeGroup& group : cluster.groups)
    most = std::max(most, group.device.overhead_bytes.value_or(0));
  return most + cluster.engine.overhead_bytes;
}

absl::Status Validate(const ClusterSpec& cluster) {
  if (cluster.groups.empty()) {
    return base::InvalidArgument("cluster", "it has no node groups; give a device and its node count");
  }
  if (cluster.groups.size() > 1000) {
    return base::InvalidArgument(
        "cluster", fmt::format("{} node groups; at most 1000 are allowed", cluster.groups.size()));
  }
  AUTOCFG_RETURN_IF_ERROR(ValidateName("name", cluster.name));
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) {
    const std::string index = cluster.groups.size() == 1 ? "" : fmt::format("node group {}: ", i);
    AUTOCFG_RETURN_IF_ERROR(ValidateName("device.name", cluster.groups[i].device.name));
    AUTOCFG_RETURN_IF_ERROR(ValidateGroup(index, cluster.groups[i], cluster.local));
  }
  AUTOCFG_RETURN_IF_ERROR(Validate(cluster.engine));
  if (!cluster.calibration) return absl::OkStatus();
  if (cluster.local || cluster.groups.size() != 1) {
    return base::InvalidArgument("cluster",
                                 "calibration is for described clusters of one node group; leave it out");
  }
  return Validate(*cluster.calibration);
}

absl::Status ClusterError(const ClusterSpec& cluster, std::string_view problem) {
  const std::string& device = cluster.groups.front().device.name;
  const std::string label = device.empty() ? "cluster" : fmt::format("cluster of {}", device);
  return base::SubjectError(absl::StatusCode::kInvalidArgument, "cluster", label, problem);
}

}  // namespace autocfg
