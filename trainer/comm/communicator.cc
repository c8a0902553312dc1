#include "trainer/comm/communicator.h"

#include "fmt/format.h"
#include "trainer/comm/group.h"

namespace autocfg::trainer {
namespace {

// Requires another rank of the group, and a valid channel.
void CheckPeer(const Communicator& group, int peer, int channel) {
  if (peer < 0 || peer >= group.size() || peer == group.rank()) {
    throw CommError(fmt::format("rank {} of a group of {} cannot exchange messages with rank {}",
                                group.rank(), group.size(), peer));
  }
  if (channel < 0 || channel >= kUserChannels) {
    throw CommError(fmt::format("channel {} is outside 0 to {}", channel, kUserChannels - 1));
  }
}

// Requires the type of `whole`, and the size of one of as many equal parts as the group has ranks; in a group
// of one rank, `whole` itself.
void CheckPart(const Communicator& group, const Tensor& whole, const Tensor& part) {
  if (group.size() == 1 && part.data != whole.data)
    throw CommError("a group of one rank copies nothing; its part must be the whole");
  if (part.dtype == whole.dtype && part.Elements() * group.size() == whole.Elements()) return;
  throw CommError(
      fmt::format("{} elements of type {} are not one of {} equal parts of {} elements of type {}",
                  part.Elements(), Name(part.dtype), group.size(), whole.Elements(), Name(whole.dtype)));
}

// Throws CommError for an op that is not a collective.
CollectiveKind KindOf(OpKind op) {
  for (int i = 0;; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    if (FormOf(kind).op == op) return kind;
  }
}

}  // namespace

CollectiveForm FormOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce: return {.op = OpKind::kAllReduceSum, .reduces = true};
    case CollectiveKind::kReduceScatter:
      return {.op = OpKind::kReduceScatter, .reduces = true, .to_part = true};
    case CollectiveKind::kAllGather: return {.op = OpKind::kAllGather, .from_part = true};
    case CollectiveKind::kSend: return {.op = OpKind::kSend, .message = true};
    case CollectiveKind::kRecv: return {.op = OpKind::kRecv, .message = true};
  }
  throw CommError("unknown collective");
}

OpDesc DescOf(const CollectiveCall& call, CommGroup group, std::int64_t group_size) {
  const bool maximum = call.kind == CollectiveKind::kAllReduce && call.op == ReduceOp::kMax;
  return CommunicationOp(maximum ? OpKind::kAllReduceMax : FormOf(call.kind).op, call.whole.dtype, group,
                         group_size, call.whole.Elements());
}

CollectiveCall CallOf(const OpDesc& op, const Tensor& whole, const Communicator& group) {
  const bool maximum = op.kind == OpKind::kAllReduceMax;
  CollectiveCall call{.kind = KindOf(maximum ? OpKind::kAllReduceSum : op.kind),
                      .whole = whole,
                      .op = maximum ? ReduceOp::kMax : ReduceOp::kSum};
  if (FormOf(call.kind).HasPart()) call.part = PartOf(whole, group.rank(), group.size());
  return call;
}

std::unique_ptr<Work> Communicator::Issue(const CollectiveCall& call, Stream& stream) {
  const CollectiveForm form = FormOf(call.kind);
  if (form.HasPart()) CheckPart(*this, call.whole, call.part);
  if (form.message) CheckPeer(*this, call.peer, call.channel);
  return Run(call, stream);
}

}  // namespace autocfg::trainer
