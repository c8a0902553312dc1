#include "worker/jobs/progress_sender.h"

#include <chrono>
#include <utility>

namespace autocfg::worker {
namespace {

constexpr std::chrono::seconds kSendPeriod{1};

}  // namespace

ProgressSender::ProgressSender(Send send, std::function<void()> cancel)
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

void ProgressSender::Add(const v1::CalibrateResult& timed) {
  const std::lock_guard lock(mutex_);
  timed_.mutable_ops()->MergeFrom(timed.ops());
  timed_.set_device_overhead_bytes(timed.device_overhead_bytes());
}

void ProgressSender::Loop() {
  auto turn = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || next_; });
    if (changed_.wait_until(lock, turn, [&] { return ended_; })) return;
    const v1::Progress progress = *std::exchange(next_, std::nullopt);
    v1::CalibrateResult timed = std::exchange(timed_, v1::CalibrateResult());
    lock.unlock();
    const bool delivered = send_(progress, timed);
    turn = std::chrono::steady_clock::now() + kSendPeriod;
    lock.lock();
    if (delivered) continue;
    timed.mutable_ops()->MergeFrom(timed_.ops());
    timed_.mutable_ops()->Swap(timed.mutable_ops());
    if (timed_.device_overhead_bytes() == 0) timed_.set_device_overhead_bytes(timed.device_overhead_bytes());
  }
}

}  // namespace autocfg::worker
