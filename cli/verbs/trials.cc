// autocfg trials: lists the trials of a study, or shows the log of one.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/report/evidence.h"
#include "cli/report/report.h"
#include "cli/study/stored_question.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer_json.h"
#include "proto/convert/spec_convert.h"
#include "proto/short_name.h"
#include "search/plan/plan_text.h"
#include "search/text/plan_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kTrialNoteBytes = 200;
constexpr std::string_view kCalibration = "calibration";
constexpr std::int64_t kLogBytes = 64 << 10;  // of an attempt; twice what a worker of ours sends

struct TrialsArgs {
  ServiceOptions service;
  std::string study;
  // A trial: N, ID/trials/N or studies/ID/trials/N; or "calibration" in place of trials/N. Empty: not given.
  std::string log;
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
            {"reused_from", trial.reused_from().empty() ? Json(nullptr) : Json(trial.reused_from())},
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

bool HasNoAnswer(const v1::Trial& trial) {
  return trial.state() == v1::TRIAL_STATE_FAILED || trial.state() == v1::TRIAL_STATE_TIMED_OUT ||
         trial.state() == v1::TRIAL_STATE_LOST;
}

// Returns the command that shows the log of the calibration, if that failed, or of the first trial without an
// answer; empty: there is neither.
std::string LogCommand(const TrialsArgs& args, std::int64_t study, bool calibration_failed,
                       const std::vector<v1::Trial>& trials) {
  const auto first = std::find_if(trials.begin(), trials.end(), HasNoAnswer);
  if (!calibration_failed && first == trials.end()) return "";
  return CommandLines("its log: ",
                      fmt::format("autocfg trials{} --study {} --log {}", AsWritten(args.service), study,
                                  calibration_failed ? std::string(kCalibration) : LastPart(first->name())));
}

// Returns the log of an attempt under a heading, which `how` ends; `none` in place of an empty one. The text
// is of others.
std::string LogText(const v1::TrialLog& log, const std::string& how, std::string_view none) {
  std::string text = Wrapped(base::OneLine(fmt::format("{}, attempt {}{}", log.trial(), log.attempt(), how)));
  if (text.back() != '\n') text += '\n';
  if (log.text().empty()) return text + std::string(none) + '\n';
  if (log.left_out_bytes() > 0)
    text += fmt::format("({} before this are left out)\n", base::BytesText(log.left_out_bytes()));
  text += base::CleanUtf8(log.text(), log.text().size());
  if (text.back() != '\n') text += '\n';
  return text;
}

// Returns the log of an attempt, of which nothing else is known.
Json LogJson(const v1::TrialLog& log) {
  return {{"trial", log.trial()},
          {"attempt", log.attempt()},
          {"state", nullptr},
          {"workers", nullptr},
          {"message", nullptr},
          {"log", log.text()},
          {"left_out_bytes", log.left_out_bytes()}};
}

// Shows the logs of a calibration, of whose attempts nothing else is known. That there is none is an answer:
// the study may have taken all its times from others.
int RunCalibrationLog(const TrialsArgs& args, StudyReader& reader, std::int64_t study) {
  const auto last = reader.TrialLog(study, 0, 0, kLogBytes);
  if (absl::IsNotFound(last.status()))
    return Answer(args.json ? "[]\n" : std::string(last.status().message()) + '\n');
  if (!last.ok()) return Fail(last.status());
  Json json = Json::array();
  std::string text;
  for (std::int64_t attempt = 1; attempt <= last->attempt(); ++attempt) {
    const auto log = reader.TrialLog(study, 0, attempt, kLogBytes);
    if (!log.ok()) return Fail(log.status());
    if (!text.empty()) text += '\n';
    text += LogText(*log, "", "no log; workers send it once an attempt has failed");
    json.push_back(LogJson(*log));
  }
  return Answer(args.json ? json.dump(2) + "\n" : text);
}

int RunTrialLog(const TrialsArgs& args) {
  const auto reader = StudyReader::Open(args.service);
  if (!reader.ok()) return Fail(reader.status());
  const bool calibration = args.log == kCalibration || args.log.ends_with("/" + std::string(kCalibration));
  const std::size_t part = calibration ? args.log.rfind('/') : args.log.find(kTrialsPart);
  const std::string number = part == std::string::npos ? args.log : LastPart(args.log);
  const auto trial_number = calibration ? 0 : ParseWhole("--log", number);
  if (!trial_number.ok()) return Fail(trial_number.status());
  if (part != std::string::npos && !args.study.empty())
    return Fail(kExitUsage, "--log names a study, and so does --study; leave one of them out");
  const auto study = (*reader)->StudyNamed(part == std::string::npos ? args.study : args.log.substr(0, part));
  if (!study.ok()) return Fail(study.status());
  const auto id = ParseStudyId(study->name());
  if (!id.ok()) return Fail(id.status());
  if (calibration) return RunCalibrationLog(args, **reader, *id);
  const auto trial = TrialNamed(**reader, *study, fmt::format("{}{}{}", *id, kTrialsPart, *trial_number));
  if (!trial.ok()) {
    return Fail(kExitUsage, fmt::format("--log: {} has no trial {}; autocfg trials lists them", study->name(),
                                        *trial_number));
  }
  Json json = Json::array();
  std::string text;
  for (const v1::Attempt& attempt : trial->attempts()) {
    const auto log = (*reader)->TrialLog(*id, *trial_number, attempt.number(), kLogBytes);
    if (!log.ok()) return Fail(log.status());
    if (!text.empty()) text += '\n';
    text +=
        LogText(*log,
                fmt::format(", {} on {}{}", StateText(attempt.state()), fmt::join(attempt.workers(), ", "),
                            attempt.message().empty() ? "" : ": " + attempt.message()),
                attempt.end_time_s() > 0 ? "no log is kept; workers send those of runs that fail"
                                         : "no log yet; workers send it once the attempt has failed");
    Json one = LogJson(*log);
    one["state"] = StateText(attempt.state());
    one["workers"] = attempt.workers();
    one["message"] = attempt.message();
    json.push_back(std::move(one));
  }
  if (args.json) return Answer(json.dump(2) + "\n");
  return Answer(text.empty() ? fmt::format("{} has no attempt yet\n", trial->name()) : text);
}

int RunTrials(const TrialsArgs& args) {
  if (!args.log.empty()) return RunTrialLog(args);
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
    if (!trial.reused_from().empty())
      note = fmt::format("{}{}reused from {}", note, note.empty() ? "" : "; ", trial.reused_from());
    rows.push_back({LastPart(trial.name()), StateText(trial.state()), measured,
                    base::SecondsText(trial.predicted().step_time_s()), std::to_string(trial.attempts_size()),
                    WithShortSplit(trial.plan_text())});
    notes.below.push_back(base::OneLine(note, kTrialNoteBytes));
  }
  const std::string parts = PartsOfTrials(*trials);
  return Answer(Table(rows, notes) + LogCommand(args, id, !calibration->empty() && !why, *trials) +
                EnginesLine(*trials) + (parts.empty() ? "" : "\n" + parts));
}

}  // namespace

void AddTrials(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("trials", "list the trials of a study");
  const auto args = std::make_shared<TrialsArgs>();
  verb->add_option("study,--study", args->study, "the study's number (default: the newest)");
  verb->add_option("--log", args->log,
                   "show the end of the logs of this trial: 7, or 3/trials/7; or of the calibration");
  AddServiceOptions(verb, args->service);
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunTrials(*args); }; });
}

}  // namespace autocfg::cli
