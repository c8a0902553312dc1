// Draws bars in a terminal: Unicode blocks if the encoding has them, otherwise '#'. Pure functions except
// StyleOf, which reads the environment. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace autocfg::cli {

struct BarStyle {
  int columns = 80;
  bool unicode = false;
  bool color = false;
};

// Returns the style for an output descriptor. Blocks require a UTF-8 locale; colour is decided by WantsColor
// (cli/terminal/console.h).
BarStyle StyleOf(int fd);

// Returns `value` out of `whole` as a bar of at most `width` columns, padded to `width`. A value above 0
// draws at least a sliver. A whole that is not positive draws nothing.
std::string Bar(double value, double whole, int width, const BarStyle& style);

enum class Tone { kPlain, kGood, kBad, kStrong };
// Returns the text in that tone if colour is on. Does not change the displayed width.
std::string Toned(std::string_view text, Tone tone, const BarStyle& style);

}  // namespace autocfg::cli
