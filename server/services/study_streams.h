// The streams of StudyService, WatchStudy and Predict, apart from gRPC. Thread-safe if each thread has its
// own cache of predictors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/predict/predict_plan.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"

namespace autocfg::server {

struct Watcher {
  std::function<bool(const v1::StudyEvent&)> send;  // false: the caller is gone
  std::function<bool()> gone;
  std::function<absl::Status()> error;   // why a RUNNING study makes no progress
  std::function<std::string()> waiting;  // why its work waits (Study.waiting); the notifier signals changes
  std::function<absl::Status()> admitted = [] { return absl::OkStatus(); };  // an error ends the stream
};

// Sends the changes after `resume_cursor` (0: all), then each change as it happens, until the study has ended
// and all changes are sent. An event contains the current study and, if a trial changed, that trial; its
// cursor can be resumed from. If only `waiting` changed, the event repeats the previous cursor. Returns
// Unavailable when the notifier is closed.
absl::Status Watch(Store& store, Notifier& notifier, std::int64_t study, std::int64_t resume_cursor,
                   const Watcher& watcher);

// Answers one request of Predict, as `autocfg predict --requests` does: its ID with a prediction or an error.
// A request of more than 1 MiB is an error, returned without its ID if that is long.
v1::PredictResponse AnswerPrediction(const v1::PredictRequest& request, PredictorCache& predictors);

}  // namespace autocfg::server
