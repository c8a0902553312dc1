#include "trainer/comm/streamed/lane.h"

#include <algorithm>
#include <utility>

#include "trainer/comm/group.h"

namespace autocfg::trainer {

LaneTime::~LaneTime() {
  if (begin_) driver_.Release(*begin_);
  if (end_) driver_.Release(*end_);
}

LaneOperation::LaneOperation(StreamDriver& driver, EventId ready, const CollectiveCall& call,
                             std::shared_ptr<LaneTime> time)
    : driver_(driver), ready_(ready), call_(call), time_(std::move(time)) {}

LaneOperation::~LaneOperation() {
  driver_.Release(ready_);
  if (done_) driver_.Release(*done_);
}

Lane::Lane(StreamDriver& driver, Communicator& host, std::vector<int> ranks, int rank, int channel,
           LinkUse use, std::string name)
    : driver_(driver),
      name_(std::move(name)),
      use_(use),
      rank_(rank),
      size_(static_cast<int>(ranks.size())),
      key_(rank == 0 ? driver.NewKey() : std::string(kLinkKeyBytes, '\0')),
      queue_(driver.CreateQueue()) {
  static_assert(kLinkKeyBytes % 4 == 0);
  const Tensor key{.data = key_.data(), .dtype = DType::kI32, .rank = 1, .shape = {kLinkKeyBytes / 4}};
  HostStream ready;  // keys are host memory
  if (rank != 0) exchange_.push_back(host.Recv(key, ranks.front(), channel, ready));
  for (int other = 1; rank == 0 && other < size_; ++other) {
    exchange_.push_back(host.Send(key, ranks[static_cast<std::size_t>(other)], channel, ready));
  }
}

Lane::~Lane() {
  if (!IsInOrder()) Abort();
  BeginLeave();
  if (link_) driver_.Leave(*link_);
  driver_.DestroyQueue(queue_);
}

bool Lane::IsInOrder() const { return !unwinding_.Now() && waiting_.empty(); }

void Lane::BeginLeave() noexcept {
  if (!link_ || leaving_ || !IsInOrder()) return;
  driver_.BeginLeave(*link_);
  leaving_ = true;
}

std::shared_ptr<LaneOperation> Lane::Issue(const CollectiveCall& call, QueueId compute) {
  std::shared_ptr<LaneTime> time;
  if (records_times_) time = recorded_times_.emplace_back(std::make_shared<LaneTime>(driver_));
  waiting_.push_back(
      std::make_shared<LaneOperation>(driver_, driver_.Record(compute), call, std::move(time)));
  return waiting_.back();
}

void Lane::BeginTimes() {
  recorded_times_.clear();
  records_times_ = true;
}

bool Lane::KeyIsThere() {
  std::erase_if(exchange_, [](const std::unique_ptr<Work>& work) { return work->Test(); });
  return exchange_.empty();
}

void Lane::Step() {
  if (aborted_) return;
  if (!link_) {
    if (!KeyIsThere()) return;
    link_ = driver_.Join(key_, rank_, size_, use_, name_);
  }
  for (;;) {
    if (driver_.IsBusy(*link_) || waiting_.empty()) return;
    LaneOperation& operation = *waiting_.front();
    if (!operation.begun_) {
      operation.begun_ = true;
      driver_.Wait(queue_, operation.ready_);
      if (operation.time_ != nullptr) operation.time_->begin_ = driver_.RecordTime(queue_);
      driver_.Enqueue(*link_, queue_, operation.call_);
      continue;  // with the event, only once the transfer is on the queue
    }
    if (operation.time_ != nullptr) operation.time_->end_ = driver_.RecordTime(queue_);
    operation.done_ = driver_.Record(queue_);
    waiting_.pop_front();
  }
}

void Lane::Abort() noexcept {
  aborted_ = true;
  if (link_) driver_.Abort(*link_);
  link_.reset();
  waiting_.clear();
}

}  // namespace autocfg::trainer
