#include "server/names/names.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

constexpr std::string_view kStudies = "studies/";
constexpr std::string_view kTrials = "/trials/";
constexpr std::string_view kCalibration = "/calibration";
constexpr std::string_view kWorkers = "workers/";
constexpr std::size_t kMaxWorkerId = 100;

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  return text.starts_with('0') ? std::nullopt : base::ParseNumber<std::int64_t>(text, 1);
}

}  // namespace

std::string StudyName(std::int64_t id) { return fmt::format("studies/{}", id); }
std::string TrialName(std::int64_t study, std::int64_t number) {
  return fmt::format("studies/{}/trials/{}", study, number);
}
std::string CalibrationName(std::int64_t study) { return fmt::format("studies/{}{}", study, kCalibration); }
std::string JobName(std::int64_t study, std::int64_t trial) {
  return trial > 0 ? TrialName(study, trial) : CalibrationName(study);
}

absl::StatusOr<std::int64_t> ParseStudyName(const std::string& name) {
  const std::string_view text = name;
  if (text.starts_with(kStudies)) {
    if (const auto id = ParseNumber(text.substr(kStudies.size()))) return *id;
  }
  return absl::InvalidArgumentError(
      fmt::format("invalid study name '{}'; expected studies/NUMBER", base::Printable(name)));
}

absl::StatusOr<TrialId> ParseTrialName(const std::string& name) {
  const std::string_view text = name;
  const std::size_t middle = text.find(kTrials);
  if (text.starts_with(kStudies) && middle != std::string_view::npos && middle >= kStudies.size()) {
    const auto study = ParseNumber(text.substr(kStudies.size(), middle - kStudies.size()));
    const auto number = ParseNumber(text.substr(middle + kTrials.size()));
    if (study && number) return TrialId{*study, *number};
  }
  return absl::InvalidArgumentError(
      fmt::format("invalid trial name '{}'; expected studies/NUMBER/trials/NUMBER", base::Printable(name)));
}

absl::StatusOr<TrialId> ParseJobName(const std::string& name) {
  if (const auto trial = ParseTrialName(name); trial.ok()) return *trial;
  if (name.ends_with(kCalibration)) {
    const auto study = ParseStudyName(name.substr(0, name.size() - kCalibration.size()));
    if (study.ok()) return TrialId{*study, 0};
  }
  return absl::InvalidArgumentError(
      fmt::format("invalid name '{}'; expected studies/NUMBER/trials/NUMBER or studies/NUMBER/calibration",
                  base::Printable(name)));
}

absl::Status CheckWorkerName(const std::string& name) {
  const std::string_view text = name;
  if (text.starts_with(kWorkers)) {
    const std::string_view id = text.substr(kWorkers.size());
    const bool plain = std::all_of(id.begin(), id.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
    if (plain && !id.empty() && id.size() <= kMaxWorkerId) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("invalid worker name '{}'; expected workers/ID with letters, digits, '-', '_' and '.'",
                  base::Printable(name)));
}

}  // namespace autocfg::server
