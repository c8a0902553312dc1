#include "cli/client/study_client.h"

#include <utility>

#include "base/os/host.h"
#include "cli/input/option_values.h"
#include "grpcpp/grpcpp.h"
#include "proto/rpc/channel.h"

namespace autocfg::cli {
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

}  // namespace

StudyClient::StudyClient(const std::string& target)
    : connection_(Connect(target)), stub_(v1::StudyService::NewStub(connection_.channel)) {}

template <typename Request, typename Method>
absl::StatusOr<v1::Study> StudyClient::CallByName(Method method, const std::string& name) {
  Request request;
  request.set_name(name);
  request.set_request_id(base::RandomId());
  return Ask<v1::Study>(connection_, *stub_, method, request, kStudyDeadlineSeconds);
}

absl::StatusOr<v1::Study> StudyClient::CreateStudy(const v1::CreateStudyRequest& request) {
  return Ask<v1::Study>(connection_, *stub_, &StudyStub::CreateStudy, request, kCreateDeadlineSeconds);
}

absl::StatusOr<v1::Study> StudyClient::StartStudy(const std::string& name) {
  return CallByName<v1::StartStudyRequest>(&StudyStub::StartStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::ResumeStudy(const std::string& name) {
  return CallByName<v1::ResumeStudyRequest>(&StudyStub::ResumeStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::PauseStudy(const std::string& name) {
  return CallByName<v1::PauseStudyRequest>(&StudyStub::PauseStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::CancelStudy(const std::string& name) {
  return CallByName<v1::CancelStudyRequest>(&StudyStub::CancelStudy, name);
}

absl::Status StudyClient::DeleteStudy(const std::string& name) {
  v1::DeleteStudyRequest request;
  request.set_name(name);
  request.set_request_id(base::RandomId());
  return Ask<v1::DeleteStudyResponse>(connection_, *stub_, &StudyStub::DeleteStudy, request,
                                      kStudyDeadlineSeconds)
      .status();
}

void StudyClient::Pause(double seconds, const std::function<bool()>& stop) {
  PauseBeforeRetry(*connection_.channel, seconds, stop);
}

absl::StatusOr<v1::Study> StudyClient::GetStudy(const std::string& name) {
  v1::GetStudyRequest request;
  request.set_name(name);
  return Ask<v1::Study>(connection_, *stub_, &StudyStub::GetStudy, request, kStudyDeadlineSeconds);
}

absl::StatusOr<v1::Recommendation> StudyClient::GetRecommendation(const std::string& study) {
  v1::GetRecommendationRequest request;
  request.set_study(study);
  return Ask<v1::Recommendation>(connection_, *stub_, &StudyStub::GetRecommendation, request,
                                 kRecommendDeadlineSeconds);
}

absl::StatusOr<std::vector<v1::Study>> StudyClient::ListStudies() {
  std::vector<v1::Study> studies;
  v1::ListStudiesRequest request;
  request.set_page_size(kStudyPageSize);
  do {
    auto page = Ask<v1::ListStudiesResponse>(connection_, *stub_, &StudyStub::ListStudies, request,
                                             kStudyDeadlineSeconds);
    if (!page.ok()) return page.status();
    for (auto& study : *page->mutable_studies()) studies.push_back(std::move(study));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return studies;
}

absl::StatusOr<std::vector<v1::Trial>> StudyClient::ListTrials(const std::string& study) {
  std::vector<v1::Trial> trials;
  v1::ListTrialsRequest request;
  request.set_parent(study);
  request.set_page_size(kStudyPageSize);
  do {
    auto page = Ask<v1::ListTrialsResponse>(connection_, *stub_, &StudyStub::ListTrials, request,
                                            kStudyDeadlineSeconds);
    if (!page.ok()) return page.status();
    for (auto& trial : *page->mutable_trials()) trials.push_back(std::move(trial));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return trials;
}

absl::Status StudyClient::WatchStudy(grpc::ClientContext& context, const std::string& name,
                                     std::int64_t cursor,
                                     const std::function<void(const v1::StudyEvent&)>& visit) {
  v1::WatchStudyRequest request;
  request.set_name(name);
  request.set_resume_cursor(cursor);
  const auto reader = stub_->WatchStudy(&context, request);
  for (v1::StudyEvent event; reader->Read(&event);) visit(event);
  const grpc::Status status = reader->Finish();
  return status.ok() ? absl::OkStatus() : ErrorOf(connection_, status);
}

absl::Status StudyClient::ListRejected(const std::string& study,
                                       const std::function<bool(const v1::RejectedPlans&)>& visit) {
  v1::ListRejectedRequest request;
  request.set_study(study);
  grpc::ClientContext context;
  const auto reader = stub_->ListRejected(&context, request);
  bool wanted = true;
  for (v1::RejectedPlans plans; wanted && reader->Read(&plans);) wanted = visit(plans);
  if (!wanted) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wanted) return absl::CancelledError("the list of rejected plans is no longer wanted");
  return status.ok() ? absl::OkStatus() : ErrorOf(connection_, status);
}

absl::StatusOr<std::string> StudyClient::GetReport(const std::string& study) {
  v1::GetReportRequest request;
  request.set_study(study);
  auto answer =
      Ask<v1::GetReportResponse>(connection_, *stub_, &StudyStub::GetReport, request, kReportDeadlineSeconds);
  if (!answer.ok()) return answer.status();
  return std::move(*answer->mutable_page());
}

absl::StatusOr<std::int64_t> ParseStudyId(const std::string& text) {
  const std::string prefix = "studies/";
  const std::string number = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  return ParseWhole("--study", number);
}

std::string LastPart(const std::string& name) {
  const auto slash = name.find_last_of('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

}  // namespace autocfg::cli
