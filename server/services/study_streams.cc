#include "server/services/study_streams.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/workload.h"
#include "search/question/prediction_question.h"

namespace autocfg::server {
namespace {

// Trials that a watcher reads at once.
constexpr int kWatchedTrials = 100;
constexpr std::size_t kWatchedBytes = std::size_t{4} << 20;
// Time until a departed caller is noticed: at first short, so that callers who leave at once do not add up to
// the limit of streams; doubled with each look, since many streams stay.
constexpr std::chrono::milliseconds kFirstLook{2};
constexpr std::chrono::milliseconds kLongestLook{200};

constexpr std::size_t kMostRequestBytes = std::size_t{1} << 20;
constexpr std::size_t kMostIdBytes = 1000;  // limit for an ID echoed in the error for an oversized request

// Also returns the notes of the question.
absl::StatusOr<PlanPrediction> AnswerRequest(const v1::PredictRequest& message, PredictorCache& predictors,
                                             std::vector<std::string>& notes) {
  for (const auto& [there, field] :
       {std::pair(message.has_model(), "model"), std::pair(message.has_cluster(), "cluster"),
        std::pair(message.has_workload(), "workload"), std::pair(message.has_plan(), "plan")}) {
    if (!there) return absl::InvalidArgumentError(fmt::format("request: {} is missing", field));
  }
  QuestionParts parts;
  AUTOCFG_ASSIGN_OR_RETURN(parts.model, FromProto(message.model()));
  if (message.cluster().local() && message.cluster().groups().empty()) {
    return base::InvalidArgument(
        "cluster", "local is for searches, which measure; a prediction needs its device and node count");
  }
  AUTOCFG_ASSIGN_OR_RETURN(parts.cluster, FromProto(message.cluster()));
  if (message.workload().seq_len() < 0)
    return base::InvalidArgument(
        "workload", fmt::format("seq_len is {}; it must not be negative", message.workload().seq_len()));
  parts.global_batch = message.workload().global_batch();
  parts.seq_len = message.workload().seq_len();
  parts.precision = message.workload().precision();
  parts.optimizer = message.workload().optimizer().name();
  parts.momentum = message.workload().optimizer().momentum();
  AUTOCFG_ASSIGN_OR_RETURN(parts.plan, FromProto(message.plan()));
  if (message.has_memory_margin()) parts.memory_margin = message.memory_margin();
  AUTOCFG_ASSIGN_OR_RETURN(const auto question, MakePredictionQuestion(std::move(parts)));
  notes = question.notes;
  return Answer(question, predictors);
}

// Converts exceptions (our own bugs) to an error answer, so that the other requests continue.
absl::StatusOr<PlanPrediction> AnswerSafely(const v1::PredictRequest& message, PredictorCache& predictors,
                                            std::vector<std::string>& notes) {
  try {
    return AnswerRequest(message, predictors, notes);
  } catch (const std::exception& error) {
    return absl::InternalError(fmt::format("internal error: {}; please report it", error.what()));
  }
}

}  // namespace

absl::Status Watch(Store& store, Notifier& notifier, std::int64_t study, std::int64_t resume_cursor,
                   const Watcher& watcher) {
  absl::Status closing = absl::UnavailableError("the coordinator is shutting down; watch again later");
  if (notifier.closed()) return closing;
  AUTOCFG_ASSIGN_OR_RETURN(const auto newest, store.ChangeCursor(study));
  if (resume_cursor < 0 || resume_cursor > newest) {
    return absl::InvalidArgumentError(fmt::format(
        "resume_cursor is {}; it must be 0 or the cursor of one of this study's events", resume_cursor));
  }
  std::int64_t cursor = resume_cursor;
  std::string waiting;  // last value sent
  // A coordinator that shuts down may itself break the stream.
  const auto gone = [&] { return notifier.closed() ? closing : absl::CancelledError("the watcher is gone"); };
  Notifier::Subscription changed(notifier, study);
  std::chrono::milliseconds look = kFirstLook;
  while (true) {
    const std::uint64_t version = changed.Version();
    if (watcher.gone()) return gone();
    AUTOCFG_RETURN_IF_ERROR(watcher.admitted());
    AUTOCFG_ASSIGN_OR_RETURN(auto changes,
                             store.ChangesAfter(study, cursor, {kWatchedTrials, kWatchedBytes}));
    if (changes.study.state() == v1::STUDY_STATE_RUNNING) changes.study.set_waiting(watcher.waiting());
    for (auto& [change, trial] : changes.trials) {
      v1::StudyEvent event;
      event.set_cursor(change);
      *event.mutable_study() = changes.study;
      *event.mutable_trial() = std::move(trial);
      if (!watcher.send(event)) return gone();
      cursor = change;
    }
    if (changes.more) continue;
    if (changes.cursor > cursor || changes.study.waiting() != waiting) {
      v1::StudyEvent event;
      event.set_cursor(changes.cursor);
      *event.mutable_study() = changes.study;
      if (!watcher.send(event)) return gone();
      cursor = changes.cursor;
      waiting = changes.study.waiting();
    }
    if (IsEnd(changes.study.state())) return absl::OkStatus();
    AUTOCFG_RETURN_IF_ERROR(watcher.error());
    if (notifier.closed()) return closing;
    while (changed.Version() == version && !notifier.closed()) {
      changed.Wait(version, look);
      look = std::min(2 * look, kLongestLook);
      if (watcher.gone()) return gone();
      AUTOCFG_RETURN_IF_ERROR(watcher.admitted());
      // A worker that is gone is no change of the study until its lease has run out.
      if (changes.study.state() == v1::STUDY_STATE_RUNNING && watcher.waiting() != waiting) break;
    }
  }
}

v1::PredictResponse AnswerPrediction(const v1::PredictRequest& request, PredictorCache& predictors) {
  v1::PredictResponse response;
  if (request.ByteSizeLong() > kMostRequestBytes) {
    if (request.id().size() <= kMostIdBytes) response.set_id(request.id());
    response.set_error(fmt::format("request: it is longer than {} bytes; shorten it", kMostRequestBytes));
    return response;
  }
  response.set_id(request.id());
  std::vector<std::string> notes;
  const auto predicted = AnswerSafely(request, predictors, notes);
  if (predicted.ok()) {
    *response.mutable_prediction() = ToProto(predicted->prediction);
    response.mutable_notes()->Assign(notes.begin(), notes.end());
  } else {
    response.set_error(std::string(predicted.status().message()));
  }
  return response;
}

}  // namespace autocfg::server
