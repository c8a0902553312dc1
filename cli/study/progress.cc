#include "cli/study/progress.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cli/client/study_client.h"
#include "cli/report/report.h"
#include "cli/study/study_watcher.h"
#include "cli/terminal/console.h"
#include "cli/terminal/drawing.h"
#include "fmt/format.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

std::string Cut(std::string line, int width) {
  if (static_cast<int>(line.size()) <= width) return line;
  line.resize(static_cast<std::size_t>(std::max(width - 3, 0)));
  return line + "...";
}

std::string RejectedText(const v1::Counts& counts) {
  std::vector<std::pair<std::int64_t, std::string>> reasons;
  for (const auto& [reason, count] : counts.rejected()) reasons.emplace_back(-count, reason);
  std::sort(reasons.begin(), reasons.end());
  std::string text;
  for (const auto& [count, reason] : reasons)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", reason, base::CountText(-count));
  return text.empty() ? "none" : text;
}

std::string PhaseText(const v1::Study& study) {
  if (study.phase().empty()) return "starting";
  if (study.phase() != "calibrating" || study.calibration_ops() == 0) return study.phase();
  return fmt::format("calibrating, {} of {} ops", base::CountText(study.calibration_ops_passed()),
                     base::CountText(study.calibration_ops()));
}

// Returns the time so far, the time left, and the budget.
std::string TimeText(const v1::Study& study, double elapsed_s, double budget_s) {
  std::string time = base::SecondsText(elapsed_s);
  if (study.eta_s() > 0) {
    time += fmt::format(", about {} left (predicted)", base::SecondsText(study.eta_s()));
  } else if (budget_s > 0) {
    time += fmt::format(", at most {} left", base::SecondsText(std::max(0.0, budget_s - elapsed_s)));
  } else {
    time += ", time left unknown";
  }
  if (budget_s > 0) time += fmt::format(", budget {}", base::SecondsText(budget_s));
  return time;
}

}  // namespace

std::string ProgressText(const v1::Study& study, double elapsed_s, double budget_s) {
  const auto& counts = study.counts();
  std::string text = fmt::format("study {}: {}  {}; measured {} of {}", LastPart(study.name()),
                                 PhaseText(study), TimeText(study, elapsed_s, budget_s),
                                 base::CountText(counts.measured()), base::CountText(counts.predicted()));
  if (study.best().has_measured()) {
    text += fmt::format("; best so far {}  {}", MeasuredText(study.best().measured()),
                        WithShortSplit(study.best().plan_text()));
  }
  return text;
}

std::vector<std::string> ProgressLines(const v1::Study& study, double elapsed_s, double budget_s, int width) {
  const auto& counts = study.counts();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("study {}: {}  {}", LastPart(study.name()), PhaseText(study),
                              TimeText(study, elapsed_s, budget_s)));
  lines.push_back(fmt::format("  enumerated {}, fit {}, measured {}", base::CountText(counts.enumerated()),
                              base::CountText(counts.predicted()), base::CountText(counts.measured())));
  lines.push_back(fmt::format("  rejected: {}", RejectedText(counts)));
  if (study.best().has_measured()) {
    lines.push_back(fmt::format("  best so far: {}  {}", MeasuredText(study.best().measured()),
                                WithShortSplit(study.best().plan_text())));
  } else {
    lines.emplace_back("  best so far: nothing measured yet");
  }
  if (!study.waiting().empty()) lines.push_back(fmt::format("  waiting: {}", study.waiting()));
  for (auto& line : lines) line = Cut(std::move(line), width);
  return lines;
}

ProgressDisplay::ProgressDisplay(std::FILE* out)
    : out_(out), active_(CanDraw(fileno(out))), color_(WantsColor(fileno(out))) {}

ProgressDisplay::~ProgressDisplay() { Clear(); }

void ProgressDisplay::Draw(const std::vector<std::string>& lines) {
  if (!active_) return;
  std::string text = drawn_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", drawn_) : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += color_ && i == 0 ? fmt::format("\x1b[1m{}\x1b[0m\n", lines[i]) : lines[i] + "\n";
  }
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
  drawn_ = lines.size();
}

void ProgressDisplay::Clear() {
  if (drawn_ == 0) return;
  Draw({});
  drawn_ = 0;
}

int ProgressDisplay::Width() const { return Columns(fileno(out_)); }

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
