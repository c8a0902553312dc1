#include "cli/terminal/bars.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

// Uses the first of these variables that is set and not empty (POSIX, "Environment Variables").
bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text = value;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

BarStyle StyleOf(int fd) { return {Columns(fd), LocaleIsUtf8(), WantsColor(fd)}; }

std::string Bar(double value, double whole, int width, const BarStyle& style) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  std::string bar;
  std::size_t drawn = 0;
  if (whole > 0 && value > 0 && columns > 0) {
    static constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const double share = std::min(1.0, value / whole) * static_cast<double>(columns);
    const std::size_t parts = style.unicode ? 8 : 1;  // parts per column
    const auto filled =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(share * static_cast<double>(parts))));
    for (std::size_t i = 0; i < filled / parts; ++i) bar += style.unicode ? "█" : "#";
    drawn = filled / parts;
    if (filled % parts != 0) {
      bar += kEighths[filled % parts];
      ++drawn;
    }
  }
  return bar + std::string(columns - std::min(drawn, columns), ' ');
}

std::string Toned(std::string_view text, Tone tone, const BarStyle& style) {
  if (!style.color || tone == Tone::kPlain) return std::string(text);
  const int code = tone == Tone::kGood ? 32 : tone == Tone::kBad ? 31 : 1;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace autocfg::cli
