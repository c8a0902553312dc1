// autocfg watch: follows a study in this machine's database or on a coordinator.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/service_options.h"
#include "cli/report/report.h"
#include "cli/study/progress.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "proto/client/study_watcher.h"
#include "proto/short_name.h"
#include "search/plan/plan_text.h"
#include "server/names/names.h"
#include "server/store/store.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestLine = 1000;  // before it is continued below
constexpr std::size_t kIndent = 4;

struct WatchArgs {
  ServiceOptions service;
  std::string study;
  bool json = false;
};

// Returns one line about a trial that has changed.
std::string TrialLine(const v1::Trial& trial) {
  std::string text = fmt::format("trial {} {}", LastPart(trial.name()), StateText(trial.state()));
  if (trial.has_measured()) text += fmt::format("  {}", MeasuredText(trial.measured()));
  if (trial.repeat() > 0) text += fmt::format("  repeat {}", trial.repeat());
  text += "  " + WithShortSplit(trial.plan_text());
  if (!trial.message().empty() && trial.message() != StateText(trial.state())) text += "  " + trial.message();
  return Hung(base::OneLine(text, kLongestLine), kIndent);
}

Json EventJson(const v1::StudyEvent& event) {
  const v1::Study& study = event.study();
  Json json{{"cursor", event.cursor()},
            {"study", study.name()},
            {"state", StateText(study.state())},
            {"phase", study.phase()},
            {"message", study.message()},
            {"waiting", study.waiting()},
            {"measured", study.counts().measured()},
            {"eta_s", study.eta_s()}};
  json["best"] = nullptr;
  if (study.best().has_measured()) {
    json["best"] = {{"plan_text", study.best().plan_text()},
                    {"provenance", Provenance(study.best())},
                    {"step_time_s", study.best().measured().median_step_time_s()},
                    {"slice", study.best().measured().slice()}};
  }
  json["trial"] = nullptr;
  if (event.has_trial()) {
    const v1::Trial& trial = event.trial();
    json["trial"] = {{"trial", trial.name()},
                     {"state", StateText(trial.state())},
                     {"plan_text", trial.plan_text()},
                     {"message", trial.message()}};
    json["trial"]["step_time_s"] =
        trial.has_measured() ? Json(trial.measured().median_step_time_s()) : Json(nullptr);
    json["trial"]["slice"] = trial.has_measured() ? Json(trial.measured().slice()) : Json(nullptr);
  }
  return json;
}

// Prints the study's outcome as the last line and returns the exit code.
int ConcludeWatch(const WatchArgs& args, const v1::Study& study) {
  std::string text = fmt::format("study {} {}", LastPart(study.name()), StateText(study.state()));
  if (study.best().has_measured())
    text += fmt::format(": {}  {}", MeasuredText(study.best().measured()),
                        WithShortSplit(study.best().plan_text()));
  if (!study.message().empty()) text += fmt::format(" ({})", study.message());
  if (!args.json) {
    if (const int code = Answer(Hung(base::OneLine(text, kLongestLine), kIndent)); code != kExitDone)
      return code;
  }
  return study.state() == v1::STUDY_STATE_DONE ? kExitDone : kExitNegative;
}

// Says why a study of a database that has not ended cannot be followed.
std::string NobodyText(const StudyReader& reader, const v1::Study& study) {
  const std::string number = LastPart(study.name());
  if (const auto process = reader.Worker()) {
    return fmt::format(
        "study {} is {}, and process {} that works on it does not answer; if it is stopped, let it go on "
        "(fg, or kill -CONT {})",
        number, reader.StateOf(study), *process, *process);
  }
  return fmt::format("study {} is {}, and no process works on it; run its search again to resume it", number,
                     reader.StateOf(study));
}

// The end of the process that a study of a database is followed by: a search, which ends with its study.
class SearchWatch {
 public:
  // Returns whether the process has been away for a second. `away`: it does not answer now.
  bool HasEnded(const StudyReader& reader, bool away) {
    const Clock::time_point now = Clock::now();
    if (!away || reader.Worker()) there_ = now;
    return now - there_ >= std::chrono::seconds(1);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point there_ = Clock::now();
};

// Answers from the file, since nobody works on the study.
int ConcludeFromFile(const WatchArgs& args, const StudyReader& reader, const v1::Study& study) {
  if (!server::IsEnd(study.state())) return Fail(kExitNegative, NobodyText(reader, study));
  v1::StudyEvent event;
  *event.mutable_study() = study;
  if (args.json) {
    if (const int code = Answer(EventJson(event).dump() + "\n"); code != kExitDone) return code;
  }
  return ConcludeWatch(args, study);
}

int RunWatch(const WatchArgs& args) {
  const auto reader = StudyReader::Open(args.service);
  if (!reader.ok()) return Fail(reader.status());
  const auto study = (*reader)->StudyNamed(args.study);
  if (!study.ok()) return Fail(study.status());
  const std::string number = LastPart(study->name());
  const Endpoint endpoint = (*reader)->endpoint();
  const std::string& target = endpoint.target;
  if (target.empty()) return ConcludeFromFile(args, **reader, *study);

  const Interrupt interrupt;
  ProgressDisplay display(stderr);
  // On a terminal that shows both, the lines would interleave with the progress block.
  const bool draw = display.active() && isatty(STDOUT_FILENO) == 0;
  int output = kExitDone;  // the watcher's thread writes it before it ends
  StudyWatcher watcher(endpoint, study->name(), kRemotePatienceSeconds, [&](const v1::StudyEvent& event) {
    if (output != kExitDone || (!args.json && !event.has_trial())) return;
    output = Answer(args.json ? EventJson(event).dump() + "\n" : TrialLine(event.trial()));
  });
  const auto began = std::chrono::steady_clock::now();
  WatchNotes notes(target);
  SearchWatch search;
  bool left_behind = false;
  while (!interrupt.requested() && !left_behind && !watcher.WaitForEnd(0.2)) {
    left_behind = args.service.coordinator.empty() && search.HasEnded(**reader, watcher.Away());
    const v1::Study latest = watcher.Latest();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    if (draw) {
      display.Draw(WatchedLines(watcher, latest, target, elapsed.count(), latest.spec().time_budget_s(),
                                display.Style()));
    } else {
      notes.Say(watcher);
    }
  }
  display.Clear();
  watcher.Stop();
  if (left_behind && output == kExitDone) {
    const auto id = server::ParseStudyName(study->name());
    if (!id.ok()) return Fail(id.status());
    const auto left = (*reader)->StudyLeftBehind(*id);
    return left.ok() ? ConcludeFromFile(args, **reader, *left) : Fail(left.status());
  }
  if (interrupt.requested())
    return Fail(kExitInterrupted, fmt::format("interrupted; study {} continues", number));
  if (output != kExitDone) return output;
  if (const absl::Status status = watcher.status(); !status.ok()) return Fail(status);
  return ConcludeWatch(args, watcher.Latest());
}

}  // namespace

void AddWatch(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "watch", "follow a search that runs elsewhere: a line for each change of a trial, until its end");
  const auto args = std::make_shared<WatchArgs>();
  verb->add_option("study,--study", args->study, "the study's number (default: the newest)");
  AddServiceOptions(verb, args->service);
  verb->add_flag("--json", args->json, "a JSON object for each event, one a line");
  verb->callback([args, &chosen] { chosen = [args] { return RunWatch(*args); }; });
}

}  // namespace autocfg::cli
