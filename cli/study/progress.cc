#include "cli/study/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/report/report.h"
#include "cli/terminal/console.h"
#include "cli/terminal/drawing.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "proto/client/study_watcher.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

constexpr int kNarrowestBar = 10, kWidestBar = 50;  // columns
constexpr double kPercent = 100;

std::string CutColumns(std::string line, int width) {
  const auto most = static_cast<std::size_t>(std::max(width, 0));
  if (ColumnsOf(line) <= most) return line;
  const std::size_t left = most < 3 ? 0 : most - 3;
  std::size_t columns = 0, end = 0;
  while (end < line.size() && (columns < left || (line[end] & 0xC0) == 0x80)) {
    if ((line[end] & 0xC0) != 0x80) ++columns;
    ++end;
  }
  return line.substr(0, end) + std::string(most - left, '.');
}

// Returns how much of the phase is done, from 0 to 1; a negative number if unknown.
double ShareDone(const v1::Study& study, double elapsed_s, double budget_s) {
  if (study.calibration_ops() > 0 && study.phase() == "calibrating") {
    return static_cast<double>(study.calibration_ops_passed()) / static_cast<double>(study.calibration_ops());
  }
  const double whole_s = study.eta_s() > 0 ? elapsed_s + study.eta_s() : budget_s;
  return whole_s > 0 ? std::min(1.0, elapsed_s / whole_s) : -1;
}

// Returns the bar with `time` behind it, which takes the columns that it needs first; without a known share,
// the time alone.
std::string BarLine(double share, const std::string& time, const BarStyle& style) {
  if (share < 0) return "  " + time;
  const int width = std::clamp(style.columns - 12 - static_cast<int>(time.size()), kNarrowestBar, kWidestBar);
  return fmt::format("  [{}] {:3.0f}%  {}", Bar(share, 1, width, style), std::floor(kPercent * share), time);
}

// Returns the workers of the trial's last attempt, without "workers/".
std::string WorkersText(const v1::Trial& trial) {
  if (trial.attempts().empty()) return "a worker";
  const v1::Attempt& attempt = *trial.attempts().rbegin();
  std::string text;
  for (const std::string& worker : attempt.workers()) {
    text += text.empty() ? "" : ", ";
    text += worker.substr(worker.rfind('/') + 1);
  }
  return text.empty() ? attempt.worker().substr(attempt.worker().rfind('/') + 1) : text;
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
  const std::string predicted = base::CountText(counts.predicted());
  std::string text = fmt::format("study {}: {}  {}; ", LastPart(study.name()), PhaseText(study),
                                 TimeText(study, elapsed_s, budget_s));
  text += study.spec().predict_only()
              ? fmt::format("{} predicted", predicted)
              : fmt::format("measured {} of {}", base::CountText(counts.measured()), predicted);
  if (study.best().has_measured()) {
    text += fmt::format("; best so far {}  {}", MeasuredText(study.best().measured()),
                        WithShortSplit(study.best().plan_text()));
  }
  return text;
}

std::vector<std::string> ProgressLines(const v1::Study& study, const std::vector<v1::Trial>& running,
                                       double elapsed_s, double budget_s, const BarStyle& style) {
  const auto& counts = study.counts();
  std::vector<std::string> lines;
  const std::string round =
      study.round() > 0 ? fmt::format(", round {}", base::CountText(study.round())) : "";
  lines.push_back(fmt::format("study {}: {}{}", LastPart(study.name()), PhaseText(study), round));
  lines.push_back(
      BarLine(ShareDone(study, elapsed_s, budget_s), TimeText(study, elapsed_s, budget_s), style));
  lines.push_back(fmt::format("  enumerated {}, fit {}, measured {}", base::CountText(counts.enumerated()),
                              base::CountText(counts.predicted()), base::CountText(counts.measured())));
  lines.push_back(fmt::format("  rejected: {}", RejectedText(counts)));
  if (study.best().has_measured()) {
    lines.push_back(fmt::format("  best so far: {}  {}", MeasuredText(study.best().measured()),
                                WithShortSplit(study.best().plan_text())));
  } else {
    lines.emplace_back("  best so far: nothing measured yet");
  }
  for (std::size_t i = 0; i < std::min(running.size(), kMostShownTrials); ++i)
    lines.push_back(
        fmt::format("  {} on {}", WithShortSplit(running[i].plan_text()), WorkersText(running[i])));
  if (running.size() > kMostShownTrials)
    lines.push_back(fmt::format("  and {} more trials", running.size() - kMostShownTrials));
  if (!study.waiting().empty()) lines.push_back(fmt::format("  waiting: {}", study.waiting()));
  for (auto& line : lines) line = CutColumns(std::move(line), style.columns);
  return lines;
}

ProgressDisplay::ProgressDisplay(std::FILE* out, bool wanted)
    : out_(out), active_(wanted && CanDraw(fileno(out))), color_(WantsColor(fileno(out))) {}

ProgressDisplay::~ProgressDisplay() { Clear(); }

std::size_t ProgressDisplay::DrawnRows() const {
  const auto columns = static_cast<std::size_t>(Columns(fileno(out_))) + 1;  // one stays free
  std::size_t rows = 0;
  for (const std::string& line : drawn_)
    rows += 1 + (std::max<std::size_t>(ColumnsOf(line), 1) - 1) / columns;
  return rows;
}

void ProgressDisplay::Draw(const std::vector<std::string>& lines) {
  if (!active_ || (lines == drawn_)) return;
  std::string text = drawn_.empty() ? "" : fmt::format("\x1b[{}A\r", DrawnRows());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += color_ && i == 0 ? fmt::format("\x1b[1m{}\x1b[0m", lines[i]) : lines[i];
    text += "\x1b[K\n";  // erases what is left of the line before
  }
  if (!drawn_.empty()) text += "\x1b[J";  // erases the lines that the block had more
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
  drawn_ = lines;
}

void ProgressDisplay::Clear() { Draw({}); }

BarStyle ProgressDisplay::Style() const { return StyleOf(fileno(out_)); }

std::vector<std::string> WatchedLines(StudyWatcher& watcher, const v1::Study& study,
                                      const std::string& target, double elapsed_s, double budget_s,
                                      const BarStyle& style) {
  std::vector<std::string> lines = ProgressLines(study, watcher.Running(), elapsed_s, budget_s, style);
  if (watcher.Away())
    lines.push_back(CutColumns(fmt::format("  {} does not answer; waiting for it", target), style.columns));
  return lines;
}

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
