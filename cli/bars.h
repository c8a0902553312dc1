// Bars in a terminal: blocks where its encoding has them, else '#'. Pure functions but for StyleOf, which
// reads the environment; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace autocfg {

struct BarStyle {
  int columns = 80;
  bool unicode = false;
  bool color = false;
};

// Of a descriptor that is written to: blocks where the locale's encoding is UTF-8, colour as WantsColor
// (cli/console.h).
BarStyle StyleOf(int fd);

// `value` out of `whole` as a bar of at most `width` columns, padded to that many; a value above 0 shows at
// least a sliver. A whole that is not positive draws nothing.
std::string Bar(double value, double whole, int width, const BarStyle& style);

enum class Tone { kPlain, kGood, kBad, kStrong };
// The text in that tone where there is colour. Does not change its width.
std::string Toned(std::string_view text, Tone tone, const BarStyle& style);

}  // namespace autocfg
