// A lane: one link with its own queue. The transfers of a lane run in order of issue; different lanes run
// concurrently. Each transfer begins after the work that was on the compute queue when it was issued, and an
// event marks its end. The host never waits here: Step does what can be done at once. One rank, one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/streamed/stream_driver.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {

// When a transfer ran on its lane's queue.
class LaneTime {
 public:
  explicit LaneTime(StreamDriver& driver) : driver_(driver) {}
  ~LaneTime();
  LaneTime(const LaneTime&) = delete;
  LaneTime& operator=(const LaneTime&) = delete;

  TimeId begin() const { return *begin_; }  // requires an end
  const std::optional<TimeId>& end() const { return end_; }

 private:
  friend class Lane;

  StreamDriver& driver_;
  std::optional<TimeId> begin_, end_;
};

// A transfer that was issued.
class LaneOperation {
 public:
  // `time`: filled in as it runs; null: it is not timed.
  LaneOperation(StreamDriver& driver, EventId ready, const CollectiveCall& call,
                std::shared_ptr<LaneTime> time);
  ~LaneOperation();
  LaneOperation(const LaneOperation&) = delete;
  LaneOperation& operator=(const LaneOperation&) = delete;

  // The event after its transfer. Has no value until that is on the queue.
  const std::optional<EventId>& done() const { return done_; }

 private:
  friend class Lane;

  StreamDriver& driver_;
  const EventId ready_;
  const CollectiveCall call_;
  const std::shared_ptr<LaneTime> time_;
  bool begun_ = false;
  std::optional<EventId> done_;
};

class Lane {
 public:
  // The ranks of the lane exchange a key over `channel` of `host`; the lane's rank 0 sends it to the others.
  // `ranks` lists the lane's ranks as ranks of the host group. `rank` is this rank within the lane. `name`
  // describes the lane in error messages. `driver` and `host` must outlive the lane.
  Lane(StreamDriver& driver, Communicator& host, std::vector<int> ranks, int rank, int channel, LinkUse use,
       std::string name);

  // Ends the link. During stack unwinding, or if some operations never began, it does not wait for the peers.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Issues a transfer that begins after the work now on `compute`.
  std::shared_ptr<LaneOperation> Issue(const CollectiveCall& call, QueueId compute);

  // Times the operations that are issued between these calls. A time ends with its operation.
  void BeginTimes();
  void EndTimes() { records_times_ = false; }
  // Returns their times, in order of issue.
  std::vector<std::shared_ptr<LaneTime>> TakeTimes() { return std::exchange(recorded_times_, {}); }

  // Does what can be done at once: joins the link, puts transfers on the queue. Throws like
  // StreamDriver::IsBusy.
  void Step();

  // Begins to end the link. Requires that nothing is issued afterwards.
  void BeginLeave() noexcept;

  // Ends the link at once; the lane does nothing afterwards.
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
  bool records_times_ = false;
  std::vector<std::shared_ptr<LaneTime>> recorded_times_;
  std::deque<std::shared_ptr<LaneOperation>> waiting_;  // not completely on the queue, in order of issue
};

}  // namespace autocfg::trainer
