// The machines a plan runs on: a list of node groups (one today), each of equal nodes. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace autocfg {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

// What of its peak figures a device reaches. 0 = not known, but for matmul_k_half, where it means none; an
// overhead of 0 is one that is known. The figures of the presets are first estimates (search/data/devices
// names the source of each); measured clusters replace them.
struct DeviceEfficiency {
  double matmul = 0;         // of the peak rate: large, aligned matrix products
  double matmul_k_half = 0;  // inner dimension k0 at which half of that is left: rate x k / (k + k0)
  // of the peak rate: fused attention, counting full scores: up to 2, as causality skips half
  double attention_forward = 0;
  double attention_backward = 0;
  double memory = 0;      // of memory_bytes_per_s: ops bound by memory
  double intra_node = 0;  // of intra_node_bytes_per_s: collectives' bus bandwidth, and messages
  double inter_node = 0;  // of inter_node_bytes_per_s: the same
  std::optional<double> op_overhead_s = {};  // added to every op: launch, and the ramp up and down

  bool operator==(const DeviceEfficiency&) const = default;
};

struct DeviceSpec {
  std::string name = {};
  DeviceKind kind = DeviceKind::kCpu;
  // its description has no kind, and no rate in a two-byte type: it was taken for a CPU
  bool kind_assumed = false;
  std::int64_t memory_bytes = 0;  // what one rank may use, all included
  double memory_bytes_per_s = 0;  // stream bandwidth of one rank
  double flops_per_s_fp64 = 0;    // peak matrix-product rates; 0 = not known
  double flops_per_s_fp32 = 0;
  double flops_per_s_bf16 = 0;
  double flops_per_s_fp16 = 0;
  std::int64_t multiprocessors = 0;  // that the tiles of a matrix product are spread over; 0 = no tiles
  // what the device takes of memory_bytes beside a rank's arena; empty: not known
  std::optional<std::int64_t> overhead_bytes = {};
  DeviceEfficiency efficiency = {};

  bool operator==(const DeviceSpec&) const = default;
};

struct NodeGroup {
  DeviceSpec device = {};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // ranks per node on a CPU cluster
  double intra_node_bytes_per_s = 0;
  double inter_node_bytes_per_s = 0;
  std::optional<double> intra_node_latency_s = {};  // empty: not known
  std::optional<double> inter_node_latency_s = {};
  // in which the host issues one op of a rank, a message too: a forward or backward takes at least so long
  // for each of its ops, however fast the device; empty: not known, and counted as 0
  std::optional<double> host_op_s = {};
  double ranks_per_core = 1;  // more than 1, which only a local cluster may have: ranks share cores, or a GPU

  bool operator==(const NodeGroup&) const = default;
};

struct ClusterSpec {
  std::string name = {};
  bool local = false;  // this machine: measured rather than described
  std::vector<NodeGroup> groups = {};

  bool operator==(const ClusterSpec&) const = default;
};

// Ranks in all groups.
std::int64_t RankCount(const ClusterSpec& cluster);

// The least memory of any rank's device, in bytes.
std::int64_t MemoryCapacity(const ClusterSpec& cluster);

// The most that any of them takes beside a rank's arena, in bytes; what is not known counts as none.
std::int64_t DeviceOverheadBytes(const ClusterSpec& cluster);

// InvalidArgument, naming the field: no groups, a count that is not positive, a figure that is negative, not
// finite, or, where it is known, beyond what any machine of today could have (a latency or host_op_s above 1 s,
// a fraction above 1 or below 0.001, a GPU of less than 1 MiB, a bandwidth or rate of less than a million a
// second); a name of more than 256 bytes or with a control character; ranks_per_core below 1, above
// gpus_per_node, or not 1 where the cluster is not local.
absl::Status Validate(const ClusterSpec& cluster);

}  // namespace autocfg
