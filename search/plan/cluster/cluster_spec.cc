#include "search/plan/cluster/cluster_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr double kMaxCount = 1e6;  // nodes, ranks per node; their product is far below 2^63
constexpr double kMaxMemoryBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMinGpuMemoryBytes = std::int64_t{1} << 20;
constexpr double kMinBytesPerSecond = 1e6;
constexpr double kMaxBytesPerSecond = 1e15;
constexpr double kMinFlopsPerSecond = 1e6;
constexpr double kMaxFlopsPerSecond = 1e18;
constexpr double kMinFraction = 1e-3;
constexpr double kMaxSeconds = 1;
constexpr double kMaxHalf = 1e6;
constexpr std::size_t kMaxClusterNameBytes = 256;

// Returns the error. `group` names the faulty group by its index if there are several.
absl::Status Invalid(std::string_view group, std::string_view field, std::string_view problem) {
  return base::InvalidArgument("cluster", fmt::format("{}{} {}", group, field, problem));
}

// Rows of figures, which are unknown at 0 if their least value is above it.
template <auto kMember>
constexpr auto FigureRow(std::string_view name, double least, double most, std::string_view unit = "") {
  return base::FieldOf<kMember>(
      {.name = name, .least = least, .most = most, .unknown_at_zero = least > 0, .unit = unit});
}
template <auto kMember>
constexpr auto ShareRow(std::string_view name, double most = 1) {
  return FigureRow<kMember>(name, kMinFraction, most);
}
template <auto kMember>
constexpr auto SecondsRow(std::string_view name) {
  return FigureRow<kMember>(name, 0, kMaxSeconds, "seconds");
}
template <auto kMember>
constexpr auto BandwidthRow(std::string_view name) {
  auto field = FigureRow<kMember>(name, kMinBytesPerSecond, kMaxBytesPerSecond, "bytes per second");
  field.quantity = base::Quantity::kBytesPerSecond;
  return field;
}
template <auto kMember>
constexpr auto RateRow(std::string_view name) {
  auto field = FigureRow<kMember>(name, kMinFlopsPerSecond, kMaxFlopsPerSecond, "FLOP per second");
  field.quantity = base::Quantity::kFlopsPerSecond;
  return field;
}

constexpr base::Field<NodeGroup> kNodeGroupFields[] = {
    base::FieldOf<&NodeGroup::nodes>({.name = "nodes", .least = 1, .most = kMaxCount, .required = true}),
    base::FieldOf<&NodeGroup::gpus_per_node>(
        {.name = "gpus_per_node", .least = 1, .most = kMaxCount, .always_written = true}),
    BandwidthRow<&NodeGroup::intra_node_bytes_per_s>("intra_node_bytes_per_s"),
    BandwidthRow<&NodeGroup::inter_node_bytes_per_s>("inter_node_bytes_per_s"),
    SecondsRow<&NodeGroup::intra_node_latency_s>("intra_node_latency_s"),
    SecondsRow<&NodeGroup::inter_node_latency_s>("inter_node_latency_s"),
    SecondsRow<&NodeGroup::host_op_s>("host_op_s"),
    base::FieldOf<&NodeGroup::ranks_per_core>({.name = "ranks_per_core", .always_written = true}),
};

constexpr base::Field<DeviceSpec> kDeviceFields[] = {
    base::FieldOf<&DeviceSpec::name>({.name = "name", .always_written = true}),
    base::FieldOf<&DeviceSpec::kind>({.name = "kind", .names = kDeviceKindNames, .always_written = true}),
    base::FieldOf<&DeviceSpec::memory_bytes>({.name = "memory_bytes",
                                              .least = 1,
                                              .most = kMaxMemoryBytes,
                                              .required = true,
                                              .quantity = base::Quantity::kBytes}),
    BandwidthRow<&DeviceSpec::memory_bytes_per_s>("memory_bytes_per_s"),
    base::FieldOf<&DeviceSpec::multiprocessors>({.name = "multiprocessors", .least = 1, .most = kMaxCount}),
    base::FieldOf<&DeviceSpec::fused_attention>({.name = "fused_attention"}),
    base::FieldOf<&DeviceSpec::overhead_bytes>(
        {.name = "overhead_bytes", .quantity = base::Quantity::kBytes}),
};

constexpr base::Field<DeviceSpec> kRateFields[] = {
    RateRow<&DeviceSpec::flops_per_s_fp64>("fp64"),   RateRow<&DeviceSpec::flops_per_s_fp32>("fp32"),
    RateRow<&DeviceSpec::flops_per_s_bf16>("bf16"),   RateRow<&DeviceSpec::flops_per_s_fp16>("fp16"),
    RateRow<&DeviceSpec::flops_per_s_fp8>("fp8"),     RateRow<&DeviceSpec::flops_per_s_mxfp8>("mxfp8"),
    RateRow<&DeviceSpec::flops_per_s_nvfp4>("nvfp4"),
};

constexpr base::Field<DeviceEfficiency> kEfficiencyFields[] = {
    ShareRow<&DeviceEfficiency::matmul>("matmul"),
    ShareRow<&DeviceEfficiency::attention_forward>("attention_forward", 2),
    ShareRow<&DeviceEfficiency::attention_backward>("attention_backward", 2),
    ShareRow<&DeviceEfficiency::memory>("memory"),
    ShareRow<&DeviceEfficiency::intra_node>("intra_node"),
    ShareRow<&DeviceEfficiency::inter_node>("inter_node"),
    ShareRow<&DeviceEfficiency::intra_node_message>("intra_node_message"),
    ShareRow<&DeviceEfficiency::inter_node_message>("inter_node_message"),
    ShareRow<&DeviceEfficiency::optimizer>("optimizer"),
    ShareRow<&DeviceEfficiency::data_exposed>("data_exposed"),
    FigureRow<&DeviceEfficiency::matmul_k_half>("matmul_k_half", 0, kMaxHalf),
    FigureRow<&DeviceEfficiency::attention_head_dim_half>("attention_head_dim_half", 0, kMaxHalf),
    FigureRow<&DeviceEfficiency::overlap_contention>("overlap_contention", 0, 1),
    SecondsRow<&DeviceEfficiency::op_overhead_s>("op_overhead_s"),
};

// Checks a known figure against the bounds of its row.
absl::Status CheckFigure(std::string_view group, const std::string& name, const base::FieldTraits& field,
                         double value) {
  if (!std::isfinite(value) || value < 0)
    return Invalid(group, name, fmt::format("is {}; it must be a finite number, not negative", value));
  const std::string unit = field.unit.empty() ? "" : fmt::format(", in {}", field.unit);
  if (value > field.most)
    return Invalid(group, name, fmt::format("is {:g}; at most {:g} is possible{}", value, field.most, unit));
  if (value > 0 && value < field.least)
    return Invalid(group, name, fmt::format("is {:g}; at least {:g} is needed{}", value, field.least, unit));
  return absl::OkStatus();
}

// Checks the fields that have an upper bound; others depend on each other.
template <typename Struct>
absl::Status CheckFields(std::string_view group, std::string_view prefix,
                         std::span<const base::Field<Struct>> fields, const Struct& in) {
  for (const base::Field<Struct>& field : fields) {
    const std::optional<base::FieldValue> value = field.Get(in);
    if (!value || !std::isfinite(field.most)) continue;
    const std::string name = fmt::format("{}{}", prefix, field.name);
    if (field.type == base::FieldType::kNumber) {
      AUTOCFG_RETURN_IF_ERROR(CheckFigure(group, name, field, std::get<double>(*value)));
      continue;
    }
    const auto size = std::get<std::int64_t>(*value);
    const auto usual = static_cast<double>(std::get<std::int64_t>(*field.Get(Struct{})));
    const double least = std::min(field.least, usual);
    if (static_cast<double>(size) < least || static_cast<double>(size) > field.most)
      return Invalid(group, name,
                     fmt::format("is {}; it must be from {:.0f} to {:.0f}", size, least, field.most));
  }
  return absl::OkStatus();
}

absl::Status ValidateMemory(std::string_view group, const DeviceSpec& device) {
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
  AUTOCFG_RETURN_IF_ERROR(CheckFields(index, "", NodeGroupFields(), group));
  AUTOCFG_RETURN_IF_ERROR(CheckFields(index, "", DeviceFields(), device));
  AUTOCFG_RETURN_IF_ERROR(CheckFields(index, "flops_per_s.", RateFields(), device));
  AUTOCFG_RETURN_IF_ERROR(CheckFields(index, "efficiency.", EfficiencyFields(), device.efficiency));
  AUTOCFG_RETURN_IF_ERROR(ValidateMemory(index, device));
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

std::span<const base::Field<NodeGroup>> NodeGroupFields() { return kNodeGroupFields; }
std::span<const base::Field<DeviceSpec>> DeviceFields() { return kDeviceFields; }
std::span<const base::Field<DeviceSpec>> RateFields() { return kRateFields; }
std::span<const base::Field<DeviceEfficiency>> EfficiencyFields() { return kEfficiencyFields; }

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
