// A rendezvous between threads of one process.
#include <condition_variable>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {
namespace {

// State shared by the endpoints. One gathering runs at a time; the last rank to arrive completes it.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size), values_(size) {}

  int size() const { return size_; }

  std::vector<std::string> Gather(int rank, std::string_view name, std::string_view bytes) {
    std::unique_lock lock(mutex_);
    if (why_ended_.empty() && arrived_ > 0 && name != name_) {
      End(fmt::format("rank {} gathers '{}' while others gather '{}'", rank, name, name_));
    }
    if (!why_ended_.empty()) throw CommError(why_ended_);
    name_ = name;
    values_[rank] = bytes;
    const std::uint64_t generation = generation_;
    if (++arrived_ == size_) {
      complete_ = std::exchange(values_, std::vector<std::string>(size_));
      arrived_ = 0;
      ++generation_;
      changed_.notify_all();
      return complete_;
    }
    changed_.wait(lock, [&] { return generation_ != generation || !why_ended_.empty(); });
    if (generation_ == generation) throw CommError(why_ended_);
    return complete_;  // the next gathering cannot complete before this rank has joined it
  }

  void Leave(int rank) {
    std::lock_guard lock(mutex_);
    if (why_ended_.empty()) End(fmt::format("rank {} has left the group", rank));
  }

 private:
  void End(std::string why) {
    why_ended_ = std::move(why);
    changed_.notify_all();
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_;
  std::vector<std::string> values_;
  std::vector<std::string> complete_;
  std::uint64_t generation_ = 0;
  int arrived_ = 0;
  std::string why_ended_;  // empty: not ended
};

class LocalRendezvous final : public Rendezvous {
 public:
  LocalRendezvous(int rank, std::shared_ptr<Meeting> meeting) : rank_(rank), meeting_(std::move(meeting)) {}
  ~LocalRendezvous() override { meeting_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  std::vector<std::string> AllGather(std::string_view name, std::string_view bytes) override {
    return meeting_->Gather(rank_, name, bytes);
  }

 private:
  const int rank_;
  const std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Rendezvous>> CreateLocalRendezvous(int size) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Rendezvous>> endpoints;
  endpoints.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    endpoints.push_back(std::make_unique<LocalRendezvous>(rank, meeting));
  }
  return endpoints;
}

}  // namespace autocfg::trainer
