#include "proto/client/study_client.h"

#include <thread>
#include <utility>

#include "autocfg/v1/study_service.grpc.pb.h"
#include "base/os/host.h"
#include "base/status_macros.h"
#include "grpcpp/grpcpp.h"
#include "proto/client/rpc.h"
#include "proto/rpc/channel.h"

namespace autocfg {
namespace {

using StudyStub = v1::StudyService::Stub;

constexpr int kStudyPageSize = 200;
constexpr double kStudyDeadlineSeconds = 20;
// Longer: the call enumerates the study's plans.
constexpr double kCreateDeadlineSeconds = 60;
// Longer: the call may go through all outcomes of an inactive study.
constexpr double kRecommendDeadlineSeconds = 60;
// Longer: the call plans the study again, and may wait for its turn.
constexpr double kReportDeadlineSeconds = 120;
// Longer: a stream may predict thousands of plans.
constexpr double kPredictDeadlineSeconds = 600;

}  // namespace

struct StudyClient::Service {
  Connection connection;
  std::unique_ptr<StudyStub> stub;

  template <typename Response, typename Request, typename Method>
  absl::StatusOr<Response> Call(Method method, const Request& request,
                                double deadline_s = kStudyDeadlineSeconds) {
    return Ask<Response>(connection, *stub, method, request, deadline_s);
  }

  // A write that names one study.
  template <typename Response, typename Request, typename Method>
  absl::StatusOr<Response> Write(Method method, const std::string& name) {
    Request request;
    request.set_name(name);
    request.set_request_id(base::RandomId());
    return Call<Response>(method, request);
  }
};

StudyClient::StudyClient(const std::string& target) : StudyClient(Endpoint{.target = target}) {}

StudyClient::StudyClient(const Endpoint& endpoint) : service_(std::make_unique<Service>()) {
  service_->connection = Connect(endpoint);
  service_->stub = v1::StudyService::NewStub(service_->connection.channel);
}

StudyClient::~StudyClient() = default;

absl::StatusOr<v1::Study> StudyClient::CreateStudy(const v1::CreateStudyRequest& request) {
  return service_->Call<v1::Study>(&StudyStub::CreateStudy, request, kCreateDeadlineSeconds);
}

absl::StatusOr<v1::Study> StudyClient::StartStudy(const std::string& name) {
  return service_->Write<v1::Study, v1::StartStudyRequest>(&StudyStub::StartStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::ResumeStudy(const std::string& name) {
  return service_->Write<v1::Study, v1::ResumeStudyRequest>(&StudyStub::ResumeStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::PauseStudy(const std::string& name) {
  return service_->Write<v1::Study, v1::PauseStudyRequest>(&StudyStub::PauseStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::SetStudyWeight(const std::string& name, double weight) {
  v1::UpdateStudyRequest request;
  request.mutable_study()->set_name(name);
  request.mutable_study()->set_weight(weight);
  request.mutable_update_mask()->add_paths("weight");
  request.set_request_id(base::RandomId());
  return service_->Call<v1::Study>(&StudyStub::UpdateStudy, request);
}

absl::StatusOr<v1::Study> StudyClient::CancelStudy(const std::string& name) {
  return service_->Write<v1::Study, v1::CancelStudyRequest>(&StudyStub::CancelStudy, name);
}

absl::Status StudyClient::DeleteStudy(const std::string& name) {
  return service_->Write<v1::DeleteStudyResponse, v1::DeleteStudyRequest>(&StudyStub::DeleteStudy, name)
      .status();
}

void StudyClient::Pause(double seconds, const std::function<bool()>& stop) {
  PauseBeforeRetry(*service_->connection.channel, seconds, stop);
}

absl::StatusOr<v1::Study> StudyClient::GetStudy(const std::string& name) {
  v1::GetStudyRequest request;
  request.set_name(name);
  return service_->Call<v1::Study>(&StudyStub::GetStudy, request);
}

absl::StatusOr<v1::Recommendation> StudyClient::GetRecommendation(const std::string& study) {
  v1::GetRecommendationRequest request;
  request.set_study(study);
  return service_->Call<v1::Recommendation>(&StudyStub::GetRecommendation, request,
                                            kRecommendDeadlineSeconds);
}

absl::StatusOr<std::string> StudyClient::ExportConfig(const std::string& study, const std::string& format) {
  v1::ExportConfigRequest request;
  request.set_study(study);
  request.set_format(format);
  AUTOCFG_ASSIGN_OR_RETURN(auto exported, service_->Call<v1::ExportConfigResponse>(
                                              &StudyStub::ExportConfig, request, kRecommendDeadlineSeconds));
  return std::move(*exported.mutable_content());
}

absl::StatusOr<std::vector<v1::PredictResponse>> StudyClient::Predict(
    const std::vector<v1::PredictRequest>& requests) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kPredictDeadlineSeconds));
  const auto stream = service_->stub->Predict(&context);
  // Written beside the reading: neither side holds all requests and all answers at once.
  std::thread writer([&] {
    for (const v1::PredictRequest& request : requests) {
      if (!stream->Write(request)) return;  // the stream is broken; Finish says why
    }
    stream->WritesDone();
  });
  std::vector<v1::PredictResponse> answers;
  answers.reserve(requests.size());
  for (v1::PredictResponse answer; stream->Read(&answer);) answers.push_back(std::move(answer));
  writer.join();
  if (const grpc::Status status = stream->Finish(); !status.ok())
    return ErrorOf(service_->connection, status);
  if (answers.size() != requests.size())
    return absl::InternalError("the coordinator did not answer every prediction; call again");
  return answers;
}

absl::StatusOr<std::vector<v1::Study>> StudyClient::ListStudies() {
  std::vector<v1::Study> studies;
  v1::ListStudiesRequest request;
  request.set_page_size(kStudyPageSize);
  do {
    AUTOCFG_ASSIGN_OR_RETURN(auto page,
                             service_->Call<v1::ListStudiesResponse>(&StudyStub::ListStudies, request));
    for (auto& study : *page.mutable_studies()) studies.push_back(std::move(study));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return studies;
}

absl::StatusOr<std::vector<v1::Trial>> StudyClient::ListTrials(const std::string& study) {
  std::vector<v1::Trial> trials;
  v1::ListTrialsRequest request;
  request.set_parent(study);
  request.set_page_size(kStudyPageSize);
  do {
    AUTOCFG_ASSIGN_OR_RETURN(auto page,
                             service_->Call<v1::ListTrialsResponse>(&StudyStub::ListTrials, request));
    for (auto& trial : *page.mutable_trials()) trials.push_back(std::move(trial));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return trials;
}

absl::StatusOr<v1::TrialLog> StudyClient::GetTrialLog(const std::string& trial, std::int64_t attempt,
                                                      std::int64_t max_bytes) {
  v1::GetTrialLogRequest request;
  request.set_name(trial);
  request.set_attempt(attempt);
  request.set_max_bytes(max_bytes);
  return service_->Call<v1::TrialLog>(&StudyStub::GetTrialLog, request);
}

absl::Status StudyClient::WatchStudy(grpc::ClientContext& context, const std::string& name,
                                     std::int64_t cursor,
                                     const std::function<void(const v1::StudyEvent&)>& visit) {
  v1::WatchStudyRequest request;
  request.set_name(name);
  request.set_resume_cursor(cursor);
  const auto reader = service_->stub->WatchStudy(&context, request);
  for (v1::StudyEvent event; reader->Read(&event);) visit(event);
  const grpc::Status status = reader->Finish();
  return status.ok() ? absl::OkStatus() : ErrorOf(service_->connection, status);
}

absl::Status StudyClient::ListRejected(const std::string& study,
                                       const std::function<bool(const v1::RejectedPlans&)>& visit) {
  v1::ListRejectedRequest request;
  request.set_study(study);
  grpc::ClientContext context;
  const auto reader = service_->stub->ListRejected(&context, request);
  bool wanted = true;
  for (v1::RejectedPlans plans; wanted && reader->Read(&plans);) wanted = visit(plans);
  if (!wanted) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wanted) return absl::CancelledError("the list of rejected plans is no longer wanted");
  return status.ok() ? absl::OkStatus() : ErrorOf(service_->connection, status);
}

absl::StatusOr<std::string> StudyClient::GetReport(const std::string& study) {
  v1::GetReportRequest request;
  request.set_study(study);
  AUTOCFG_ASSIGN_OR_RETURN(auto answer, service_->Call<v1::GetReportResponse>(&StudyStub::GetReport, request,
                                                                              kReportDeadlineSeconds));
  return std::move(*answer.mutable_page());
}

}  // namespace autocfg
