// Communication among the ranks of one group. One object per rank and group; use from one thread. Every
// member of the group issues the same collectives in the same order. Errors are thrown: CommError, naming the
// peer where it is known.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace autocfg {

struct CommError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class ReduceOp : std::uint8_t { kSum, kMax };

// One operation under way. It begins after the work issued so far on the stream that it was given. Destroying
// it waits.
class Work {
 public:
  virtual ~Work() = default;

  // Returns when work that is issued on that stream from now on may use the buffers. On a device that
  // computes on the host the operation is then complete; on any other the stream may be what waits, so
  // whoever reads on the host synchronises the stream first. Idempotent. Throws CommError.
  virtual void Wait() = 0;

  // Makes progress. True once waiting needs no more progress from the host: Wait then returns at once. Throws
  // CommError.
  virtual bool Test() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // within the group
  virtual int size() const = 0;

  // Every rank's tensor becomes the reduction over the group, the same bits on every rank. kF32, kF64, kBF16
  // (each addition is made in float and rounded) and kI32, which wraps around; any type on a world that moves
  // nothing.
  virtual std::unique_ptr<Work> AllReduce(const Tensor& tensor, ReduceOp op, Stream& stream) = 0;

  // Point to point, matched in order of issue per pair of ranks and `channel` (activations and gradients use
  // different ones). The sizes of both sides must be equal.
  virtual std::unique_ptr<Work> Send(const Tensor& tensor, int peer, int channel, Stream& stream) = 0;
  virtual std::unique_ptr<Work> Recv(const Tensor& tensor, int peer, int channel, Stream& stream) = 0;

  // Returns when every rank of the group has called it: of hosts, not of what they have issued on streams.
  virtual void Barrier() = 0;
};

// What a communicator needs of the arena for each group of more than one rank: room for the pieces that
// arrive during a reduction.
inline constexpr std::int64_t kCollectiveStagingBytes = std::int64_t{1} << 20;

}  // namespace autocfg
