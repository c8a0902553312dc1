// What a verb draws on a terminal: the width, cursor and colours that the terminal offers, and bars. Uses
// Unicode blocks if the encoding has them, otherwise '#'. Thread-safe unless the environment changes
// concurrently.
#pragma once

#include <string>
#include <string_view>

namespace autocfg::cli {

// Returns the usable width: the terminal's columns minus one, or 80 if `fd` is not a terminal or its width is
// unknown.
int Columns(int fd);

// Returns true if `fd` is a terminal whose cursor can be moved: TERM is set and not "dumb".
bool CanDraw(int fd);
// Returns true if CanDraw(fd) and NO_COLOR is not set (no-color.org).
bool WantsColor(int fd);

struct BarStyle {
  int columns = 80;
  bool unicode = false;
  bool color = false;
};

// Returns the style for an output descriptor: at most kLineColumns (layout.h). Blocks require a UTF-8 locale;
// colour is decided by WantsColor.
BarStyle StyleOf(int fd);

// Returns `value` out of `whole` as a bar of at most `width` columns, padded to `width`. A value above 0
// draws at least a sliver. A whole that is not positive draws nothing.
std::string Bar(double value, double whole, int width, const BarStyle& style);

enum class Tone { kPlain, kGood, kBad, kStrong };
// Returns the text in that tone if colour is on. Does not change the displayed width.
std::string Toned(std::string_view text, Tone tone, const BarStyle& style);

}  // namespace autocfg::cli
