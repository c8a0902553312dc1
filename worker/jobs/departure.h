// When a worker must go: the end of its time in a batch system, or the notice of a cloud that takes its
// machine back. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/os/host.h"

namespace autocfg::worker {

// Returns the Unix time that a text says: RFC 3339 ("2026-11-27T03:00:00Z"), Unix seconds (a bare number from
// 1,000,000,000), or a duration from `now_s` ("2h", "90"). InvalidArgument quotes other texts.
absl::StatusOr<double> ParseDeparture(std::string_view text, double now_s);

struct DepartureOptions {
  std::optional<double> at_s = {};  // Unix time; empty: not known
  // Holds a text of ParseDeparture once there is a notice. A duration in it counts from when it was written.
  // Missing or empty: no notice. Empty name: no file.
  std::string file = {};
  // Before the worker must go, it takes no more jobs for so long; a third of it before, those that still run
  // are ended.
  double grace_s = 30;
};

class Departure {
 public:
  explicit Departure(DepartureOptions options, base::Clock clock = base::SystemClock());

  // Returns for how long the worker takes jobs, which must have ended by then; nothing: no end is known.
  // Reads the file. Logs a notice, and a text there that is none, once.
  std::optional<double> SecondsForJobs();
  // Returns whether jobs that still run must be ended now.
  bool MustEndJobs();
  // Returns whether a notice may come at any time.
  bool has_file() const { return !options_.file.empty(); }

 private:
  std::optional<double> SecondsLeft();
  void ReadNotice() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DepartureOptions options_;
  const base::Clock clock_;
  absl::Mutex mutex_;
  std::string read_ ABSL_GUARDED_BY(mutex_);  // what the file held, with its time of change
  std::optional<double> notice_s_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace autocfg::worker
