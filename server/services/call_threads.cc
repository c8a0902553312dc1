#include "server/services/call_threads.h"

#include <utility>

#include "base/os/process.h"

namespace autocfg::server {

CallThreads::CallThreads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

CallThreads::~CallThreads() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CallThreads::Run(std::function<void()> call) {
  absl::MutexLock lock(&mutex_);
  calls_.push_back(std::move(call));
}

void CallThreads::Loop() {
  base::NameThread("calls");
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_ || !calls_.empty(); };
  while (true) {
    std::function<void()> call;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&due));
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    call();
  }
}

}  // namespace autocfg::server
