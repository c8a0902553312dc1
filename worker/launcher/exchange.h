// One exchange of gathered values between the ranks here and the job's other workers. It runs in its own
// thread, so that the ranks are watched meanwhile. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/os/unique_fd.h"

namespace autocfg::worker {

// How a job that spans workers reaches the other workers. Both functions are called from threads of the job's
// watch.
struct ExchangeHook {
  // Sends `values` of the ranks here, in their order. Returns the values of all ranks of the job, by rank.
  // `sequence` counts the job's gatherings from 0. InvalidArgument: the other workers gather something else.
  // Any other error: the workers or the connection to them are gone.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name, std::int64_t sequence,
                                                         const std::vector<std::string>& values)>
      run;
  // Ends all in-flight calls of `run`, and each later one.
  std::function<void()> cancel;

  explicit operator bool() const { return run != nullptr; }
};

class Exchange {
 public:
  // Starts the exchange. `hook` must outlive this object.
  Exchange(const ExchangeHook& hook, std::string name, std::int64_t sequence,
           std::vector<std::string> values);
  ~Exchange();  // cancels the exchange and waits for its end
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const std::string& name() const { return name_; }
  int ready_fd() const { return ready_.get(); }  // for poll: becomes readable when the exchange is over
  bool over() const;
  // Returns the answer. Call once. Requires: over().
  absl::StatusOr<std::vector<std::string>> Take();

 private:
  const ExchangeHook& hook_;
  const std::string name_;
  base::UniqueFd ready_;
  mutable absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::vector<std::string>> answer_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace autocfg::worker
