// A search's progress on a terminal: a block of lines, drawn over itself. Nothing anywhere else. Use from one
// thread.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg {

// The block: at most `width` characters a line; `elapsed_s` since the command began, `budget_s` = 0 without a
// time budget.
std::vector<std::string> ProgressLines(const v1::Study& study, double elapsed_s, double budget_s, int width);

class ProgressDisplay {
 public:
  // Draws on `out` where it is a terminal that can move its cursor; in bold and dim where colour is wanted.
  explicit ProgressDisplay(std::FILE* out);
  ~ProgressDisplay();  // Clear()

  bool active() const { return active_; }
  void Draw(const std::vector<std::string>& lines);
  // Removes the block, so that the answer stands where it was.
  void Clear();
  // Columns of the terminal; 80 where it does not say.
  int Width() const;

 private:
  std::FILE* const out_;
  const bool active_;
  const bool color_;
  std::size_t drawn_ = 0;
};

}  // namespace autocfg
