#include "server/studies/study_states.h"

#include <utility>

#include "base/os/log_fields.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/store/turns/fair_share.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

absl::Status NotFrom(const v1::Study& study, const char* wanted, const char* advice) {
  return absl::FailedPreconditionError(
      fmt::format("{} is {} and cannot be {}; {}", study.name(), ShortName(study.state()), wanted, advice));
}

constexpr const char* kNewStudy = "create a new study";
constexpr const char* kNothingToStop = "it has ended, so there is nothing to stop";

absl::Status ToRunning(v1::Study& study, double /*now_s*/) {
  if (IsEnd(study.state())) return NotFrom(study, "started", kNewStudy);
  if (study.state() == v1::STUDY_STATE_PAUSED) study.clear_message();  // why it was paused
  study.set_state(v1::STUDY_STATE_RUNNING);
  return absl::OkStatus();
}

absl::Status ToPaused(v1::Study& study, double /*now_s*/) {
  if (IsEnd(study.state())) return NotFrom(study, "paused", kNothingToStop);
  study.set_state(v1::STUDY_STATE_PAUSED);
  study.set_eta_s(0);
  return absl::OkStatus();
}

absl::Status ToResumed(v1::Study& study, double /*now_s*/) {
  if (study.state() == v1::STUDY_STATE_RUNNING) return absl::OkStatus();
  if (study.state() != v1::STUDY_STATE_PAUSED)
    return NotFrom(study, "resumed", IsEnd(study.state()) ? kNewStudy : "start it");
  study.clear_message();  // why it was paused
  study.set_state(v1::STUDY_STATE_RUNNING);
  return absl::OkStatus();
}

absl::Status ToCancelled(v1::Study& study, double now_s) {
  if (study.state() == v1::STUDY_STATE_CANCELLED) return absl::OkStatus();
  if (IsEnd(study.state())) return NotFrom(study, "cancelled", kNothingToStop);
  study.set_state(v1::STUDY_STATE_CANCELLED);
  study.set_message("cancelled by the user");
  study.set_phase("done");
  study.set_eta_s(0);
  study.set_end_time_s(now_s);
  return absl::OkStatus();
}

constexpr std::string_view kUpdatable = "weight";
constexpr std::string_view kAllFields = "*";

// Returns whether the request changes the weight. InvalidArgument if its mask names another field.
absl::StatusOr<bool> ChangesWeight(const v1::UpdateStudyRequest& request) {
  if (request.update_mask().paths().empty()) return request.study().weight() != 0;
  for (const std::string& path : request.update_mask().paths()) {
    if (path == kUpdatable || path == kAllFields) continue;
    const std::string field = path.substr(0, path.find('.'));
    const bool known = v1::Study::descriptor()->FindFieldByName(field) != nullptr;
    return base::InvalidArgument(
        "update_mask", fmt::format("'{}' {}; give {}", base::Printable(path),
                                   known ? "cannot be changed" : "is no field of a study", kUpdatable));
  }
  return true;
}

}  // namespace

const StudyMove kStartStudy{"start", ToRunning};
const StudyMove kPauseStudy{"pause", ToPaused};
const StudyMove kResumeStudy{"resume", ToResumed};
const StudyMove kCancelStudy{"cancel", ToCancelled};

absl::Status CheckRequestId(const std::string& request_id) {
  constexpr std::size_t kMaxRequestId = 200;
  if (request_id.size() <= kMaxRequestId) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("request_id is longer than {} bytes; use a shorter one", kMaxRequestId));
}

void LogState(std::int64_t study, v1::StudyState state, const std::string& message) {
  const base::LogScope scope({.study = StudyName(study)});
  spdlog::info("{} is {}{}{}", StudyName(study), ShortName(state), message.empty() ? "" : ": ",
               base::OneLine(message));
}

absl::StatusOr<v1::Study> ChangeState(Store& store, const std::string& name, const std::string& request_id,
                                      double now_s, const StudyMove& move, const std::string& trace_parent) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(name));
  AUTOCFG_RETURN_IF_ERROR(CheckRequestId(request_id));
  StudyEdit extra;
  extra.request_id = request_id;
  extra.request_kind = move.request_kind;
  return store.ModifyStudy(
      id,
      [&](v1::Study& study) {
        const v1::StudyState before = study.state();
        AUTOCFG_RETURN_IF_ERROR(move.edit(study, now_s));
        const bool starts = study.state() == v1::STUDY_STATE_RUNNING && before != v1::STUDY_STATE_RUNNING;
        if (starts && !trace_parent.empty()) study.set_trace_parent(trace_parent);
        return absl::OkStatus();
      },
      extra);
}

absl::StatusOr<v1::Study> UpdateStudy(Store& store, const v1::UpdateStudyRequest& request) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(request.study().name()));
  AUTOCFG_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  AUTOCFG_ASSIGN_OR_RETURN(const auto changes_weight, ChangesWeight(request));
  if (!changes_weight) {
    return base::InvalidArgument("study",
                                 fmt::format("it sets no field that an update changes; give {}", kUpdatable));
  }
  const double weight = request.study().weight();
  AUTOCFG_RETURN_IF_ERROR(CheckWeight(weight));
  StudyEdit extra;
  extra.request_id = request.request_id();
  extra.request_kind = fmt::format("update weight={}", weight);  // another weight is another request
  extra.weight = weight;
  return store.ModifyStudy(
      id,
      [](const v1::Study& study) {
        return IsEnd(study.state()) ? NotFrom(study, "updated", kNewStudy) : absl::OkStatus();
      },
      extra);
}

absl::Status CheckHasPlans(const v1::Study& study) {
  if (study.state() != v1::STUDY_STATE_FAILED || !study.without_plans()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} failed before it had a plan: {}", study.name(), base::OneLine(study.message())));
}

}  // namespace autocfg::server
