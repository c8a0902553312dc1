#include "proto/convert/cluster_convert.h"

#include <optional>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/plan/precision.h"

namespace autocfg {
namespace {

v1::DeviceEfficiency ToProto(const DeviceEfficiency& efficiency) {
  v1::DeviceEfficiency message;
  message.set_matmul(efficiency.matmul);
  message.set_matmul_k_half(efficiency.matmul_k_half);
  message.set_attention_forward(efficiency.attention_forward);
  message.set_attention_backward(efficiency.attention_backward);
  message.set_memory(efficiency.memory);
  message.set_intra_node(efficiency.intra_node);
  message.set_inter_node(efficiency.inter_node);
  if (efficiency.op_overhead_s) message.set_op_overhead_s(*efficiency.op_overhead_s);
  return message;
}

DeviceEfficiency FromProto(const v1::DeviceEfficiency& message) {
  return {
      .matmul = message.matmul(),
      .matmul_k_half = message.matmul_k_half(),
      .attention_forward = message.attention_forward(),
      .attention_backward = message.attention_backward(),
      .memory = message.memory(),
      .intra_node = message.intra_node(),
      .inter_node = message.inter_node(),
      .op_overhead_s = message.has_op_overhead_s() ? std::optional(message.op_overhead_s()) : std::nullopt};
}

}  // namespace

v1::ClusterSpec ToProto(const ClusterSpec& cluster) {
  v1::ClusterSpec message;
  message.set_name(cluster.name);
  message.set_local(cluster.local);
  for (const NodeGroup& group : cluster.groups) {
    v1::NodeGroup& out = *message.add_groups();
    v1::DeviceSpec& device = *out.mutable_device();
    device.set_name(group.device.name);
    device.set_kind(std::string(Name(group.device.kind)));
    device.set_memory_bytes(group.device.memory_bytes);
    device.set_memory_bytes_per_s(group.device.memory_bytes_per_s);
    auto& rates = *device.mutable_flops_per_s();
    for (const auto& [name, rate] : {std::pair<const char*, double>{"fp64", group.device.flops_per_s_fp64},
                                     {"fp32", group.device.flops_per_s_fp32},
                                     {"bf16", group.device.flops_per_s_bf16},
                                     {"fp16", group.device.flops_per_s_fp16}}) {
      if (rate != 0) rates[name] = rate;
    }
    device.set_multiprocessors(group.device.multiprocessors);
    if (group.device.overhead_bytes) device.set_overhead_bytes(*group.device.overhead_bytes);
    *device.mutable_efficiency() = ToProto(group.device.efficiency);
    out.set_nodes(group.nodes);
    out.set_gpus_per_node(group.gpus_per_node);
    out.set_intra_node_bytes_per_s(group.intra_node_bytes_per_s);
    out.set_inter_node_bytes_per_s(group.inter_node_bytes_per_s);
    if (group.intra_node_latency_s) out.set_intra_node_latency_s(*group.intra_node_latency_s);
    if (group.inter_node_latency_s) out.set_inter_node_latency_s(*group.inter_node_latency_s);
    out.set_ranks_per_core(group.ranks_per_core);
    if (group.host_op_s) out.set_host_op_s(*group.host_op_s);
  }
  return message;
}

absl::StatusOr<ClusterSpec> FromProto(const v1::ClusterSpec& message) {
  ClusterSpec cluster;
  cluster.name = message.name();
  cluster.local = message.local();
  for (const v1::NodeGroup& in : message.groups()) {
    NodeGroup group;
    group.device.name = in.device().name();
    const std::optional<DeviceKind> kind = ParseDeviceKind(in.device().kind());
    if (!kind) {
      return base::InvalidArgument("cluster", fmt::format("unknown device kind '{}'; expected cpu or cuda",
                                                          base::Printable(in.device().kind())));
    }
    group.device.kind = *kind;
    group.device.memory_bytes = in.device().memory_bytes();
    group.device.memory_bytes_per_s = in.device().memory_bytes_per_s();
    for (const auto& [name, rate] : in.device().flops_per_s()) {
      if (name == "fp64") {
        group.device.flops_per_s_fp64 = rate;
      } else if (name == "fp32") {
        group.device.flops_per_s_fp32 = rate;
      } else if (name == "bf16") {
        group.device.flops_per_s_bf16 = rate;
      } else if (name == "fp16") {
        group.device.flops_per_s_fp16 = rate;
      } else {
        return base::InvalidArgument("cluster", "flops_per_s: " + UnknownPrecision(name));
      }
    }
    group.device.multiprocessors = in.device().multiprocessors();
    if (in.device().has_overhead_bytes()) group.device.overhead_bytes = in.device().overhead_bytes();
    group.device.efficiency = FromProto(in.device().efficiency());
    group.nodes = in.nodes();
    group.gpus_per_node = in.gpus_per_node();
    group.intra_node_bytes_per_s = in.intra_node_bytes_per_s();
    group.inter_node_bytes_per_s = in.inter_node_bytes_per_s();
    if (in.has_intra_node_latency_s()) group.intra_node_latency_s = in.intra_node_latency_s();
    if (in.has_inter_node_latency_s()) group.inter_node_latency_s = in.inter_node_latency_s();
    if (in.ranks_per_core() != 0) group.ranks_per_core = in.ranks_per_core();  // 0: unset
    if (in.has_host_op_s()) group.host_op_s = in.host_op_s();
    cluster.groups.push_back(std::move(group));
  }
  if (absl::Status status = Validate(cluster); !status.ok()) return status;
  return cluster;
}

}  // namespace autocfg
