// StudyService as functions that return StatusOr. The message of an error is one line: the server's, or that
// no coordinator answers at the target (Unavailable). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "grpcpp/client_context.h"

namespace autocfg {

struct Endpoint;  // proto/rpc/endpoint.h; installed as autocfg/client/endpoint.h

class StudyClient {
 public:
  // Connects on the first call. A certificate's file that cannot be read fails the calls.
  explicit StudyClient(const Endpoint& endpoint);
  // `target`: unix:PATH, HOST:PORT or [IPV6]:PORT. Calls are plain text: use only networks that you trust.
  explicit StudyClient(const std::string& target);
  ~StudyClient();

  absl::StatusOr<v1::Study> CreateStudy(const v1::CreateStudyRequest& request);
  absl::StatusOr<v1::Study> StartStudy(const std::string& name);
  absl::StatusOr<v1::Study> ResumeStudy(const std::string& name);
  absl::StatusOr<v1::Study> PauseStudy(const std::string& name);
  absl::StatusOr<v1::Study> SetStudyWeight(const std::string& name, double weight);
  absl::StatusOr<v1::Study> CancelStudy(const std::string& name);
  absl::StatusOr<v1::Study> GetStudy(const std::string& name);
  absl::Status DeleteStudy(const std::string& name);
  absl::StatusOr<v1::Recommendation> GetRecommendation(const std::string& study);
  // Returns the study's best plan as a file; `format`: megatron, megatron-bridge, nemo, deepspeed,
  // torchtitan or autocfg.
  absl::StatusOr<std::string> ExportConfig(const std::string& study, const std::string& format);
  // Returns all studies, newest first as the server lists them.
  absl::StatusOr<std::vector<v1::Study>> ListStudies();
  absl::StatusOr<std::vector<v1::Trial>> ListTrials(const std::string& study);
  // Returns the last `max_bytes` of the log of an attempt; at most 1 MiB. `trial` may be a calibration.
  absl::StatusOr<v1::TrialLog> GetTrialLog(const std::string& trial, std::int64_t attempt,
                                           std::int64_t max_bytes);

  // Returns the answer to each request, in order; a wrong request has an `error` in its answer.
  absl::StatusOr<std::vector<v1::PredictResponse>> Predict(const std::vector<v1::PredictRequest>& requests);

  // Calls `visit` for each message of the plans that the study rejected, until it returns false (Cancelled).
  absl::Status ListRejected(const std::string& study,
                            const std::function<bool(const v1::RejectedPlans&)>& visit);

  // Returns the page that `autocfg report` writes.
  absl::StatusOr<std::string> GetReport(const std::string& study);

  // Returns after `seconds`, or earlier if a broken connection is restored or `stop` returns true.
  void Pause(double seconds, const std::function<bool()>& stop);

  // Calls `visit` for each event after `cursor` until the server ends the stream (OK) or `context` is
  // cancelled. StudyWatcher also reopens broken streams.
  absl::Status WatchStudy(grpc::ClientContext& context, const std::string& name, std::int64_t cursor,
                          const std::function<void(const v1::StudyEvent&)>& visit);

 private:
  struct Service;

  const std::unique_ptr<Service> service_;
};

}  // namespace autocfg
