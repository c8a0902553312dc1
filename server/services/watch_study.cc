#include "server/services/watch_study.h"

#include <algorithm>

#include "fmt/format.h"

namespace autocfg::server {
namespace {

constexpr int kTrialsPerEvent = 100;
// Longest time until a departed caller is noticed.
constexpr absl::Duration kLook = absl::Milliseconds(200);

}  // namespace

absl::Status Watch(Store& store, Notifier& notifier, std::int64_t study, std::int64_t resume_cursor,
                   const Watcher& watcher) {
  const absl::Status closing = absl::UnavailableError("the coordinator is shutting down: watch again later");
  if (notifier.closed()) return closing;
  const auto newest = store.ChangeCursor(study);
  if (!newest.ok()) return newest.status();
  if (resume_cursor < 0 || resume_cursor > *newest) {
    return absl::InvalidArgumentError(fmt::format(
        "resume_cursor is {}; it must be 0 or the cursor of one of this study's events", resume_cursor));
  }
  std::int64_t cursor = resume_cursor;
  std::string waiting;  // last value sent
  // A coordinator that shuts down may itself break the stream.
  const auto gone = [&] { return notifier.closed() ? closing : absl::CancelledError("the watcher is gone"); };
  while (true) {
    const std::uint64_t version = notifier.Version();
    if (watcher.gone()) return gone();
    auto changes = store.ChangesAfter(study, cursor, kTrialsPerEvent);
    if (!changes.ok()) return changes.status();
    if (changes->study.state() == v1::STUDY_STATE_RUNNING) changes->study.set_waiting(watcher.waiting());
    for (auto& [change, trial] : changes->trials) {
      v1::StudyEvent event;
      event.set_cursor(change);
      *event.mutable_study() = changes->study;
      *event.mutable_trial() = std::move(trial);
      if (!watcher.send(event)) return gone();
      cursor = change;
    }
    if (changes->trials.size() == kTrialsPerEvent) continue;
    if (changes->cursor > cursor || changes->study.waiting() != waiting) {
      v1::StudyEvent event;
      event.set_cursor(changes->cursor);
      *event.mutable_study() = changes->study;
      if (!watcher.send(event)) return gone();
      cursor = changes->cursor;
      waiting = changes->study.waiting();
    }
    if (IsEnd(changes->study.state())) return absl::OkStatus();
    if (absl::Status status = watcher.error(); !status.ok()) return status;
    if (notifier.closed()) return closing;
    while (notifier.Version() == version && !notifier.closed()) {
      notifier.Wait(version, kLook);
      if (watcher.gone()) return gone();
    }
  }
}

}  // namespace autocfg::server
