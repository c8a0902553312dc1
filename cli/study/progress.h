// Shows the progress of a followed study: on a terminal as a block of lines redrawn in place, elsewhere as
// notes, one every few seconds. Use from one thread.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg::cli {

class StudyWatcher;  // cli/study/study_watcher.h

// Returns the progress in one line. `elapsed_s` and `budget_s` as below.
std::string ProgressText(const v1::Study& study, double elapsed_s, double budget_s);

// Returns the block's lines, each of at most `width` characters. `elapsed_s` counts from the start of the
// command; `budget_s` is 0 without a time budget.
std::vector<std::string> ProgressLines(const v1::Study& study, double elapsed_s, double budget_s, int width);

// The block on a terminal. Draws nothing elsewhere.
class ProgressDisplay {
 public:
  // Draws on `out` if it is a terminal with a movable cursor; in bold and dim if colour is wanted.
  explicit ProgressDisplay(std::FILE* out);
  ~ProgressDisplay();  // Clear()

  bool active() const { return active_; }
  void Draw(const std::vector<std::string>& lines);
  // Removes the block, so that the answer takes its place.
  void Clear();
  // Returns the terminal's columns; 80 if unknown.
  int Width() const;

 private:
  std::FILE* const out_;
  const bool active_;
  const bool color_;
  std::size_t drawn_ = 0;
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
