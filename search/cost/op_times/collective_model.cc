#include "search/cost/op_times/collective_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace autocfg {
namespace {

double Depth(std::int64_t members) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(members - 1)));  // ceil(log2)
}

// Of a ring or trees over all members of a group.
double GroupBytesPerSecond(const GroupSpan& span, const Links& links) {
  if (span.nodes <= 1) return links.intra_bytes_per_s;
  const double network = static_cast<double>(span.in_node) * links.inter_bytes_per_s;
  return span.in_node > 1 ? std::min(network, links.intra_bytes_per_s) : network;
}

// The members of an even group on one node, and those of one position on its nodes.
GroupSpan NodeOf(const GroupSpan& span) {
  return {.size = span.in_node, .in_node = span.in_node, .nodes = 1};
}
GroupSpan RailOf(const GroupSpan& span) { return {.size = span.nodes, .in_node = 1, .nodes = span.nodes}; }

double FlatAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links) {
  const double ring_s = RingAllReduceSeconds(bytes, span, links);
  return span.nodes > 1 ? std::min(ring_s, TwoTreeAllReduceSeconds(bytes, span, links)) : ring_s;
}

// Whether the hierarchical algorithms differ from the others.
bool HasHierarchy(const GroupSpan& span) { return span.nodes > 1 && span.in_node > 1 && IsEven(span); }

double AllReduceSeconds(double bytes, const GroupSpan& span, const Links& links) {
  const double flat_s = FlatAllReduceSeconds(bytes, span, links);
  return HasHierarchy(span) ? std::min(flat_s, HierarchicalAllReduceSeconds(bytes, span, links)) : flat_s;
}

double GatherSeconds(double bytes, const GroupSpan& span, const Links& links) {
  const double flat_s = RingGatherSeconds(bytes, span, links);
  return HasHierarchy(span) ? std::min(flat_s, HierarchicalGatherSeconds(bytes, span, links)) : flat_s;
}

double MessageSeconds(double bytes, const GroupSpan& span, const Links& links) {
  return span.nodes > 1 ? bytes / links.inter_message_bytes_per_s + links.inter_latency_s
                        : bytes / links.intra_message_bytes_per_s + links.intra_latency_s;
}

}  // namespace

bool IsEven(const GroupSpan& span) { return span.size == span.in_node * span.nodes; }

double RingGatherSeconds(double bytes, const GroupSpan& span, const Links& links) {
  if (span.size <= 1) return 0;
  const auto size = static_cast<double>(span.size), nodes = static_cast<double>(span.nodes);
  const double latency_s = (size - nodes) * links.intra_latency_s + (nodes - 1) * links.inter_latency_s;
  return (size - 1) / size * bytes / GroupBytesPerSecond(span, links) + latency_s;
}

double RingAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links) {
  return 2 * RingGatherSeconds(bytes, span, links);
}

double TwoTreeAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links) {
  if (span.size <= 1) return 0;
  const double chain = std::ceil(static_cast<double>(span.size) / static_cast<double>(span.nodes)) - 1;
  const double latency_s = chain * links.intra_latency_s + 2 * Depth(span.nodes) * links.inter_latency_s;
  const double bytes_s = bytes / GroupBytesPerSecond(span, links);
  return 2 * (bytes_s + 2 * std::sqrt(bytes_s * latency_s) + latency_s);
}

double HierarchicalAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links) {
  const double share = bytes / static_cast<double>(span.in_node);
  return RingAllReduceSeconds(bytes, NodeOf(span), links) + FlatAllReduceSeconds(share, RailOf(span), links);
}

double HierarchicalGatherSeconds(double bytes, const GroupSpan& span, const Links& links) {
  const double share = bytes / static_cast<double>(span.in_node);
  return RingGatherSeconds(bytes, NodeOf(span), links) + RingGatherSeconds(share, RailOf(span), links);
}

double CommunicationSeconds(const OpDesc& op, const GroupSpan& span, const Links& links) {
  if (op.group_size <= 1 || span.size <= 1) return 0;
  const double bytes = static_cast<double>(op.dims[0]) * static_cast<double>(SizeOf(op.dtype));
  switch (PatternOf(op.kind)) {
    case CommPattern::kNone: return 0;
    case CommPattern::kMessage: return MessageSeconds(bytes, span, links);
    case CommPattern::kAllReduce: return AllReduceSeconds(bytes, span, links);
    case CommPattern::kReduceScatter:
    case CommPattern::kAllGather: return GatherSeconds(bytes, span, links);
  }
  return 0;
}

}  // namespace autocfg
