// The streams of the remote device as a StreamDriver. Its links are shared memory between the ranks, which
// are threads of one process. It is as late and as strict as a library may be: nothing is buffered, a
// transfer ends when all its ranks have reached it, and a link is busy for a while after every call. One
// rank, one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/remote_device.h"
#include "trainer/comm/reduce.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg {

// The meeting point of the ranks of one link. Thread-safe.
class RemoteMeeting {
 public:
  explicit RemoteMeeting(int size) : size_(size) {}

  int size() const { return size_; }

  static std::shared_ptr<RemoteMeeting> Of(const std::string& key, int size) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<RemoteMeeting>> all;
    const std::lock_guard lock(mutex);
    std::shared_ptr<RemoteMeeting> meeting = all[key].lock();
    if (meeting == nullptr) all[key] = meeting = std::make_shared<RemoteMeeting>(size);
    return meeting;
  }

  void Come() {
    const std::lock_guard lock(mutex_);
    ++came_;
  }
  bool IsComplete() {
    const std::lock_guard lock(mutex_);
    return came_ >= size_;
  }

  // Each operation below begins at its first call and ends with the call that returns true.

  bool Send(int from, int to, std::uint64_t message, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Slot& slot = messages_[{from, to, message}];
    if (!slot.offered)
      slot = {true, false, {static_cast<const char*>(data), static_cast<const char*>(data) + bytes}};
    if (!slot.taken) return false;
    messages_.erase({from, to, message});
    return true;
  }

  bool Receive(int from, int to, std::uint64_t message, void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto it = messages_.find({from, to, message});
    if (it == messages_.end() || !it->second.offered) return false;
    if (it->second.data.size() != bytes) throw std::logic_error("the two sides of a message differ in size");
    std::memcpy(data, it->second.data.data(), bytes);
    it->second.taken = true;
    return true;
  }

  // Runs the collectives of a link in order, by number. `part`: of those that have one.
  bool Collect(int rank, std::uint64_t number, const trainer::CollectiveCall& call, void* data, void* part) {
    const trainer::CollectiveForm form = FormOf(call.kind);
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<std::size_t>(call.whole.Bytes());
    Sum& sum = sums_[number];
    if (sum.parts.empty()) sum.parts.resize(static_cast<std::size_t>(size_));
    std::vector<char>& own = sum.parts[static_cast<std::size_t>(rank)];
    if (own.empty()) {
      own.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
      const std::size_t part_bytes = bytes / static_cast<std::size_t>(size_);
      if (form.from_part)
        std::memcpy(own.data() + static_cast<std::size_t>(rank) * part_bytes, part, part_bytes);
      if (++sum.came == size_) {
        for (int r = 1; r < size_; ++r) {
          const std::vector<char>& theirs = sum.parts[static_cast<std::size_t>(r)];
          if (theirs.size() != bytes) throw std::logic_error("the ranks of a collective differ in size");
          if (form.from_part) {
            const std::size_t at = static_cast<std::size_t>(r) * part_bytes;
            std::memcpy(sum.parts[0].data() + at, theirs.data() + at, part_bytes);
          } else {
            trainer::ReduceInto(call.whole.dtype, call.op, trainer::ReduceOrder::kOwnFirst,
                                sum.parts[0].data(), theirs.data(), call.whole.Elements());
          }
        }
      }
    }
    if (sum.came < size_) return false;
    if (form.to_part) {
      const std::size_t part_bytes = bytes / static_cast<std::size_t>(size_);
      std::memset(data, 0xff, bytes);  // the rest of the whole is undefined
      std::memcpy(part, sum.parts[0].data() + static_cast<std::size_t>(rank) * part_bytes, part_bytes);
    } else {
      std::memcpy(data, sum.parts[0].data(), bytes);
    }
    if (++sum.left == size_) sums_.erase(number);
    return true;
  }

 private:
  struct Slot {
    bool offered = false, taken = false;
    std::vector<char> data;
  };
  struct Sum {
    std::vector<std::vector<char>> parts;
    int came = 0, left = 0;
  };

  const int size_;
  std::mutex mutex_;
  int came_ = 0;
  std::map<std::tuple<int, int, std::uint64_t>, Slot> messages_;
  std::map<std::uint64_t, Sum> sums_;
};

class RemoteDriver final : public trainer::StreamDriver {
 public:
  explicit RemoteDriver(RemoteDevice& device) : device_(device), engine_(device.engine()) {}

  trainer::QueueId CreateQueue() override { return trainer::QueueId{engine_->AddQueue()}; }
  void DestroyQueue(trainer::QueueId) noexcept override {}
  trainer::QueueId QueueOf(Stream& stream) override {
    return trainer::QueueId{RemoteStream::Of(stream).queue()};
  }

  trainer::EventId Record(trainer::QueueId queue) override {
    const trainer::EventId event{next_event_++};
    auto done = std::make_shared<bool>(false);
    events_[event] = done;
    engine_->Push(static_cast<int>(queue), [done] { return *done = true; });
    return event;
  }
  void Wait(trainer::QueueId queue, trainer::EventId event) override {
    engine_->Push(static_cast<int>(queue), [done = events_.at(event)] { return *done; });
  }
  void Release(trainer::EventId event) noexcept override { events_.erase(event); }

  trainer::TimeId RecordTime(trainer::QueueId queue) override {
    const trainer::TimeId time{next_event_++};
    auto reached = std::make_shared<std::optional<Clock::time_point>>();
    times_[time] = reached;
    engine_->Push(static_cast<int>(queue), [reached] {
      *reached = Clock::now();
      return true;
    });
    return time;
  }
  double SecondsBetween(trainer::TimeId from, trainer::TimeId to) override {
    for (const trainer::TimeId time : {from, to}) {
      for (trainer::Idle idle; !times_.at(time)->has_value(); idle()) {
        engine_->Pump();
        if (engine_->meanwhile) engine_->meanwhile();
      }
    }
    return std::chrono::duration<double>(**times_.at(to) - **times_.at(from)).count();
  }
  void Release(trainer::TimeId time) noexcept override { times_.erase(time); }

  std::string NewKey() override {
    static std::atomic<int> next{0};
    std::string key = std::to_string(next++);
    key.resize(trainer::kLinkKeyBytes, ' ');
    return key;
  }
  trainer::LinkId Join(const std::string& key, int rank, int size, trainer::LinkUse,
                       const std::string&) override {
    const trainer::LinkId id{static_cast<std::int64_t>(links_.size())};
    links_.push_back({RemoteMeeting::Of(key, size), rank});
    links_.back().meeting->Come();
    return id;
  }
  bool IsBusy(trainer::LinkId id) override {
    Link& link = LinkOf(id);
    if (++asked_ % kPatience == 0) engine_->Pump();
    return !link.meeting->IsComplete() || --link.busy_for > 0;
  }
  void Enqueue(trainer::LinkId id, trainer::QueueId queue, const trainer::CollectiveCall& call) override {
    Link& link = LinkOf(id);
    if (link.busy_for > 0) throw std::logic_error("a link that is busy was given a transfer");
    link.busy_for = 4;
    void* data = device_.Real(call.whole).data;
    void* part = device_.Real(call.part).data;
    engine_->Push(static_cast<int>(queue),
                  [meeting = link.meeting, rank = link.rank, number = link.issued++, call, data, part] {
                    const auto bytes = static_cast<std::size_t>(call.whole.Bytes());
                    if (!FormOf(call.kind).message) return meeting->Collect(rank, number, call, data, part);
                    if (call.kind == trainer::CollectiveKind::kSend)
                      return meeting->Send(rank, call.peer, number, data, bytes);
                    return meeting->Receive(call.peer, rank, number, data, bytes);
                  });
  }
  void BeginLeave(trainer::LinkId) noexcept override {}
  void Leave(trainer::LinkId) noexcept override {}
  void Abort(trainer::LinkId) noexcept override {}
  void SetHostWaitHook(std::function<void()> hook, trainer::HookPace) override {
    engine_->meanwhile = std::move(hook);
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Link {
    std::shared_ptr<RemoteMeeting> meeting;
    int rank = 0;
    int busy_for = 3;          // queries until it is free
    std::uint64_t issued = 0;  // all messages of a lane have one direction, so one count suffices
  };
  Link& LinkOf(trainer::LinkId id) { return links_.at(static_cast<std::size_t>(id)); }

  // A device's streams make progress even if no host waits for them, at the latest after this many queries.
  static constexpr std::uint64_t kPatience = 500;

  RemoteDevice& device_;
  const std::shared_ptr<RemoteEngine> engine_;
  std::uint64_t asked_ = 0;
  std::map<trainer::EventId, std::shared_ptr<bool>> events_;
  std::map<trainer::TimeId, std::shared_ptr<std::optional<Clock::time_point>>> times_;
  std::int64_t next_event_ = 0;
  std::vector<Link> links_;
};

}  // namespace autocfg
