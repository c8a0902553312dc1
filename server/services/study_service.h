// StudyService over the store, the study runners and the dispatcher: checks the request, makes the call, maps
// the status. Thread-safe.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "autocfg/v1/study_service.grpc.pb.h"
#include "server/clock.h"
#include "server/sched/dispatcher.h"
#include "server/sched/notifier.h"
#include "server/services/caller.h"
#include "server/store/store.h"
#include "server/study_runner.h"

namespace autocfg {

// Streams of WatchStudy and of Predict at once. Each takes a thread of the server's, which has far more
// (coordinator.cc): the rest is for calls that end by themselves.
inline constexpr int kMaxWatchers = 128;
inline constexpr int kMaxPredictors = 128;

// What a StudyServiceImpl works with; all outlive it.
struct StudyServiceParts {
  Store& store;
  Notifier& notifier;
  StudyRunners& runners;
  Dispatcher& dispatcher;
  Clock clock;
  // of callers who reach the server (caller.h), who own the studies that they make
  std::string local_principal;
};

class StudyServiceImpl final : public v1::StudyService::Service {
 public:
  explicit StudyServiceImpl(StudyServiceParts parts);

  grpc::Status CreateStudy(grpc::ServerContext*, const v1::CreateStudyRequest*, v1::Study*) override;
  grpc::Status GetStudy(grpc::ServerContext*, const v1::GetStudyRequest*, v1::Study*) override;
  grpc::Status ListStudies(grpc::ServerContext*, const v1::ListStudiesRequest*,
                           v1::ListStudiesResponse*) override;
  grpc::Status StartStudy(grpc::ServerContext*, const v1::StartStudyRequest*, v1::Study*) override;
  grpc::Status PauseStudy(grpc::ServerContext*, const v1::PauseStudyRequest*, v1::Study*) override;
  grpc::Status ResumeStudy(grpc::ServerContext*, const v1::ResumeStudyRequest*, v1::Study*) override;
  grpc::Status CancelStudy(grpc::ServerContext*, const v1::CancelStudyRequest*, v1::Study*) override;
  grpc::Status DeleteStudy(grpc::ServerContext*, const v1::DeleteStudyRequest*,
                           v1::DeleteStudyResponse*) override;
  grpc::Status ListTrials(grpc::ServerContext*, const v1::ListTrialsRequest*,
                          v1::ListTrialsResponse*) override;
  grpc::Status GetTrial(grpc::ServerContext*, const v1::GetTrialRequest*, v1::Trial*) override;
  grpc::Status GetRecommendation(grpc::ServerContext*, const v1::GetRecommendationRequest*,
                                 v1::Recommendation*) override;
  grpc::Status WatchStudy(grpc::ServerContext*, const v1::WatchStudyRequest*,
                          grpc::ServerWriter<v1::StudyEvent>*) override;

  grpc::Status RetryTrial(grpc::ServerContext*, const v1::RetryTrialRequest*, v1::Trial*) override;
  grpc::Status Predict(grpc::ServerContext*,
                       grpc::ServerReaderWriter<v1::PredictResponse, v1::PredictRequest>*) override;

  // Not supported yet.
  grpc::Status ExportConfig(grpc::ServerContext*, const v1::ExportConfigRequest*,
                            v1::ExportConfigResponse*) override;

  // Until no stream of WatchStudy is left, or the timeout is over. Once the notifier is closed they end by
  // themselves.
  void AwaitNoWatchers(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(streams_mutex_);

 private:
  absl::StatusOr<v1::Study> Create(const v1::CreateStudyRequest& request, const Caller& caller);
  absl::StatusOr<v1::Recommendation> Recommend(std::int64_t study);
  absl::StatusOr<v1::Trial> Retry(const v1::RetryTrialRequest& request);
  // Why a RUNNING study does not get on; empty where it does.
  std::string Waiting(std::int64_t study);
  // Of a study that is not to be worked on any more.
  absl::StatusOr<v1::Study> Stopped(absl::StatusOr<v1::Study> study);
  // Whether one more stream of a kind may begin: where fewer than `most` of them are under way.
  bool Enter(int& streams, int most) ABSL_LOCKS_EXCLUDED(streams_mutex_);
  void Leave(int& streams) ABSL_LOCKS_EXCLUDED(streams_mutex_);
  // With why its work waits.
  absl::StatusOr<v1::Study> WithWaiting(absl::StatusOr<v1::Study> study);

  const StudyServiceParts parts_;
  absl::Mutex streams_mutex_;  // guards both, whose streams take a thread each
  int watchers_ = 0;
  int predictors_ = 0;
};

}  // namespace autocfg
