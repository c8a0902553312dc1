#include "cli/report/evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/report/report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/merge_results.h"

namespace autocfg::cli {
namespace {

using EvidenceJson = nlohmann::ordered_json;

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

// Reads a number that must be there.
absl::Status ReadSeconds(const EvidenceJson& object, const std::string& path, const char* name,
                         double& seconds) {
  const auto field = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || field == object.end() || !field->is_number() || !(field->get<double>() >= 0)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a time; give a file that autocfg search --output wrote", path, name));
  }
  seconds = field->get<double>();
  return absl::OkStatus();
}

// Reads breakdown_s and hidden_comm_s of `object`, which may be null or missing. Returns whether there are
// parts.
absl::StatusOr<bool> ReadBreakdown(const EvidenceJson& object, const std::string& path,
                                   v1::Breakdown& message) {
  const auto found = object.find("breakdown_s");
  if (found == object.end() || found->is_null()) return false;
  Breakdown parts;
  for (const BreakdownPart& part : kBreakdownParts) {
    AUTOCFG_RETURN_IF_ERROR(
        ReadSeconds(*found, path + ": breakdown_s", std::string(part.name).c_str(), parts.*part.seconds));
  }
  message = ToProto(parts);
  if (const auto hidden = object.find("hidden_comm_s"); hidden != object.end() && !hidden->is_null()) {
    double seconds = 0;
    AUTOCFG_RETURN_IF_ERROR(ReadSeconds(object, path, "hidden_comm_s", seconds));
    message.set_hidden_comm(seconds);
  }
  return true;
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

// Reads `best` of the file.
absl::Status ReadBest(const EvidenceJson& best, Evidence& evidence) {
  const auto text = best.find("plan_text");
  if (text == best.end() || !text->is_string())
    return absl::InvalidArgumentError(
        "best: 'plan_text' is missing; give a file that autocfg search --output wrote");
  evidence.plan_text = text->get<std::string>();
  const auto measured = best.find("measured");
  if (measured == best.end() || !measured->is_object()) return NothingMeasured("the best plan");
  const auto predicted = best.find("predicted");
  double step_s = 0, ci95_s = 0, predicted_s = 0, low_s = 0, high_s = 0, steps = 0;
  const EvidenceJson missing;
  const EvidenceJson& prediction = predicted == best.end() ? missing : *predicted;
  for (const absl::Status& status :
       {ReadSeconds(*measured, "best: measured", "step_time_s", step_s),
        ReadSeconds(*measured, "best: measured", "ci95_s", ci95_s),
        ReadSeconds(*measured, "best: measured", "steps", steps),
        ReadSeconds(prediction, "best: predicted", "step_time_s", predicted_s),
        ReadSeconds(prediction, "best: predicted", "step_time_low_s", low_s),
        ReadSeconds(prediction, "best: predicted", "step_time_high_s", high_s)}) {
    if (!status.ok()) return status;
  }
  evidence.measured.set_median_step_time_s(step_s);
  evidence.measured.set_ci95_s(ci95_s);
  evidence.measured.set_slice(measured->contains("slice") && (*measured)["slice"] == true);
  evidence.predicted.set_step_time_s(predicted_s);
  evidence.predicted.set_step_time_low_s(low_s);
  evidence.predicted.set_step_time_high_s(high_s);
  v1::Breakdown parts;
  auto has = ReadBreakdown(*measured, "best: measured", parts);
  if (!has.ok()) return has.status();
  if (*has) *evidence.measured.mutable_breakdown_s() = parts;
  parts.Clear();
  has = ReadBreakdown(prediction, "best: predicted", parts);
  if (!has.ok()) return has.status();
  if (*has) *evidence.predicted.mutable_breakdown_s() = parts;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Evidence> EvidenceOf(const v1::Trial& trial) {
  if (!trial.has_measured()) return NothingMeasured(trial.name());
  return Evidence{trial.plan_text(), trial.predicted(), trial.measured()};
}

absl::StatusOr<Evidence> EvidenceOfBest(const v1::Study& study, std::span<const v1::Trial> trials) {
  const v1::Candidate& best = study.best();
  if (best.has_measured() && !best.measured().slice())
    return Evidence{best.plan_text(), best.predicted(), best.measured()};
  std::map<std::string, std::vector<v1::Measurement>> measured;
  std::map<std::string, v1::Prediction> predicted;  // before the first trial
  for (const v1::Trial& trial : trials) {
    if (!trial.has_measured() || trial.measured().slice()) continue;
    measured[trial.plan_text()].push_back(trial.measured());
    predicted.try_emplace(trial.plan_text(), trial.predicted());
  }
  std::optional<Evidence> fastest;
  for (const auto& [plan_text, of_plan] : measured) {
    v1::Measurement pooled = PoolTrials(of_plan);
    if (!fastest || pooled.median_step_time_s() < fastest->measured.median_step_time_s())
      fastest = Evidence{plan_text, predicted.at(plan_text), std::move(pooled)};
  }
  if (!fastest) return NoTrialMeasured(study, trials);
  return *std::move(fastest);
}

absl::StatusOr<Evidence> ParseEvidence(const std::string& best_json) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto json, base::ParseJson("answer", best_json));
  const auto best = json.is_object() ? json.find("best") : json.end();
  if (!json.is_object() || best == json.end())
    return absl::InvalidArgumentError("'best' is missing; give a file that autocfg search --output wrote");
  if (best->is_null()) return NothingMeasured("a search that found no plan that fits");
  if (!best->is_object())
    return absl::InvalidArgumentError("best: not an object; give a file that autocfg search --output wrote");
  Evidence evidence;
  AUTOCFG_RETURN_IF_ERROR(ReadBest(*best, evidence));
  return evidence;
}

std::string EvidenceText(const Evidence& evidence, const BarStyle& style) {
  const v1::Measurement& measured = evidence.measured;
  const v1::Prediction& predicted = evidence.predicted;
  std::string text = PlanLine("plan:", evidence.plan_text, "measured") + "\n";
  text += fmt::format("measured:  {}\n", MeasuredCell(measured));
  text += fmt::format(
      "predicted: {} ({} to {}, 90% interval)\n\n", base::SecondsText(predicted.step_time_s()),
      base::SecondsText(predicted.step_time_low_s()), base::SecondsText(predicted.step_time_high_s()));
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
