// autocfg trials: lists the trials of a study.
#include <memory>
#include <set>
#include <string>

#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/service_options.h"
#include "cli/report/evidence.h"
#include "cli/report/report.h"
#include "cli/report/results_json.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "search/text/plan_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kTrialNoteBytes = 200;

struct TrialsArgs {
  ServiceOptions service;
  std::string study;
  bool json = false;
};

absl::StatusOr<Json> TrialJson(const v1::Trial& trial) {
  const auto plan = FromProto(trial.plan());
  if (!plan.ok()) return Where(trial.name(), plan.status());
  Json json{{"trial", trial.name()},
            {"plan", PlanJson(*plan)},
            {"plan_text", PlanText(*plan)},
            {"repeat", trial.repeat()},
            {"state", StateText(trial.state())},
            {"message", trial.message()},
            {"predicted",
             {{"step_time_s", trial.predicted().step_time_s()},
              {"step_time_low_s", trial.predicted().step_time_low_s()},
              {"step_time_high_s", trial.predicted().step_time_high_s()}}}};
  SetBreakdown(trial.predicted().has_breakdown_s() ? &trial.predicted().breakdown_s() : nullptr,
               json["predicted"]);
  json["measured"] = nullptr;
  if (trial.has_measured()) {
    const auto& measured = trial.measured();
    json["measured"] = {{"step_time_s", measured.median_step_time_s()},
                        {"ci95_s", measured.ci95_s()},
                        {"steps", measured.step_time_s_size()},
                        {"slice", measured.slice()},
                        {"planned_memory_bytes", measured.planned_memory_bytes()},
                        {"peak_memory_bytes", measured.peak_memory_bytes()},
                        {"device_overhead_bytes", measured.device_overhead_bytes()},
                        {"device_s", measured.device_s()},
                        {"build_id", measured.build_id()}};
    SetEngine(measured, json["measured"]);
    SetBreakdown(measured.has_breakdown_s() ? &measured.breakdown_s() : nullptr, json["measured"]);
  }
  json["attempts"] = Json::array();
  for (const auto& attempt : trial.attempts()) {
    json["attempts"].push_back({{"number", attempt.number()},
                                {"state", StateText(attempt.state())},
                                {"worker", attempt.worker()},
                                {"workers", attempt.workers()},
                                {"message", attempt.message()}});
  }
  return json;
}

// Returns a line with the engines that measured beside the built-in one; empty: none did.
std::string EnginesLine(const std::vector<v1::Trial>& trials) {
  std::set<std::string> engines;
  for (const v1::Trial& trial : trials) {
    const v1::Measurement& measured = trial.measured();
    if (!measured.engine().empty())
      engines.insert(base::OneLine(fmt::format("{} {}", measured.engine(), measured.engine_version())));
  }
  return engines.empty() ? "" : fmt::format("measured on {}\n", fmt::join(engines, ", "));
}

int RunTrials(const TrialsArgs& args) {
  const auto reader = StudyReader::Open(args.service);
  if (!reader.ok()) return Fail(reader.status());
  const auto study = (*reader)->StudyNamed(args.study);
  if (!study.ok()) return Fail(study.status());
  const auto named = ParseStudyId(study->name());
  if (!named.ok()) return Fail(named.status());
  const std::int64_t id = *named;
  const auto trials = (*reader)->Trials(id);
  if (!trials.ok()) return Fail(trials.status());
  const auto calibration = (*reader)->CalibrationFailure(id);
  if (!calibration.ok()) return Fail(calibration.status());
  // If the calibration was cancelled with its study, the study's message gives the reason.
  const bool why = *calibration == StateText(v1::TRIAL_STATE_CANCELLED) && !study->message().empty();
  if (!calibration->empty() && !why) {
    Note(fmt::format("the calibration of study {} {}", id, *calibration));
  } else if (!study->message().empty()) {
    Note(fmt::format("study {} {}: {}", id, (*reader)->StateOf(*study), study->message()));
  }
  if (args.json) {
    Json json = Json::array();
    for (const auto& trial : *trials) {
      auto one = TrialJson(trial);
      if (!one.ok()) return Fail(one.status());
      json.push_back(*std::move(one));
    }
    return Answer(json.dump(2) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"trial", "state", "measured", "predicted", "tries", "plan"}};
  TableNotes notes = {.below = {""}, .text = true};
  for (const auto& trial : *trials) {
    const std::string measured = trial.has_measured() ? MeasuredCell(trial.measured()) : "-";
    std::string note = trial.message();
    if (trial.repeat() > 0)
      note = fmt::format("repeat {}{}{}", trial.repeat(), note.empty() ? "" : "; ", note);
    rows.push_back({LastPart(trial.name()), StateText(trial.state()), measured,
                    base::SecondsText(trial.predicted().step_time_s()), std::to_string(trial.attempts_size()),
                    WithShortSplit(trial.plan_text())});
    notes.below.push_back(base::OneLine(note, kTrialNoteBytes));
  }
  const std::string parts = PartsOfTrials(*trials);
  return Answer(Table(rows, notes) + EnginesLine(*trials) + (parts.empty() ? "" : "\n" + parts));
}

}  // namespace

void AddTrials(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("trials", "list the trials of a study");
  const auto args = std::make_shared<TrialsArgs>();
  verb->add_option("--study", args->study, "the study's number (default: the newest)");
  AddServiceOptions(verb, args->service);
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunTrials(*args); }; });
}

}  // namespace autocfg::cli
