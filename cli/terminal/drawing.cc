#include "cli/terminal/drawing.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

// Uses the first of these variables that is set and not empty (POSIX, "Environment Variables").
bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string text = absl::AsciiStrToLower(value);
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

int Columns(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col - 1;
}

bool CanDraw(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

bool WantsColor(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return CanDraw(fd) && (no_color == nullptr || *no_color == '\0');
}

BarStyle StyleOf(int fd) {
  return {std::min(Columns(fd), static_cast<int>(kLineColumns)), LocaleIsUtf8(), WantsColor(fd)};
}

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
