// One link with a queue of its own: the transfers of a lane run in order of issue, those of different lanes
// beside each other. Each begins after what stood on the compute queue when it was issued, and an event tells
// when it has ended. The host never waits here: Step does what can be done now. One rank, one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/streamed/stream_driver.h"
#include "trainer/comm/unwinding.h"

namespace autocfg {

// Transfers that were issued together.
class LaneOperation {
 public:
  LaneOperation(StreamDriver& driver, EventId ready, std::vector<Transfer> transfers);
  ~LaneOperation();
  LaneOperation(const LaneOperation&) = delete;
  LaneOperation& operator=(const LaneOperation&) = delete;

  // The end of all its transfers; none until they are on the queue.
  const std::optional<EventId>& done() const { return done_; }

 private:
  friend class Lane;

  StreamDriver& driver_;
  const EventId ready_;
  const std::vector<Transfer> transfers_;
  std::size_t next_ = 0;
  bool begun_ = false;
  std::optional<EventId> done_;
};

class Lane {
 public:
  // The ranks of the lane agree on a key over `host`, on `channel` of it, from the lane's rank 0 to the
  // others. `ranks`: of the host group, by rank of the lane. `rank`: of the lane. `name` says in errors what
  // the lane is for. Driver and host must outlive the lane.
  Lane(StreamDriver& driver, Communicator& host, std::vector<int> ranks, int rank, int channel, LinkUse use,
       std::string name);

  // Ends the link; while an exception passes, or with operations that never began, without the peers.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Issues transfers after what is on `compute` now.
  std::shared_ptr<LaneOperation> Issue(std::vector<Transfer> transfers, QueueId compute);

  // Does what can be done now: joins, puts transfers onto the queue. Throws what StreamDriver's
  // IsBusy does.
  void Step();

  // Begins to end the link. Requires that nothing is issued from then on.
  void BeginLeave() noexcept;

  // Ends the link at once; the lane does nothing from then on.
  void Abort() noexcept;

 private:
  bool KeyIsThere();
  bool IsInOrder() const;

  StreamDriver& driver_;
  const std::string name_;
  const LinkUse use_;
  const int rank_, size_;
  const Unwinding unwinding_;
  std::string key_;
  std::vector<std::unique_ptr<Work>> exchange_;  // of the key
  const QueueId queue_;
  std::optional<LinkId> link_;
  bool leaving_ = false;
  bool aborted_ = false;
  std::deque<std::shared_ptr<LaneOperation>> waiting_;  // not wholly on the queue, in order of issue
};

}  // namespace autocfg
