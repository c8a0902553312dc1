#include "search/space/axis_ranges.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/numbers.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg {
namespace {

constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

struct Range {
  std::int64_t least = 0;
  std::int64_t most = kNoBound;
  bool alone = false;  // a bound: other values beside it would contradict it
};

absl::Status BadRange(std::string_view problem) {
  return base::SubjectError(absl::StatusCode::kInvalidArgument, "space", problem);
}

bool IsBound(std::string_view value) { return value.starts_with('<') || value.starts_with('>'); }

// "tp=1-4", but "tp<=4".
std::string Assigned(const PlanOption& option, std::string_view value) {
  return fmt::format("{}{}{}", option.name, IsBound(value) ? "" : "=", base::Printable(value));
}

std::optional<std::int64_t> ParseDigits(std::string_view text) {
  return base::ParseNumber<std::int64_t>(text, 0, (std::int64_t{1} << 31) - 1);
}

std::optional<Range> ParseRange(std::string_view value) {
  if (IsBound(value)) {
    const bool below = value.front() == '<';
    const bool inclusive = value.substr(1).starts_with('=');
    const std::optional<std::int64_t> bound = ParseDigits(value.substr(inclusive ? 2 : 1));
    if (!bound) return std::nullopt;
    if (below) return Range{.most = *bound - (inclusive ? 0 : 1), .alone = true};
    return Range{.least = *bound + (inclusive ? 0 : 1), .alone = true};
  }
  const std::size_t dash = value.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto least = ParseDigits(value.substr(0, dash)), most = ParseDigits(value.substr(dash + 1));
  if (!least || !most) return std::nullopt;
  return Range{.least = *least, .most = *most};
}

// Returns the values of the option that a range may hold, ascending.
std::vector<std::int64_t> NumbersOf(const PlanOption& option, const std::vector<std::int64_t>& sizes) {
  if (option.form == OptionForm::kSize) return sizes;
  std::vector<std::int64_t> numbers;
  for (const std::string_view choice : option.choices) {
    if (const auto number = ParseDigits(choice); number) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool TakesNumbers(const PlanOption& option) {
  return option.form == OptionForm::kSize || option.form == OptionForm::kNumber ||
         option.form == OptionForm::kFlag;
}

}  // namespace

bool IsRange(const PlanOption& option, std::string_view value) {
  if (IsBound(value)) return true;
  if (!TakesNumbers(option)) return option.name == "recompute" && value == kEveryFull;
  // A number below 0 is no range: the option refuses it.
  return value.find('-', 1) != std::string_view::npos;
}

absl::StatusOr<std::vector<std::string>> ExpandRanges(const PlanOption& option,
                                                      const std::vector<std::string>& values,
                                                      const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> expanded;
  for (const std::string& value : values) {
    if (!IsRange(option, value) || value == kEveryFull) {
      expanded.push_back(value);
      continue;
    }
    if (!TakesNumbers(option)) {
      return BadRange(
          fmt::format("{}: {} takes no bound, since its values are not numbers; list them, as in "
                      "{}={}",
                      Assigned(option, value), option.name, option.name,
                      fmt::join(option.choices.first(std::min<std::size_t>(2, option.choices.size())), ",")));
    }
    const std::optional<Range> range = ParseRange(value);
    if (!range) {
      return BadRange(fmt::format("{} is not a range of whole numbers; write {}=1-4, {}<=4 or {}>=2",
                                  Assigned(option, value), option.name, option.name, option.name));
    }
    if (range->alone && values.size() > 1) {
      return BadRange(
          fmt::format("{} is a bound beside other values; write one range, as in {}=2-4, or list "
                      "the values",
                      Assigned(option, value), option.name));
    }
    if (range->least > range->most && !range->alone) {
      return BadRange(fmt::format("{} holds no value; write the smaller number first, as in {}={}-{}",
                                  Assigned(option, value), option.name, range->most, range->least));
    }
    const std::vector<std::int64_t> numbers = NumbersOf(option, sizes);
    const std::size_t before = expanded.size();
    for (const std::int64_t number : numbers) {
      if (range->least <= number && number <= range->most) expanded.push_back(fmt::to_string(number));
    }
    if (expanded.size() == before) {
      constexpr std::size_t kShown = 12;
      const std::vector<std::int64_t> shown(numbers.begin(),
                                            numbers.begin() + std::min(kShown, numbers.size()));
      return BadRange(fmt::format("{} holds no value; {} takes {}{} here", Assigned(option, value),
                                  option.name, fmt::join(shown, ", "),
                                  numbers.size() > kShown ? ", ..." : ""));
    }
  }
  return expanded;
}

std::string RangeText(const PlanOption& option, const std::vector<std::string>& given,
                      const std::vector<std::string>& values) {
  std::vector<std::string> read;
  read.reserve(values.size());
  for (const std::string& value : values)
    read.push_back(value == kEveryFull ? "full:1,full:2,...,full" : value);
  return fmt::format("{} is {}={}", Assigned(option, fmt::format("{}", fmt::join(given, ","))), option.name,
                     fmt::join(read, ","));
}

}  // namespace autocfg
