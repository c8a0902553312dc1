#include "worker/engines/log_reader.h"

#include <algorithm>
#include <cmath>

#include "base/numbers.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace autocfg::worker {
namespace {

constexpr std::size_t kShownLine = 500;  // bytes of a line in a message
constexpr double kLargestMemory = 1e15;
constexpr double kLargestStep = 1e15;  // its number
// Times that a coordinator takes.
constexpr double kShortestTime = 1e-9;
constexpr double kLongestTime = 1e6;

// Returns the line without the codes that set colours: ESC [ ... letter.
std::string WithoutColours(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    if (i + 1 >= line.size() || line[i + 1] != '[') continue;
    for (i += 2; i < line.size() && (line[i] < '@' || line[i] > '~');) ++i;
  }
  return plain;
}

// Returns a finite number, which may have commas between its digits.
std::optional<double> NumberIn(std::string_view text) {
  std::string digits(text);
  digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
  std::string_view rest = digits;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  return base::ParseNumber<double>(rest);
}

// Returns the number at the field of a line of JSON.
std::optional<double> FieldOf(const std::string& line, const std::vector<std::string>& field) {
  const nlohmann::json json =
      nlohmann::json::parse(line, /*cb=*/nullptr, /*allow_exceptions=*/false);  // of at most kLongestLine
  if (json.is_discarded()) return std::nullopt;
  const nlohmann::json* value = &json;
  for (const std::string& name : field) {
    if (!value->is_object()) return std::nullopt;
    const auto found = value->find(name);
    if (found == value->end()) return std::nullopt;
    value = &*found;
  }
  if (!value->is_number()) return std::nullopt;
  const auto number = value->get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::string Shown(std::string_view line) {
  return base::OneLine(base::CleanUtf8(line.substr(0, LogReader::kLongestLine), LogReader::kLongestLine),
                       kShownLine);
}

// Keeps the group of the pattern, or the line, if the line matches. Returns whether it does.
bool Keep(const Pattern& pattern, const std::string& line, std::string& kept) {
  if (pattern == nullptr) return false;
  std::string group;
  const bool matches = pattern->NumberOfCapturingGroups() == 0 ? RE2::PartialMatch(line, *pattern)
                                                               : RE2::PartialMatch(line, *pattern, &group);
  if (matches) kept = Shown(group.empty() ? line : group);
  return matches;
}

}  // namespace

void LogReader::Add(std::string_view bytes) {
  bytes_ += bytes.size();
  tail_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kTailBytes)));
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    line_.append(part.substr(0, kLongestLine - std::min(kLongestLine, line_.size())));
    if (end == std::string_view::npos) return;
    TakeLine();
    bytes.remove_prefix(end + 1);
  }
}

void LogReader::Finish() { TakeLine(); }

void LogReader::TakeLine() {
  if (line_.empty()) return;
  const std::string line = WithoutColours(line_);
  line_.clear();
  TakeNumbers(line);
  Keep(rules_.out_of_memory, line, out_of_memory_);
  if (!Keep(rules_.peer_lost, line, peer_lost_)) Keep(rules_.failure, line, failure_);
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (std::any_of(line.begin(), line.end(), is_letter)) last_line_ = Shown(line);
}

std::optional<double> LogReader::Find(const NumberRule& rule, const std::string& line) const {
  std::optional<double> number;
  if (rule.pattern == nullptr) {
    number = FieldOf(line, rule.field);
  } else if (std::string text; RE2::PartialMatch(line, *rule.pattern, &text)) {
    number = NumberIn(text);
  }
  if (number) *number *= rule.factor;
  return number && std::isfinite(*number) ? number : std::nullopt;
}

void LogReader::TakeNumbers(const std::string& line) {
  if (rules_.json && line.find('{') == std::string::npos) return;
  if (rules_.step) {
    const auto number = Find(*rules_.step, line);
    if (number && *number >= 0 && *number < kLargestStep) number_ = static_cast<std::int64_t>(*number);
  }
  if (rules_.loss) {
    if (const auto loss = Find(*rules_.loss, line)) {
      if (!first_loss_) first_loss_ = loss;
      last_loss_ = loss;
    }
  }
  if (rules_.peak_memory) {
    const auto bytes = Find(*rules_.peak_memory, line);
    if (bytes && *bytes >= 0 && *bytes < kLargestMemory)
      peak_memory_bytes_ = std::max(peak_memory_bytes_, static_cast<std::int64_t>(*bytes));
  }
  const auto speed = Find(rules_.speed, line);
  if (!speed) return;
  if (*speed <= 0) {
    ++impossible_times_;
    return;
  }
  switch (rules_.speed_kind) {
    case SpeedKind::kStepTime: return TakeStep(*speed);
    case SpeedKind::kSamplesPerSecond: return TakeStep(size_.samples / *speed);
    case SpeedKind::kTokensPerSecond: return TakeStep(size_.tokens / *speed);
    case SpeedKind::kTokensPerSecondOfRank: return TakeStep(size_.tokens / (*speed * size_.ranks));
  }
}

void LogReader::TakeStep(double seconds) {
  if (!(seconds > kShortestTime && seconds < kLongestTime)) {
    ++impossible_times_;
    return;
  }
  std::int64_t number = rules_.first_step + static_cast<std::int64_t>(steps_.size());
  if (rules_.step) {
    if (!number_) return;  // a time of no step
    number = *number_;
  }
  if (steps_.size() >= kMostSteps && !steps_.contains(number)) return;
  double& slowest = steps_[number];
  slowest = std::max(slowest, seconds);
}

std::vector<double> LogReader::TimedSteps(std::int64_t untimed, std::int64_t timed) const {
  std::vector<double> seconds;
  for (const auto& [number, time] : steps_) {
    if (number < rules_.first_step + untimed) continue;
    if (static_cast<std::int64_t>(seconds.size()) >= timed) break;
    seconds.push_back(time);
  }
  return seconds;
}

}  // namespace autocfg::worker
