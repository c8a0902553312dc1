#include "cli/report/evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/report/prediction_report.h"
#include "cli/report/report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/result_convert.h"
#include "proto/merge_results.h"
#include "proto/short_name.h"

namespace autocfg::cli {
namespace {

// A part of a step, or what is known beside the parts. Nothing if it is not known.
struct KnownTime {
  std::string_view label;
  std::optional<double> seconds;
};

// Returns the parts of a step, then exposed and hidden communication. All are unknown if `breakdown` is null.
std::vector<KnownTime> KnownTimes(const v1::Breakdown* breakdown) {
  const auto known = [&](double seconds) {
    return breakdown != nullptr ? std::optional(seconds) : std::nullopt;
  };
  const Breakdown parts = breakdown != nullptr ? FromProto(*breakdown) : Breakdown{};
  std::vector<KnownTime> times;
  times.reserve(kBreakdownParts.size() + 2);
  for (const BreakdownPart& part : kBreakdownParts) times.push_back({part.label, known(parts.*part.seconds)});
  times.push_back({"exposed comm.", known(ExposedComm(parts))});
  times.push_back({"hidden comm.", breakdown != nullptr && breakdown->has_hidden_comm()
                                       ? known(breakdown->hidden_comm())
                                       : std::nullopt});
  return times;
}

template <typename Message>
std::vector<KnownTime> KnownTimesOf(const Message& message) {
  return KnownTimes(message.has_breakdown_s() ? &message.breakdown_s() : nullptr);
}

std::string KnownText(const std::optional<double>& seconds) {
  return seconds ? base::SecondsText(*seconds) : "-";
}

constexpr int kEvidenceLabel = 16;
constexpr int kEvidenceNumber = 10;

// Returns one line: label, bar and number of each time, and the difference of measured to predicted.
std::string EvidenceRow(std::string_view label, const std::optional<double>& measured,
                        const std::optional<double>& predicted, double whole, const BarStyle& style) {
  const int width = std::clamp((style.columns - kEvidenceLabel - 2 * (kEvidenceNumber + 3) - 12) / 2, 6, 30);
  std::string line =
      fmt::format("  {:<{}}{} {:>{}}  {} {:>{}}  ", label, kEvidenceLabel,
                  Bar(measured.value_or(0), whole, width, style), KnownText(measured), kEvidenceNumber,
                  Bar(predicted.value_or(0), whole, width, style), KnownText(predicted), kEvidenceNumber);
  if (measured && predicted) {
    const double difference = *measured - *predicted;
    // Less than a ten-thousandth of the whole is invisible in every figure.
    if (std::abs(difference) >= 1e-4 * whole) {
      line += fmt::format("{}{}", difference < 0 ? "-" : "+", base::SecondsText(std::abs(difference)));
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

v1::Candidate CandidateOf(const std::string& plan_text, v1::Prediction predicted, v1::Measurement measured) {
  v1::Candidate candidate;
  candidate.set_plan_text(plan_text);
  *candidate.mutable_predicted() = std::move(predicted);
  *candidate.mutable_measured() = std::move(measured);
  return candidate;
}

absl::Status NothingMeasured(std::string_view what) {
  return absl::FailedPreconditionError(
      fmt::format("{} has no measurement to show; name a plan that was measured", what));
}

// Says how the trials of a study without a measured plan ended. A slice has a measurement to show, of its
// own.
absl::Status NoTrialMeasured(const v1::Study& study, std::span<const v1::Trial> trials) {
  std::map<std::string, int> ends;
  for (const v1::Trial& trial : trials) {
    if (trial.has_measured()) return NothingMeasured("the study");
    ++ends[StateText(trial.state())];
  }
  if (ends.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("study {} has no trial, so there is no measurement to show; name another study",
                    LastPart(study.name())));
  }
  std::string text;
  for (const auto& [state, count] : ends)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  return absl::FailedPreconditionError(fmt::format(
      "no trial of study {0} was measured ({1}); autocfg trials {0} says why", LastPart(study.name()), text));
}

}  // namespace

absl::StatusOr<v1::Candidate> EvidenceOf(const v1::Trial& trial) {
  if (!trial.has_measured()) return NothingMeasured(trial.name());
  return CandidateOf(trial.plan_text(), trial.predicted(), trial.measured());
}

absl::StatusOr<v1::Candidate> EvidenceOfBest(const v1::Study& study, std::span<const v1::Trial> trials) {
  const v1::Candidate& best = study.best();
  if (MeasuredWhole(best)) return best;
  std::map<std::string, std::vector<v1::Measurement>> measured;
  std::map<std::string, v1::Prediction> predicted;  // before the first trial
  for (const v1::Trial& trial : trials) {
    if (!trial.has_measured() || trial.measured().slice()) continue;
    measured[trial.plan_text()].push_back(trial.measured());
    predicted.try_emplace(trial.plan_text(), trial.predicted());
  }
  std::optional<v1::Candidate> fastest;
  for (const auto& [plan_text, of_plan] : measured) {
    v1::Measurement pooled = PoolTrials(of_plan);
    if (!fastest || pooled.median_step_time_s() < fastest->measured().median_step_time_s())
      fastest = CandidateOf(plan_text, predicted.at(plan_text), std::move(pooled));
  }
  if (!fastest) return NoTrialMeasured(study, trials);
  return *std::move(fastest);
}

absl::StatusOr<v1::Candidate> EvidenceOf(const AnswerFile& file) {
  const v1::Candidate& best = file.answer.found.best();
  if (!best.has_measured()) return NothingMeasured("the best plan");
  AUTOCFG_RETURN_IF_ERROR(file.best_lacks);
  return best;
}

std::string EvidenceText(const v1::Candidate& evidence, const BarStyle& style) {
  const v1::Measurement& measured = evidence.measured();
  const v1::Prediction& predicted = evidence.predicted();
  std::string text = PlanLine("plan:", evidence.plan_text(), "measured") + "\n";
  text += fmt::format("measured:  {}\n", MeasuredCell(measured));
  text += fmt::format("predicted: {}\n\n", StepTimeText(FromProto(predicted)));
  if (!measured.has_breakdown_s()) {
    return text + Hung(measured.slice()
                           ? "The parts of a slice are not recorded: its rank waits for no other."
                           : "The parts of this measurement were not recorded; a worker of this version "
                             "records them.",
                       0);
  }
  const std::vector<KnownTime> of_measured = KnownTimesOf(measured);
  const std::vector<KnownTime> of_predicted = KnownTimesOf(predicted);
  const double recorded_s = FromProto(measured.breakdown_s()).Total();
  const double whole = std::max(recorded_s, predicted.step_time_s());
  text += Toned("parts of a step: measured, predicted, difference", Tone::kStrong, style) + "\n";
  for (std::size_t i = 0; i < of_measured.size(); ++i) {
    if (i == kBreakdownParts.size())
      text += EvidenceRow("in all", recorded_s, predicted.step_time_s(), whole, style);
    text += EvidenceRow(of_measured[i].label, of_measured[i].seconds, of_predicted[i].seconds, whole, style);
  }
  return text +
         "\nThe measured parts are of one more step, which was recorded, on the rank\n"
         "that worked longest. Exposed communication is what the rank waits for, hidden\n"
         "communication runs while it computes.\n";
}

std::string PartsOfTrials(std::span<const v1::Trial> trials) {
  std::vector<std::vector<std::string>> rows = {{"trial", "parts"}};
  std::vector<bool> shown;
  for (const bool decides : {true, false}) {
    for (const v1::Trial& trial : trials) {
      if (!trial.measured().has_breakdown_s()) continue;
      const std::vector<KnownTime> measured = KnownTimesOf(trial.measured());
      const std::vector<KnownTime> predicted = KnownTimesOf(trial.predicted());
      shown.resize(measured.size());
      std::vector<std::string> first = {LastPart(trial.name()), "measured"}, second = {"", "predicted"};
      for (std::size_t i = 0; i < measured.size(); ++i) {
        if (decides) {
          shown[i] = shown[i] || measured[i].seconds.value_or(0) > 0 || predicted[i].seconds.value_or(0) > 0;
        } else if (shown[i]) {
          first.push_back(KnownText(measured[i].seconds));
          second.push_back(KnownText(predicted[i].seconds));
        }
      }
      if (!decides) rows.insert(rows.end(), {first, second});
    }
  }
  if (rows.size() == 1) return "";
  const std::vector<KnownTime> labels = KnownTimes(nullptr);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i]) rows[0].emplace_back(labels[i].label);
  }
  return Table(rows, {.keys = 2});
}

}  // namespace autocfg::cli
