// Shows the progress of a followed study: on a terminal as a block of lines redrawn in place, elsewhere as
// notes, one every few seconds. Use from one thread.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "cli/terminal/drawing.h"

namespace autocfg {

class StudyWatcher;  // proto/client/study_watcher.h

}  // namespace autocfg

namespace autocfg::cli {

// Returns the progress in one line. `elapsed_s` and `budget_s` as below.
std::string ProgressText(const v1::Study& study, double elapsed_s, double budget_s);

// Most running trials that the block names.
inline constexpr std::size_t kMostShownTrials = 6;

// Returns the block's lines, each of at most `style.columns` columns: phase and round; a bar, of ops while
// calibrating, else of time, with the times; counts; the best plan so far; and where each trial runs.
// `running`: the trials that run. `elapsed_s` counts from the start of the command; `budget_s` is 0 without a
// time budget.
std::vector<std::string> ProgressLines(const v1::Study& study, const std::vector<v1::Trial>& running,
                                       double elapsed_s, double budget_s, const BarStyle& style);

// Returns the block of a watched study: with a last line while the coordinator at `target` does not answer.
std::vector<std::string> WatchedLines(StudyWatcher& watcher, const v1::Study& study,
                                      const std::string& target, double elapsed_s, double budget_s,
                                      const BarStyle& style);

// The block on a terminal. Draws nothing elsewhere. Each drawing is one write that replaces the lines in
// place, without clearing them first, so that nothing flickers.
class ProgressDisplay {
 public:
  // Draws on `out` if `wanted`, and it is a terminal with a movable cursor; in bold if colour is wanted.
  explicit ProgressDisplay(std::FILE* out, bool wanted = true);
  ~ProgressDisplay();  // Clear()

  bool active() const { return active_; }
  void Draw(const std::vector<std::string>& lines);
  // Removes the block, so that the answer takes its place.
  void Clear();
  // Returns how to draw on the terminal: at most 80 columns.
  BarStyle Style() const;

 private:
  // Returns the rows that the block takes now: the terminal may have become narrower.
  std::size_t DrawnRows() const;

  std::FILE* const out_;
  const bool active_;
  const bool color_;
  std::vector<std::string> drawn_;
};

// Prints a note for each change in what keeps the study from progressing. For use where no block is drawn.
class WatchNotes {
 public:
  // `target`: the address of the coordinator.
  explicit WatchNotes(std::string target) : target_(std::move(target)) {}
  // Reports why the study's work waits, that it is paused, or that the coordinator does not answer or rejects
  // the stream.
  void Say(StudyWatcher& watcher);

 private:
  const std::string target_;
  std::string waiting_;
  std::string refused_;
  bool away_ = false;
  bool paused_ = false;
};

}  // namespace autocfg::cli
