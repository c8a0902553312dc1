// What the ranks of a job here have gathered, against what they have gathered on the job's other workers: one
// exchange, on a thread of its own, so that the ranks are watched meanwhile. Use from one thread.
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

namespace autocfg {

// How a job that spans workers reaches the others. Both are called from threads of the job's watch.
struct ExchangeHook {
  // `values` of the ranks here, in their order; the answer's are by rank, of all of the job. `sequence`
  // counts the job's gatherings from 0. InvalidArgument: the others gather something else; any other error:
  // they, or the way to them, are gone.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& name, std::int64_t sequence,
                                                         const std::vector<std::string>& values)>
      run;
  // Ends the calls of `run` under way, and each that begins later.
  std::function<void()> cancel;

  explicit operator bool() const { return run != nullptr; }
};

class Exchange {
 public:
  // Begins it. `hook` outlives this.
  Exchange(const ExchangeHook& hook, std::string name, std::int64_t sequence,
           std::vector<std::string> values);
  ~Exchange();  // cancels it, and waits for its end
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const std::string& name() const { return name_; }
  int ready_fd() const { return ready_.get(); }  // for poll: can be read once it is over
  bool over() const;
  // Its answer. Requires: over(); once.
  absl::StatusOr<std::vector<std::string>> Take();

 private:
  const ExchangeHook& hook_;
  const std::string name_;
  UniqueFd ready_;
  mutable absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::vector<std::string>> answer_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace autocfg
