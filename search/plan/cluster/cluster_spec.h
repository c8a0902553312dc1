// The machines a plan runs on: a list of node groups (currently one), each of identical nodes. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/fields.h"
#include "search/plan/cluster/calibration.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/cluster/engine_profile.h"

namespace autocfg {

// The fraction of its peak figures that a device reaches. 0 means unknown, except for matmul_k_half, where it
// means no such effect. An overhead of 0 is a known value. The presets' figures are first estimates
// (search/data/devices names the source of each); measured clusters replace them.
struct DeviceEfficiency {
  double matmul = 0;         // of the peak rate: large, aligned matrix products
  double matmul_k_half = 0;  // inner dimension k0 at which half of that is reached: rate x k / (k + k0)
  // of the peak rate: fused attention, counting full scores; up to 2, as causality skips half of them
  double attention_forward = 0;
  double attention_backward = 0;
  // What a fused attention's rates lose at small head dims: head dim d0 at which the work on the scores alone
  // (softmax) takes as long as the products, so that time grows with 1 + d0 / head_dim. The rates above are
  // those at 128. 0: no such effect.
  double attention_head_dim_half = 0;
  double memory = 0;      // of memory_bytes_per_s: memory-bound ops
  double intra_node = 0;  // of intra_node_bytes_per_s: collectives' bus bandwidth, and messages
  double inter_node = 0;  // of inter_node_bytes_per_s: the same
  // The next four are usually fitted to measured steps (autocfg calibrate). 0: as the figure in brackets.
  double intra_node_message = 0;  // of intra_node_bytes_per_s: messages between stages (intra_node)
  double inter_node_message = 0;  // of inter_node_bytes_per_s: the same (inter_node)
  double optimizer = 0;           // of memory_bytes_per_s: the optimizer's ops (memory)
  // of the time of collectives over the data group, what a step waits for (1): frameworks hide some of them,
  // or reduce in a narrower type
  double data_exposed = 0;
  // of the time of a collective that runs beside computes, what it takes from them, because it needs
  // multiprocessors and memory bandwidth. Not of messages between stages. Empty: unknown, and counted as 0
  std::optional<double> overlap_contention = {};
  std::optional<double> op_overhead_s = {};  // added to every op: launch, ramp-up and ramp-down

  bool operator==(const DeviceEfficiency&) const = default;
};

struct DeviceSpec {
  std::string name = {};
  DeviceKind kind = DeviceKind::kCpu;
  // the description has neither a kind nor a rate in a two-byte type; a CPU is assumed
  bool kind_assumed = false;
  std::int64_t memory_bytes = 0;  // what one rank may use, everything included
  double memory_bytes_per_s = 0;  // stream bandwidth of one rank
  double flops_per_s_fp64 = 0;    // peak matrix-product rates; 0: unknown
  double flops_per_s_fp32 = 0;
  double flops_per_s_bf16 = 0;
  double flops_per_s_fp16 = 0;
  double flops_per_s_fp8 = 0;  // of fp8 with scales of tensors or of blocks
  double flops_per_s_mxfp8 = 0;
  double flops_per_s_nvfp4 = 0;
  std::int64_t multiprocessors = 0;  // units that the tiles of a matrix product are spread over; 0: no tiles
  bool fused_attention = true;       // FlashAttention's kind of kernels run on it
  // part of memory_bytes that the device uses beside a rank's arena; empty: unknown
  std::optional<std::int64_t> overhead_bytes = {};
  DeviceEfficiency efficiency = {};

  bool operator==(const DeviceSpec&) const = default;
};

struct NodeGroup {
  DeviceSpec device = {};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // ranks per node on a CPU cluster
  // Links of one rank, in one direction. Where ranks share the interfaces of their node, each has its share:
  // those of the node together, divided by its ranks.
  double intra_node_bytes_per_s = 0;
  double inter_node_bytes_per_s = 0;
  // Of a message, and of each step of a collective. Empty: unknown.
  std::optional<double> intra_node_latency_s = {};
  std::optional<double> inter_node_latency_s = {};
  // Time in which the host issues one compute op of a rank. A forward or backward takes at least
  // this long for each of them, however fast the device is. Empty: unknown, and counted as 0.
  std::optional<double> host_op_s = {};
  double ranks_per_core = 1;  // above 1 only on a local cluster: ranks share cores or a GPU

  bool operator==(const NodeGroup&) const = default;
};

struct ClusterSpec {
  std::string name = {};
  bool local = false;  // this machine: measured, not described
  std::vector<NodeGroup> groups = {};
  EngineProfile engine = {};                    // that runs on it, and whose step is predicted
  std::optional<Calibration> calibration = {};  // of one node group; empty: not fitted to measured steps
  std::vector<std::string> read_as =
      {};  // for notes: how texts with units were read, and figures that are hard to believe

  bool operator==(const ClusterSpec&) const = default;
};

// The rows of fields, in the order in which JSON has them. JSON, messages and bounds follow from the rows.
std::span<const base::Field<NodeGroup>> NodeGroupFields();  // but the device
std::span<const base::Field<DeviceSpec>> DeviceFields();    // but the next two
std::span<const base::Field<DeviceSpec>> RateFields();      // peak rates, by precision
std::span<const base::Field<DeviceEfficiency>> EfficiencyFields();

// Returns the number of ranks in all groups.
std::int64_t RankCount(const ClusterSpec& cluster);

// Returns whether collectives run beside computes. Those of a CPU are computed by the rank's own core.
bool HidesCollectives(const ClusterSpec& cluster);

// Returns the engine by whose figures of time and overlaps steps are predicted: that of the cluster; our own
// on a calibrated cluster, whose figures already have what the framework of the measured steps does. Its
// other members are of no use.
EngineProfile TimedEngine(const ClusterSpec& cluster);

// Returns the share of their time that hidden collectives take from the computes beside them, of the first
// group; 0 without groups, and where none are hidden.
double OverlapContention(const ClusterSpec& cluster);

// Returns the smallest memory of any rank's device, in bytes.
std::int64_t MemoryCapacity(const ClusterSpec& cluster);

// Returns the largest overhead beside a rank's arena, in bytes. Unknown overheads count as 0.
std::int64_t DeviceOverheadBytes(const ClusterSpec& cluster);

// InvalidArgument, naming the field, for:
//
// - no groups, or a count that is not positive;
// - a figure that is negative or not finite;
// - a known figure beyond the bounds of its row, which are what current machines could have;
// - a GPU of less than 1 MiB, or an overhead of more than the memory;
// - a name of more than 256 bytes or with a control character;
// - ranks_per_core below 1, above gpus_per_node, or not 1 on a cluster that is not local.
absl::Status Validate(const ClusterSpec& cluster);

// Returns an InvalidArgument with the subject "cluster" that shows the name of the first group's device.
// Requires a node group.
absl::Status ClusterError(const ClusterSpec& cluster, std::string_view problem);

}  // namespace autocfg
