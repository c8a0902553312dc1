// Follows a study on a thread of its own, over broken streams, until it ends. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/study_client.h"
#include "grpcpp/client_context.h"

namespace autocfg {

// For a coordinator elsewhere: a study is its, and a search loses nothing by waiting for it.
inline constexpr double kRemotePatienceSeconds = 600;

class StudyWatcher {
 public:
  // `patience_s`: how long a coordinator that does not answer is asked again. `visit`, where there is one, is
  // called with each event, on the watcher's thread.
  StudyWatcher(const std::string& target, std::string study, double patience_s = 5,
               std::function<void(const v1::StudyEvent&)> visit = nullptr);
  ~StudyWatcher();  // Stop()

  // True once the study has ended or cannot be followed any more (status()).
  bool WaitForEnd(double seconds);
  v1::Study Latest();
  absl::Status status();
  // Nobody answers, and is asked again.
  bool Away();
  // Why the coordinator takes no stream, in its words, while the study goes on there: it is asked for the
  // study from time to time. Empty where it takes one.
  std::string Refused();
  void Stop();  // idempotent

 private:
  void Loop();
  bool GoesOn(const absl::Status& status, const absl::StatusOr<v1::Study>& known,
              std::optional<absl::Time>& broken);
  bool Stopping();

  StudyClient client_;
  const std::string study_name_;
  const double patience_s_;
  const std::function<void(const v1::StudyEvent&)> visit_;
  absl::Mutex mutex_;
  v1::Study latest_ ABSL_GUARDED_BY(mutex_);
  std::int64_t cursor_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  std::string refused_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace autocfg
