// Shows a search's progress on a terminal, as a block of lines redrawn in place. Draws nothing elsewhere. Use
// from one thread.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg::cli {

// Returns the block's lines, each of at most `width` characters. `elapsed_s` counts from the start of the
// command; `budget_s` is 0 without a time budget.
std::vector<std::string> ProgressLines(const v1::Study& study, double elapsed_s, double budget_s, int width);

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

}  // namespace autocfg::cli
