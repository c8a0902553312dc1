// Follows a study on its own thread until the study ends, reopening broken streams. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "autocfg/v1/study_service.pb.h"
#include "grpcpp/client_context.h"

namespace autocfg {

class StudyClient;
struct Endpoint;  // proto/rpc/endpoint.h; installed as autocfg/client/endpoint.h

// For a remote coordinator: it owns the study, so a search loses nothing by waiting for it.
inline constexpr double kRemotePatienceSeconds = 600;

class StudyWatcher {
 public:
  // `patience_s`: how long to retry a coordinator that does not answer. `visit`, if set, is called with each
  // event on the watcher's thread.
  StudyWatcher(const Endpoint& endpoint, std::string study, double patience_s = 5,
               std::function<void(const v1::StudyEvent&)> visit = nullptr);
  // As that of StudyClient.
  StudyWatcher(const std::string& target, std::string study, double patience_s = 5,
               std::function<void(const v1::StudyEvent&)> visit = nullptr);
  ~StudyWatcher();  // Stop()

  // Waits up to `seconds`. Returns true once the study has ended or can no longer be followed (status()).
  bool WaitForEnd(double seconds);
  v1::Study Latest();
  // Returns the trials that run, by number. Empty while the study is polled.
  std::vector<v1::Trial> Running();
  absl::Status status();
  // Returns true while the coordinator does not answer and is retried.
  bool Away();
  // Returns the coordinator's reason for rejecting the stream, while the study continues there and is polled
  // instead. Empty if the stream is accepted.
  std::string Refused();
  void Stop();  // idempotent

 private:
  void Loop();
  bool GoesOn(const absl::Status& status, const absl::StatusOr<v1::Study>& known,
              std::optional<absl::Time>& broken);
  bool Stopping();

  const std::unique_ptr<StudyClient> client_;
  const std::string study_name_;
  const double patience_s_;
  const std::function<void(const v1::StudyEvent&)> visit_;
  absl::Mutex mutex_;
  v1::Study latest_ ABSL_GUARDED_BY(mutex_);
  std::map<std::int64_t, v1::Trial> running_ ABSL_GUARDED_BY(mutex_);  // by number
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
