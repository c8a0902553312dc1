#include "cli/study/export_source.h"

#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/inputs.h"
#include "cli/study/stored_question.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/answer/answer_file.h"
#include "proto/answer/study_export.h"

namespace autocfg::cli {
namespace {

constexpr std::int64_t kMostOnOneNode = 8;  // ranks of a file that says nothing of nodes

ExportedRun RunOf(BestPlan question) {
  ExportedRun run{{{std::move(question.model), question.workload, {}}, std::move(question.plan)}};
  run.memory_margin = question.memory_margin;
  if (question.cluster) {
    run.cluster = *std::move(question.cluster);
  } else if (question.local) {
    run.cluster.name = "local";
    run.cluster.local = true;
  } else {
    run.ranks_per_node = question.ranks_per_node;
  }
  return run;
}

// Returns how a trial without a measurement ended, or that it has not.
std::string EndWithoutMeasurement(const v1::Trial& trial) {
  if (trial.has_measured()) return "";
  std::string_view how;
  switch (trial.state()) {
    case v1::TRIAL_STATE_INFEASIBLE: how = "did not fit in memory"; break;
    case v1::TRIAL_STATE_FAILED: how = "failed"; break;
    case v1::TRIAL_STATE_TIMED_OUT: how = "timed out"; break;
    case v1::TRIAL_STATE_LOST: how = "was lost with its worker"; break;
    case v1::TRIAL_STATE_CANCELLED: how = "was cancelled"; break;
    default: how = "has not ended"; break;
  }
  return fmt::format("{} {}{}", trial.name(), how,
                     trial.message().empty() ? "" : ": " + base::OneLine(trial.message()));
}

}  // namespace

absl::StatusOr<ExportedRun> RunOfInput(const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(AnswerFile file, LoadAnswerFile(path));
  BestPlan& best = file.best;
  const std::int64_t ranks = RankCount(best.plan);
  if (!best.cluster && !best.local && best.ranks_per_node == 0 && ranks > kMostOnOneNode) {
    return absl::FailedPreconditionError(fmt::format(
        "--input: {} names no cluster, and does not say on how many nodes its {} ranks are; write "
        "it again with autocfg import --cluster",
        path, ranks));
  }
  const auto& [question, found] = file.answer;
  const std::string engine = best.engine;
  ExportedRun run = RunOf(std::move(best));
  // What the file lacks of the evidence is not shown.
  run.evidence = EvidenceFor(found.best(), found.runners_up().empty() ? nullptr : &found.runners_up(0),
                             IsEmulated(question.device));
  if (run.evidence.build.empty()) run.evidence.build = file.build_id;
  if (!engine.empty() && found.best().measured().engine().empty()) run.evidence.engine = engine;
  run.evidence.study = found.study();
  return run;
}

absl::StatusOr<ExportedRun> RunOfStudy(StudyReader& reader, const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(v1::Study study, reader.StudyNamed(text.substr(0, text.find(kTrialsPart))));
  std::string trial_end;
  if (text.find(kTrialsPart) != std::string::npos) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto trial, TrialNamed(reader, study, text));
    v1::Candidate& chosen = *study.mutable_best();
    chosen.Clear();
    *chosen.mutable_plan() = trial.plan();
    chosen.set_plan_text(trial.plan_text());
    if (trial.has_measured()) *chosen.mutable_measured() = trial.measured();
    *chosen.mutable_predicted() = trial.predicted();
    trial_end = EndWithoutMeasurement(trial);
  }
  if (!study.has_best() && reader.StateOf(study) == "interrupted") {
    return absl::FailedPreconditionError(
        fmt::format("--study: the search of study {} was interrupted before it had a plan; give its command "
                    "again, or export another study",
                    LastPart(study.name())));
  }
  auto run = ExportedRunOf(study);
  if (!run.ok()) return Where("--study", run.status());
  run->evidence.trial = std::move(trial_end);
  return run;
}

}  // namespace autocfg::cli
