// Communication among the ranks of one group. Each rank has one object per group; use it from one thread. All
// members of the group issue the same collectives in the same order. Errors are thrown as CommError, which
// names the peer if it is known.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "kernels/device.h"
#include "kernels/tensor.h"

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

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // within the group
  virtual int size() const = 0;

  // Replaces every rank's tensor by the reduction over the group, bitwise identical on all ranks. Supports
  // kF32, kF64, kBF16 (each addition is computed in float and rounded) and kI32 (wraps around). A world that
  // moves no data accepts any type.
  virtual std::unique_ptr<Work> AllReduce(const Tensor& tensor, ReduceOp op, Stream& stream) = 0;

  // `whole` has size() equal parts; part r belongs to rank r. `part` has the size and type of one part. It is
  // either this rank's part of `whole` (PartOf; in place) or does not overlap `whole`. ReduceScatter sets
  // `part` to the reduction of this rank's part over the group and leaves the rest of `whole` undefined;
  // types as for AllReduce. AllGather sets part r of `whole` to the `part` of rank r, for any type. A
  // scattered and then gathered tensor is that of AllReduce up to the order of additions. Throw CommError if
  // `part` is not as large as a part, or, in a group of one rank, not in place.
  virtual std::unique_ptr<Work> ReduceScatter(const Tensor& whole, const Tensor& part, ReduceOp op,
                                              Stream& stream) = 0;
  virtual std::unique_ptr<Work> AllGather(const Tensor& part, const Tensor& whole, Stream& stream) = 0;

  // Point-to-point messages, matched in order of issue per pair of ranks and per `channel` (activations and
  // gradients use different channels). Both sides must pass the same size.
  virtual std::unique_ptr<Work> Send(const Tensor& tensor, int peer, int channel, Stream& stream) = 0;
  virtual std::unique_ptr<Work> Recv(const Tensor& tensor, int peer, int channel, Stream& stream) = 0;

  // Returns when every rank of the group has called it. Synchronizes hosts only, not the work issued on
  // streams.
  virtual void Barrier() = 0;
};

}  // namespace autocfg::trainer
