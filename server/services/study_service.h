// StudyService over the store, the study runners and the dispatcher: validates requests, makes the calls and
// converts statuses. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "autocfg/v1/study_service.grpc.pb.h"
#include "base/os/host.h"
#include "search/planner/planning.h"
#include "server/access/access_control.h"
#include "server/report/study_reports.h"
#include "server/sched/dispatcher.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"
#include "server/studies/study_replays.h"
#include "server/studies/study_runners.h"
#include "server/studies/study_states.h"

namespace autocfg::server {

// Maximum numbers of concurrent WatchStudy and Predict streams. Each takes a server thread; the server has
// far more (coordinator.cc), and the rest remain for unary calls.
inline constexpr int kMaxWatchers = 128;
inline constexpr int kMaxPredictors = 128;
// Of ListRejected streams, each of which plans a study again.
inline constexpr int kMaxRejections = 2;

// Dependencies of a StudyServiceImpl; all must outlive it.
struct StudyServiceParts {
  Store& store;
  Notifier& notifier;
  StudyRunners& runners;
  Dispatcher& dispatcher;
  StudyReports& reports;
  PresentWorkers workers;  // those that take jobs: they are `local`
  base::Clock clock;
  const AccessControl& access;
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
  grpc::Status UpdateStudy(grpc::ServerContext*, const v1::UpdateStudyRequest*, v1::Study*) override;
  grpc::Status CancelStudy(grpc::ServerContext*, const v1::CancelStudyRequest*, v1::Study*) override;
  grpc::Status DeleteStudy(grpc::ServerContext*, const v1::DeleteStudyRequest*,
                           v1::DeleteStudyResponse*) override;
  grpc::Status ListTrials(grpc::ServerContext*, const v1::ListTrialsRequest*,
                          v1::ListTrialsResponse*) override;
  grpc::Status GetTrial(grpc::ServerContext*, const v1::GetTrialRequest*, v1::Trial*) override;
  grpc::Status GetTrialLog(grpc::ServerContext*, const v1::GetTrialLogRequest*, v1::TrialLog*) override;
  grpc::Status GetRecommendation(grpc::ServerContext*, const v1::GetRecommendationRequest*,
                                 v1::Recommendation*) override;
  grpc::Status WatchStudy(grpc::ServerContext*, const v1::WatchStudyRequest*,
                          grpc::ServerWriter<v1::StudyEvent>*) override;

  grpc::Status RetryTrial(grpc::ServerContext*, const v1::RetryTrialRequest*, v1::Trial*) override;
  grpc::Status Predict(grpc::ServerContext*,
                       grpc::ServerReaderWriter<v1::PredictResponse, v1::PredictRequest>*) override;
  grpc::Status ListRejected(grpc::ServerContext*, const v1::ListRejectedRequest*,
                            grpc::ServerWriter<v1::RejectedPlans>*) override;

  grpc::Status ExportConfig(grpc::ServerContext*, const v1::ExportConfigRequest*,
                            v1::ExportConfigResponse*) override;
  grpc::Status GetReport(grpc::ServerContext*, const v1::GetReportRequest*, v1::GetReportResponse*) override;

  // Waits until no WatchStudy stream is left, or until the timeout. Streams end by themselves once the
  // notifier is closed.
  void AwaitNoWatchers(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(streams_mutex_);

 private:
  // Gives a cluster that is `local` and has no groups the group of the workers' slots, and a study without a
  // device the device on which they are. A repeated request gets what the first one got.
  absl::Status DescribeLocal(const std::string& request_id, v1::SearchSpec& spec);
  // Gives a study that measures with an engine of the workers what the first of them that offers it says that
  // the engine can run, for the axes that the study does not name. A repeated request as above.
  absl::Status NarrowToOffer(const std::string& request_id, v1::SearchSpec& spec);
  // Returns the workers that take jobs.
  absl::StatusOr<std::vector<v1::Worker>> Workers() const;
  absl::StatusOr<v1::Study> Create(const v1::CreateStudyRequest& request, const Caller& caller,
                                   const std::string& trace_parent);
  absl::StatusOr<v1::Recommendation> Recommend(std::int64_t study, const PlanningWatch& watch);
  absl::StatusOr<v1::Trial> Retry(const grpc::ServerContext& context, const v1::RetryTrialRequest& request);
  absl::StatusOr<v1::ExportConfigResponse> Exported(const v1::ExportConfigRequest& request);
  // Returns why a RUNNING study makes no progress. Empty if it does.
  std::string Waiting(std::int64_t study);
  // PermissionDenied if the caller may not change the study. NotFound.
  absl::Status CheckOwner(const grpc::ServerContext& context, std::int64_t study);
  // Changes the state of the study that the request names.
  template <typename Request>
  absl::StatusOr<v1::Study> Change(const grpc::ServerContext& context, const Request& request,
                                   const StudyMove& move);
  absl::StatusOr<v1::Study> Update(const grpc::ServerContext& context, const v1::UpdateStudyRequest& request);
  // Stops work on a study that is no longer to run.
  absl::StatusOr<v1::Study> StopWork(absl::StatusOr<v1::Study> study);
  // Counts a new stream. Returns false if `most` streams are already in flight.
  bool Enter(int& streams, int most) ABSL_LOCKS_EXCLUDED(streams_mutex_);
  void Leave(int& streams) ABSL_LOCKS_EXCLUDED(streams_mutex_);
  // Sets the study's `waiting` field.
  absl::StatusOr<v1::Study> WithWaiting(absl::StatusOr<v1::Study> study);

  const StudyServiceParts parts_;
  StudyReplays replays_;
  absl::Mutex streams_mutex_;  // guards the counters of streams, each of which takes a thread
  int watchers_ = 0;
  int predictors_ = 0;
  int rejections_ = 0;
};

}  // namespace autocfg::server
