#include "worker/jobs/progress_sender.h"

#include <chrono>
#include <utility>

namespace autocfg::worker {
namespace {

constexpr std::chrono::seconds kSendPeriod{1};

}  // namespace

ProgressSender::ProgressSender(std::function<void(const v1::Progress&)> send, std::function<void()> cancel)
    : send_(std::move(send)), cancel_(std::move(cancel)), thread_([this] { Loop(); }) {}

ProgressSender::~ProgressSender() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  cancel_();
  thread_.join();
}

void ProgressSender::Set(const v1::Progress& progress) {
  const std::lock_guard lock(mutex_);
  next_ = progress;
  changed_.notify_all();
}

void ProgressSender::Loop() {
  auto turn = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || next_; });
    if (changed_.wait_until(lock, turn, [&] { return ended_; })) return;
    const v1::Progress progress = *std::exchange(next_, std::nullopt);
    lock.unlock();
    send_(progress);
    turn = std::chrono::steady_clock::now() + kSendPeriod;
    lock.lock();
  }
}

}  // namespace autocfg::worker
