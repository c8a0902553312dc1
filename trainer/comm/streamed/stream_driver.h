// The seam between the order of communication on a device's streams (lane.h, streamed_world.h), which is
// plain logic, and the libraries that do it: CUDA and NCCL behind trainer/comm/nccl, fakes in tests. One
// rank, one thread. Nothing here waits on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/device.h"
#include "search/ops/dtype.h"
#include "trainer/comm/communicator.h"

namespace autocfg {

enum class QueueId : std::int64_t {};  // an order of execution on the device: a stream
enum class EventId : std::int64_t {};  // a point in a queue
enum class LinkId : std::int64_t {};   // a set of ranks that exchange data: a communicator of the library

// What a link is for. Messages that have been sent may wait for their peer for long, beside compute.
enum class LinkUse : std::uint8_t { kReductions, kMessages };

// The bytes by which ranks find each other when they join a link.
inline constexpr int kLinkKeyBytes = 128;

// One call of the library, on memory of the device.
struct Transfer {
  enum class Kind : std::uint8_t { kAllReduce, kSend, kRecv };
  Kind kind = Kind::kAllReduce;
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t elements = 0;
  ReduceOp op = ReduceOp::kSum;  // of an all-reduce
  int peer = -1;                 // of a message: a rank of the link
};

class StreamDriver {
 public:
  virtual ~StreamDriver() = default;

  virtual QueueId CreateQueue() = 0;
  virtual void DestroyQueue(QueueId queue) noexcept = 0;
  // The queue of a stream of the device.
  virtual QueueId QueueOf(Stream& stream) = 0;

  // An event after all that is on the queue so far; whoever records it releases it.
  virtual EventId Record(QueueId queue) = 0;
  // What is put onto the queue from here on begins after the event.
  virtual void Wait(QueueId queue, EventId event) = 0;
  virtual void Release(EventId event) noexcept = 0;

  // A key of kLinkKeyBytes for one new link. The rank that asks must live until all have joined.
  virtual std::string NewKey() = 0;
  // Begins to join; all `size` ranks do, with the same key. `name` is for people. Throws as IsBusy does.
  virtual LinkId Join(const std::string& key, int rank, int size, LinkUse use, const std::string& name) = 0;
  // Whether the link is still joining, or putting a transfer onto its queue: nothing else may be asked of it
  // then. Throws, with the link's name and the library's own words, where it has failed: CommError, but what
  // the rank's own device refused as DeviceError or DeviceOutOfMemory.
  virtual bool IsBusy(LinkId link) = 0;
  // Puts a transfer onto the queue; it is there once the link is no longer busy. Requires a link that is not
  // busy. Throws as IsBusy does.
  virtual void Enqueue(LinkId link, QueueId queue, const Transfer& transfer) = 0;
  // Begins to end the link, after what is under way; then ends it, for which the peers may have to do the
  // same: a rank begins with all links of a group before it ends the first.
  virtual void BeginLeave(LinkId link) noexcept = 0;
  virtual void Leave(LinkId link) noexcept = 0;
  // Ends it at once, whatever the peers do.
  virtual void Abort(LinkId link) noexcept = 0;

  // `hook` is called every now and then while the host waits for the device, and may throw to end the wait;
  // empty: nothing is.
  virtual void SetHostWaitHook(std::function<void()> hook) = 0;
};

}  // namespace autocfg
