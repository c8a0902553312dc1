// The interface between the ordering of communication on device streams (lane.h, streamed_world.h), which is
// plain logic, and the libraries that execute it: CUDA and NCCL in trainer/comm/nccl, fakes in tests. One
// rank, one thread. No function but SecondsBetween blocks the host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/device.h"
#include "trainer/comm/communicator.h"

namespace autocfg::trainer {

enum class QueueId : std::int64_t {};  // an execution queue of the device: a stream
enum class EventId : std::int64_t {};  // a point in a queue
enum class TimeId : std::int64_t {};   // when a queue reached a point, by the device's clock
enum class LinkId : std::int64_t {};   // a set of ranks that exchange data: a communicator of the library

// The purpose of a link. A message may wait a long time for its peer while compute runs.
enum class LinkUse : std::uint8_t { kReductions, kMessages };

enum class HookPace : std::uint8_t { kSeldom, kOften };

// Size of the key by which ranks find each other when they join a link.
inline constexpr int kLinkKeyBytes = 128;

class StreamDriver {
 public:
  virtual ~StreamDriver() = default;

  virtual QueueId CreateQueue() = 0;
  virtual void DestroyQueue(QueueId queue) noexcept = 0;
  // Returns the queue of a stream of the device.
  virtual QueueId QueueOf(Stream& stream) = 0;

  // Records an event after everything on the queue so far. The caller must release it.
  virtual EventId Record(QueueId queue) = 0;
  // Makes work that is put on the queue from now on begin after the event.
  virtual void Wait(QueueId queue, EventId event) = 0;
  virtual void Release(EventId event) noexcept = 0;

  // Records when everything on the queue so far has ended. The caller must release it.
  virtual TimeId RecordTime(QueueId queue) = 0;
  // Returns the seconds from one time to another, perhaps of another queue. Blocks until both are known.
  virtual double SecondsBetween(TimeId from, TimeId to) = 0;
  virtual void Release(TimeId time) noexcept = 0;

  // Returns a key of kLinkKeyBytes for one new link. The calling rank must stay alive until all ranks have
  // joined.
  virtual std::string NewKey() = 0;
  // Begins to join the link; all `size` ranks call it with the same key. `name` appears in error messages.
  // Throws like IsBusy.
  virtual LinkId Join(const std::string& key, int rank, int size, LinkUse use, const std::string& name) = 0;
  // Returns true while the link is joining or putting a transfer onto its queue; no other function of the
  // link may be called then. If the link has failed, throws an error with the link's name and the library's
  // message: DeviceError or DeviceOutOfMemory for failures of the rank's own device, CommError otherwise.
  virtual bool IsBusy(LinkId link) = 0;
  // Puts a collective or message, whose peer is a rank of the link, onto the queue; it is there once the link
  // is no longer busy. Requires a link that is not busy. Throws like IsBusy.
  virtual void Enqueue(LinkId link, QueueId queue, const CollectiveCall& call) = 0;
  // BeginLeave begins to end the link after the in-flight work. Leave completes it, which may require the
  // peers to do the same: a rank calls BeginLeave for all links of a group before it calls Leave for the
  // first.
  virtual void BeginLeave(LinkId link) noexcept = 0;
  virtual void Leave(LinkId link) noexcept = 0;
  // Ends the link at once, without waiting for the peers.
  virtual void Abort(LinkId link) noexcept = 0;

  // Installs a hook that is called while the host waits for the device: about every millisecond, or whenever
  // it looks. The hook may throw to end the wait. An empty function removes it.
  virtual void SetHostWaitHook(std::function<void()> hook, HookPace pace) = 0;
};

}  // namespace autocfg::trainer
