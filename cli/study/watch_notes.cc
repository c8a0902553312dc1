#include "cli/study/watch_notes.h"

#include <utility>

#include "cli/client/study_client.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {

void WatchNotes::Say(StudyWatcher& watcher) {
  const v1::Study study = watcher.Latest();
  if (const bool away = watcher.Away(); away != away_) {
    away_ = away;
    Note(away ? fmt::format("{} does not answer; waiting for it", target_)
              : fmt::format("{} answers again", target_));
  }
  if (std::string refused = watcher.Refused(); refused != refused_) {
    refused_ = std::move(refused);
    if (!refused_.empty())
      Note(fmt::format("study {} is polled once a second, since its stream is rejected: {}",
                       LastPart(study.name()), refused_));
  }
  if (study.waiting() != waiting_) {
    waiting_ = study.waiting();
    if (!waiting_.empty()) Note(fmt::format("waiting: {}", waiting_));
  }
  const bool paused = study.state() == v1::STUDY_STATE_PAUSED;
  if (paused != paused_) {
    paused_ = paused;
    const std::string why = study.message().empty() ? "" : ": " + study.message();
    Note(paused ? fmt::format("study {} is paused{}", LastPart(study.name()), why)
                : fmt::format("study {} continues", LastPart(study.name())));
  }
}

}  // namespace autocfg::cli
