#include "server/portable/study_checks.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "search/plan/plan_text.h"
#include "server/names/names.h"
#include "server/services/request_checks.h"
#include "server/store/turns/fair_share.h"
#include "server/studies/search_problem.h"

namespace autocfg::server {
namespace {

using google::protobuf::FieldDescriptor;

constexpr std::size_t kMostTextBytes = std::size_t{16} << 10;
constexpr int kMostElements = 200'000;
constexpr std::int64_t kMostNumber = 10'000'000;  // of a trial, an attempt, a repeat
constexpr int kMostAttempts = 1000;
constexpr int kMostWorkers = 1024;
constexpr double kMostUnixSeconds = 1e11;
constexpr double kMostUsedSeconds = 1e12;

absl::Status Wrong(std::string_view field, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} {}", field, what));
}

bool IsText(const std::string& text) {
  return text.size() <= kMostTextBytes && std::none_of(text.begin(), text.end(), [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
         });
}

// Checks every field of a message: numbers are finite, texts have no control characters, and both texts and
// lists are bounded.
absl::Status CheckFields(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection.FieldSize(message, field) : 1;
    if (count > kMostElements) return Wrong(field->name(), "has too many elements");
    for (int i = 0; i < count; ++i) {
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_DOUBLE:
          if (!std::isfinite(repeated ? reflection.GetRepeatedDouble(message, field, i)
                                      : reflection.GetDouble(message, field))) {
            return Wrong(field->name(), "is not a finite number");
          }
          break;
        case FieldDescriptor::CPPTYPE_STRING:
          if (field->type() == FieldDescriptor::TYPE_STRING &&
              !IsText(repeated ? reflection.GetRepeatedString(message, field, i)
                               : reflection.GetString(message, field))) {
            return Wrong(field->name(), "is too long, or has control characters");
          }
          break;
        case FieldDescriptor::CPPTYPE_MESSAGE: {
          AUTOCFG_RETURN_IF_ERROR(CheckFields(repeated ? reflection.GetRepeatedMessage(message, field, i)
                                                       : reflection.GetMessage(message, field)));
          break;
        }
        default: break;
      }
    }
  }
  return absl::OkStatus();
}

// Checks a result as if a worker reported it.
absl::Status CheckReported(const v1::Measurement* measured, const v1::CalibrateResult* calibrated) {
  v1::ReportTrialRequest report;
  report.set_worker("workers/imported");
  report.set_session_epoch(1);
  report.set_lease_id("lease");
  report.set_fencing_token(1);
  report.set_attempt(1);
  report.set_request_id("request");
  report.set_outcome(v1::OUTCOME_MEASURED);
  if (measured != nullptr) *report.mutable_measurement() = *measured;
  if (calibrated != nullptr) *report.mutable_calibration() = *calibrated;
  return server::Check(report);
}

bool IsTime(double seconds) { return seconds >= 0 && seconds <= kMostUnixSeconds; }

absl::Status CheckAttempt(const v1::Attempt& attempt) {
  if (attempt.number() < 1 || attempt.number() > kMostNumber)
    return Wrong("attempts.number", "is out of range");
  if (!IsEnd(attempt.state())) return Wrong("attempts.state", "is no end state");
  if (!IsTime(attempt.start_time_s()) || !IsTime(attempt.end_time_s()))
    return Wrong("attempts", "has a time that is no Unix time");
  if (attempt.workers_size() > kMostWorkers) return Wrong("attempts.workers", "has too many elements");
  for (const std::string& worker : attempt.workers()) {
    AUTOCFG_RETURN_IF_ERROR(CheckWorkerName(worker));
  }
  return attempt.worker().empty() ? absl::OkStatus() : CheckWorkerName(attempt.worker());
}

}  // namespace

absl::Status CheckStudyHead(Store::StudyCopy& copy) {
  v1::Study& study = copy.study;
  AUTOCFG_RETURN_IF_ERROR(CheckFields(study));
  if (!IsEnd(study.state())) return Wrong("state", "is no end state");
  if (study.weight() != 0) {
    AUTOCFG_RETURN_IF_ERROR(CheckWeight(study.weight()));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckSpecSize(study.spec()));
  AUTOCFG_ASSIGN_OR_RETURN(const auto problem, ParseSearchSpec(study.spec()));
  study.set_fingerprint(SpecFingerprint(ToProto(problem)));
  if (!IsTime(study.create_time_s()) || !IsTime(study.end_time_s()))
    return Wrong("create_time_s or end_time_s", "is no Unix time");
  const v1::Counts& counts = study.counts();
  for (const std::int64_t count : {counts.enumerated(), counts.illegal(), counts.out_of_memory(),
                                   counts.predicted(), counts.evaluated(), counts.measured()}) {
    if (count < 0) return Wrong("counts", "has a negative number");
  }
  if (study.has_best()) {
    AUTOCFG_RETURN_IF_ERROR(ParsePlanText(study.best().plan_text()).status());
    if (study.best().has_measured()) {
      AUTOCFG_RETURN_IF_ERROR(CheckReported(&study.best().measured(), nullptr));
    }
  }
  for (const double seconds : {copy.usage.wall_s, copy.usage.plan_cpu_s, copy.usage.device_s}) {
    if (!(seconds >= 0 && seconds <= kMostUsedSeconds)) return Wrong("usage", "is no time");
  }
  if (!copy.calibration) return absl::OkStatus();
  if (copy.calibration->reused_ops < 0 ||
      copy.calibration->reused_ops > copy.calibration->result.ops_size()) {
    return Wrong("reused_ops", "is out of range");
  }
  AUTOCFG_RETURN_IF_ERROR(CheckFields(copy.calibration->result));
  return CheckReported(nullptr, &copy.calibration->result);
}

absl::Status CheckImportedTrial(const v1::Trial& trial) {
  AUTOCFG_RETURN_IF_ERROR(CheckFields(trial));
  AUTOCFG_ASSIGN_OR_RETURN(const auto name, ParseTrialName(trial.name()));
  if (name.number > kMostNumber) return Wrong("name", "has a number that is out of range");
  if (!IsEnd(trial.state())) return Wrong("state", "is no end state");
  AUTOCFG_RETURN_IF_ERROR(ParsePlanText(trial.plan_text()).status());
  if (trial.repeat() < 0 || trial.repeat() > kMostNumber) return Wrong("repeat", "is out of range");
  if (trial.attempts_size() > kMostAttempts) return Wrong("attempts", "has too many elements");
  bool measured = false;
  for (const v1::Attempt& attempt : trial.attempts()) {
    AUTOCFG_RETURN_IF_ERROR(CheckAttempt(attempt));
    measured = measured || attempt.state() == v1::TRIAL_STATE_MEASURED;
  }
  if (!trial.reused_from().empty()) {
    if (const auto source = ParseTrialName(trial.reused_from()); !source.ok())
      return Wrong("reused_from", "is no name of a trial");
    if (trial.attempts_size() > 0) return Wrong("reused_from", "is of a trial with attempts of its own");
    measured = true;
  }
  const bool says_so = trial.state() == v1::TRIAL_STATE_MEASURED;
  if (says_so != trial.has_measured() || (says_so && !measured))
    return Wrong("measured", "does not agree with the state and the attempts");
  return says_so ? CheckReported(&trial.measured(), nullptr) : absl::OkStatus();
}

}  // namespace autocfg::server
