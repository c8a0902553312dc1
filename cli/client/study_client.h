// StudyService as functions that return StatusOr. Unavailable if no coordinator answers, as ErrorOf of
// cli/client/rpc.h says. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.grpc.pb.h"
#include "cli/client/rpc.h"
#include "grpcpp/client_context.h"

namespace autocfg::cli {

class StudyClient {
 public:
  explicit StudyClient(const std::string& target);  // e.g. "unix:/path"

  absl::StatusOr<v1::Study> CreateStudy(const v1::CreateStudyRequest& request);
  absl::StatusOr<v1::Study> StartStudy(const std::string& name);
  absl::StatusOr<v1::Study> ResumeStudy(const std::string& name);
  absl::StatusOr<v1::Study> PauseStudy(const std::string& name);
  absl::StatusOr<v1::Study> CancelStudy(const std::string& name);
  absl::StatusOr<v1::Study> GetStudy(const std::string& name);
  absl::Status DeleteStudy(const std::string& name);
  absl::StatusOr<v1::Recommendation> GetRecommendation(const std::string& study);
  // Returns all studies, newest first as the server lists them.
  absl::StatusOr<std::vector<v1::Study>> ListStudies();
  absl::StatusOr<std::vector<v1::Trial>> ListTrials(const std::string& study);

  // Calls `visit` for each message of the plans that the study rejected, until it returns false (Cancelled).
  absl::Status ListRejected(const std::string& study,
                            const std::function<bool(const v1::RejectedPlans&)>& visit);

  // Returns the page that `autocfg report` writes.
  absl::StatusOr<std::string> GetReport(const std::string& study);

  // Calls PauseBeforeRetry of proto/rpc/channel.h.
  void Pause(double seconds, const std::function<bool()>& stop);

  // Calls `visit` for each event after `cursor` until the server ends the stream (OK) or `context` is
  // cancelled.
  absl::Status WatchStudy(grpc::ClientContext& context, const std::string& name, std::int64_t cursor,
                          const std::function<void(const v1::StudyEvent&)>& visit);

 private:
  template <typename Request, typename Method>
  absl::StatusOr<v1::Study> CallByName(Method method, const std::string& name);

  const Connection connection_;
  const std::unique_ptr<v1::StudyService::Stub> stub_;
};

// Parses "studies/3" or "3" as 3. InvalidArgument for anything else.
absl::StatusOr<std::int64_t> ParseStudyId(const std::string& text);

// Returns "3" of "studies/3" and "7" of "studies/3/trials/7"; the whole name if it has no such number.
std::string LastPart(const std::string& name);

}  // namespace autocfg::cli
