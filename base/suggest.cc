#include "base/suggest.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg::base {
namespace {

constexpr std::size_t kFew = 6;       // lists all names if none is near and there are at most this many
constexpr std::size_t kLongest = 64;  // longer names match nothing; also bounds the work

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
  if (given.size() <= kLongest) {
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
  if (names.empty()) return "";
  std::string list = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return fmt::format("; did you mean {}?", list);
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::string> near = NearNames(name, known);
  return near.empty() && known.size() <= kFew ? known : near;
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

}  // namespace autocfg::base
