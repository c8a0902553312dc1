// Communication among the ranks of one group. Each rank has one object per group; use it from one thread. All
// members of the group issue the same collectives in the same order. Errors are thrown as CommError, which
// names the peer if it is known.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "search/ops/op_desc.h"

namespace autocfg::trainer {

struct CommError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class ReduceOp : std::uint8_t { kSum, kMax };

// An in-flight operation. It begins after all work issued so far on the stream passed to it. The destructor
// waits for completion.
class Work {
 public:
  virtual ~Work() = default;

  // Returns when work issued on that stream from now on may use the buffers. On a device that computes on the
  // host, the operation is then complete. On other devices the wait may happen on the stream, so synchronize
  // the stream before reading the data on the host. Idempotent. Throws CommError.
  virtual void Wait() = 0;

  // Makes progress. Returns true if the operation needs no more progress from the host; Wait then returns at
  // once. Throws CommError.
  virtual bool Test() = 0;
};

enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kSend, kRecv };

// A collective or message as data: what the methods of Communicator build, and what communicators run and
// wrappers of communicators pass on. A plain value that views its tensors.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Tensor whole{};
  Tensor part{};                 // if the kind has parts
  ReduceOp op = ReduceOp::kSum;  // if the kind reduces
  int peer = -1;                 // messages: a rank of the group
  int channel = 0;               // messages
};

// What a rank reads and writes in a collective. In a group of size() ranks, a part is one of size() equal
// parts of the whole.
struct CollectiveForm {
  OpKind op = OpKind::kAllReduceSum;  // as predicted and recorded
  bool reduces = false;
  bool from_part = false;  // reads `part` rather than `whole`
  bool to_part = false;    // writes `part` rather than `whole`
  bool message = false;

  bool HasPart() const { return from_part || to_part; }
};
CollectiveForm FormOf(CollectiveKind kind);

// Returns the descriptor that is recorded of a call in a group.
OpDesc DescOf(const CollectiveCall& call, CommGroup group, std::int64_t group_size);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // within the group
  virtual int size() const = 0;

  // Replaces every rank's tensor by the reduction over the group, bitwise identical on all ranks. Supports
  // kF32, kF64, kBF16 (each addition is computed in float and rounded) and kI32 (wraps around). A world that
  // moves no data accepts any type.
  std::unique_ptr<Work> AllReduce(const Tensor& tensor, ReduceOp op, Stream& stream) {
    return Issue({.kind = CollectiveKind::kAllReduce, .whole = tensor, .op = op}, stream);
  }

  // `whole` has size() equal parts; part r belongs to rank r. `part` has the size and type of one part. It is
  // either this rank's part of `whole` (PartOf; in place) or does not overlap `whole`. ReduceScatter sets
  // `part` to the reduction of this rank's part over the group and leaves the rest of `whole` undefined;
  // types as for AllReduce. AllGather sets part r of `whole` to the `part` of rank r, for any type. A
  // scattered and then gathered tensor is that of AllReduce up to the order of additions. Throw CommError if
  // `part` is not as large as a part, or, in a group of one rank, not in place.
  std::unique_ptr<Work> ReduceScatter(const Tensor& whole, const Tensor& part, ReduceOp op, Stream& stream) {
    return Issue({.kind = CollectiveKind::kReduceScatter, .whole = whole, .part = part, .op = op}, stream);
  }
  std::unique_ptr<Work> AllGather(const Tensor& part, const Tensor& whole, Stream& stream) {
    return Issue({.kind = CollectiveKind::kAllGather, .whole = whole, .part = part}, stream);
  }

  // Point-to-point messages, matched in order of issue per pair of ranks and per `channel` (activations and
  // gradients use different channels). Both sides must pass the same size.
  std::unique_ptr<Work> Send(const Tensor& tensor, int peer, int channel, Stream& stream) {
    return Issue({.kind = CollectiveKind::kSend, .whole = tensor, .peer = peer, .channel = channel}, stream);
  }
  std::unique_ptr<Work> Recv(const Tensor& tensor, int peer, int channel, Stream& stream) {
    return Issue({.kind = CollectiveKind::kRecv, .whole = tensor, .peer = peer, .channel = channel}, stream);
  }

  // Checks parts, peer and channel of a call, and runs it, as the methods above do with the calls that they
  // build. Throws CommError.
  std::unique_ptr<Work> Issue(const CollectiveCall& call, Stream& stream);

  // Runs a call that was checked. Communicators that wrap others pass it on to their Run. A world that moves
  // data checks that it can reduce the type (CheckReducible).
  virtual std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) = 0;

  // Returns when every rank of the group has called it. Synchronizes hosts only, not the work issued on
  // streams.
  virtual void Barrier() = 0;
};

// Returns the collective of a descriptor on `whole`; its part, if it has one, lies within.
CollectiveCall CallOf(const OpDesc& op, const Tensor& whole, const Communicator& group);

}  // namespace autocfg::trainer
