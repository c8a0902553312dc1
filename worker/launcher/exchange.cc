#include "worker/launcher/exchange.h"

#include <sys/eventfd.h>

#include <utility>

namespace autocfg::worker {

// If eventfd fails, the watch sees the end at its next regular poll instead.
Exchange::Exchange(const ExchangeHook& hook, std::string name, std::int64_t sequence,
                   std::vector<std::string> values)
    : hook_(hook), name_(std::move(name)), ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this, sequence, values = std::move(values)] {
    auto answer = hook_.run(name_, sequence, values);
    {
      absl::MutexLock lock(&mutex_);
      answer_ = std::move(answer);
      over_ = true;
    }
    if (ready_.ok()) ::eventfd_write(ready_.get(), 1);
  });
}

Exchange::~Exchange() {
  if (!over()) hook_.cancel();
  thread_.join();
}

bool Exchange::over() const {
  absl::MutexLock lock(&mutex_);
  return over_;
}

absl::StatusOr<std::vector<std::string>> Exchange::Take() {
  absl::MutexLock lock(&mutex_);
  return std::move(answer_);
}

}  // namespace autocfg::worker
