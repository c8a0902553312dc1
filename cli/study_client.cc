#include "cli/study_client.h"

#include <chrono>
#include <random>
#include <utility>

#include "cli/numbers.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"

namespace autocfg {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kPageSize = 200;
// Creating a study enumerates its plans; nothing else takes long.
constexpr std::chrono::seconds kDeadline(60);

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

template <typename Response, typename Request, typename Method>
absl::StatusOr<Response> Call(v1::StudyService::Stub& stub, Method method, const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  Response response;
  if (const grpc::Status status = (stub.*method)(&context, request, &response); !status.ok())
    return ToAbsl(status);
  return response;
}

template <typename Request, typename Method>
absl::StatusOr<v1::Study> CallByName(v1::StudyService::Stub& stub, Method method, const std::string& name) {
  Request request;
  request.set_name(name);
  request.set_request_id(NewRequestId());
  return Call<v1::Study>(stub, method, request);
}

}  // namespace

StudyClient::StudyClient(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  stub_ = v1::StudyService::NewStub(
      grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments));
}

absl::StatusOr<v1::Study> StudyClient::CreateStudy(const v1::CreateStudyRequest& request) {
  return Call<v1::Study>(*stub_, &v1::StudyService::Stub::CreateStudy, request);
}

absl::StatusOr<v1::Study> StudyClient::StartStudy(const std::string& name) {
  return CallByName<v1::StartStudyRequest>(*stub_, &v1::StudyService::Stub::StartStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::ResumeStudy(const std::string& name) {
  return CallByName<v1::ResumeStudyRequest>(*stub_, &v1::StudyService::Stub::ResumeStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::PauseStudy(const std::string& name) {
  return CallByName<v1::PauseStudyRequest>(*stub_, &v1::StudyService::Stub::PauseStudy, name);
}

absl::StatusOr<v1::Study> StudyClient::GetStudy(const std::string& name) {
  v1::GetStudyRequest request;
  request.set_name(name);
  return Call<v1::Study>(*stub_, &v1::StudyService::Stub::GetStudy, request);
}

absl::StatusOr<v1::Recommendation> StudyClient::GetRecommendation(const std::string& study) {
  v1::GetRecommendationRequest request;
  request.set_study(study);
  return Call<v1::Recommendation>(*stub_, &v1::StudyService::Stub::GetRecommendation, request);
}

absl::StatusOr<std::vector<v1::Study>> StudyClient::ListStudies() {
  std::vector<v1::Study> studies;
  v1::ListStudiesRequest request;
  request.set_page_size(kPageSize);
  do {
    auto page = Call<v1::ListStudiesResponse>(*stub_, &v1::StudyService::Stub::ListStudies, request);
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
  request.set_page_size(kPageSize);
  do {
    auto page = Call<v1::ListTrialsResponse>(*stub_, &v1::StudyService::Stub::ListTrials, request);
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
  return ToAbsl(reader->Finish());
}

std::string NewRequestId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
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

}  // namespace autocfg
