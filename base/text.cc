#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg::base {
namespace {

constexpr std::size_t kMaxPrintable = 60;

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

// Returns the length in bytes of the character that starts here, 0 if it is not valid.
std::size_t CharacterAt(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return first == '\t' || first == '\n' || (first >= 0x20 && first != 0x7F) ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  std::uint32_t code = first & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!Continues(bytes[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3Fu);
  }
  const bool too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return too_long || surrogate || code > 0x10FFFF ? 0 : length;
}

// Returns the length in bytes of the visible UTF-8 character that starts `text`; 0 if it starts with a
// control character, a direction mark, a joiner or invalid UTF-8. Requires a non-empty text.
std::size_t LetterBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= ' ' && first <= '~' ? 1 : 0;
  const std::size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  std::uint32_t letter = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    letter = letter << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};  // by bytes
  const auto within = [&](std::uint32_t low, std::uint32_t high) { return low <= letter && letter <= high; };
  if (letter < kLeast[bytes] || letter > 0x10FFFF || within(0xD800, 0xDFFF)) return 0;
  const bool unseen = within(0x80, 0x9F) || within(0x200B, 0x200F) || within(0x2028, 0x202E) ||
                      within(0x2060, 0x206F) || letter == 0xFEFF || within(0xFFF0, 0xFFFB) ||
                      within(0xE0000, 0xE0FFF);
  return unseen ? 0 : bytes;
}

constexpr std::size_t kFewNames = 6;      // lists all names if none is near and there are at most this many
constexpr std::size_t kLongestName = 64;  // longer names match nothing; also bounds the work

// Returns the Levenshtein distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// Returns the name in lower case, without hyphens, underscores and blanks.
std::string Bare(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (std::string_view("-_ ").find(c) == std::string_view::npos) bare += absl::ascii_tolower(c);
  }
  return bare;
}

// Returns at most three names, nearest first; empty if none is near.
std::vector<std::string> NearNames(std::string_view given, const std::vector<std::string>& known) {
  std::vector<std::pair<std::size_t, std::string>> near;
  if (given.size() <= kLongestName) {
    const std::string name = Bare(given);
    for (const std::string& candidate : known) {
      const std::string other = Bare(candidate);
      const std::size_t distance = EditDistance(name, other);
      const bool begins = !name.empty() && other.starts_with(name);
      if (begins || distance * 2 <= name.size()) near.emplace_back(begins ? 0 : distance, candidate);
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, near.size()); ++i) names.push_back(near[i].second);
  return names;
}

std::string Question(const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; did you mean {}?", ChoiceText(names));
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  std::size_t i = 0;
  while (i < text.size() && i < kMaxPrintable) {
    const std::size_t letter = LetterBytes(text.substr(i));
    if (letter > 0) {
      shown += text.substr(i, letter);
      i += letter;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
    }
  }
  if (i < text.size()) shown += "...";
  return shown;
}

std::string Cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && Continues(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string OneLine(std::string_view text, std::size_t most) {
  std::string line;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (!control) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return Cut(line, most);
}

std::string CleanUtf8(std::string_view bytes, std::size_t most) {
  if (bytes.size() > most) {
    bytes.remove_prefix(bytes.size() - most);
    while (!bytes.empty() && Continues(bytes[0])) bytes.remove_prefix(1);  // rest of a truncated character
  }
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = CharacterAt(bytes);
    if (length == 0) {
      text += '?';
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::string> near = NearNames(name, known);
  return near.empty() && known.size() <= kFewNames ? known : near;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& known) {
  return Question(NearestNames(name, known));
}

std::string DidYouMeanPreset(std::string_view name, const std::vector<std::string>& presets) {
  std::string near = Question(NearNames(name, presets));
  if (!near.empty()) return near;
  return fmt::format("; give one of {}, or a file whose name ends in .json", fmt::join(presets, ", "));
}

std::string DidYouMeanOfListed(std::string_view name, const std::vector<std::string>& known) {
  return Question(NearNames(name, known));
}

std::string ChoiceText(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string list = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return list;
}

std::string BytesText(std::int64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const double magnitude = std::abs(static_cast<double>(bytes));
  if (magnitude < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 and above would print as 1024.0 of the smaller unit.
  while (std::abs(value) >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return fmt::format("-{}", SecondsText(-seconds));
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 0.9995e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e15) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string CountText(std::int64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool leads = i == 0 || digits[i - 1] == '-';
    if (!leads && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace autocfg::base
