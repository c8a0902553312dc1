// Models the time of messages and collectives on described links. Pure functions, thread-safe.
//
// There is one function for each algorithm of a collective library; the time of a collective is that of the
// fastest, because a library chooses by its own model of them (NVIDIA, NCCL, src/graph/tuning.cc). A group
// has N ranks on n nodes, m of them on each. A step within a node has the latency a, one between nodes A.
//
//                     bytes over the slowest link               latency
//   ring              all-reduce 2(N-1)/N, gather (N-1)/N       twice, or once, (N-n) a + (n-1) A
//   two trees         2                                         2 L, L = (m-1) a + 2 log2(n) A; pipelined
//   hierarchical      within the node, then between nodes       the sum of those of its parts
//
// - Ring: Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms; its latency as NCCL counts it.
// - Two trees: Sanders, Speck and Traeff 2009, Two-tree algorithms for full bandwidth broadcast, reduction
//   and scan. A payload passes in blocks of the best size, so that either direction takes the square of
//   sqrt(bytes / bandwidth) + sqrt(L). As in NCCL, the ranks of a node are a chain and nodes are a tree.
// - Hierarchical: reduce-scatter by a ring within each node, an all-reduce or gather between nodes of every
//   rank's share with the ranks of its position (rails), gather within the node (Cho et al. 2019,
//   BlueConnect). The parts follow each other. Their times are those of Thakur, Rabenseifner and Gropp 2005,
//   Optimization of collective communication operations in MPICH.
//
// A reduce-scatter takes the time of a gather. Between nodes, a ring or the trees use the network interfaces
// of the group's own members on a node, at most at the speed of the links within the node. So groups that
// run on the same node at once, such as the data groups of its tensor ranks, share no interface. A cluster
// whose nodes have fewer interfaces than ranks gives every rank its share of them
// (search/plan/cluster/cluster_spec.h).
#pragma once

#include "search/cost/op_times/group_span.h"
#include "search/cost/op_times/links.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// Returns whether all nodes of a group have as many of its members, as the hierarchical algorithms require.
bool IsEven(const GroupSpan& span);

// Each returns the seconds of a payload of `bytes`: all of a rank's operand of an all-reduce, all of a
// gather's result. 0 for a group of one rank. Never less for a larger payload or slower links.
double RingAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links);
double RingGatherSeconds(double bytes, const GroupSpan& span, const Links& links);
double TwoTreeAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links);
// Require an even group.
double HierarchicalAllReduceSeconds(double bytes, const GroupSpan& span, const Links& links);
double HierarchicalGatherSeconds(double bytes, const GroupSpan& span, const Links& links);

// Returns the seconds of a communication op over a group with this span, without launch: a collective by its
// fastest algorithm, a message over the link between its two ranks. Never less for a larger payload.
double CommunicationSeconds(const OpDesc& op, const GroupSpan& span, const Links& links);

}  // namespace autocfg
