#include "cli/study/export_source.h"

#include <string_view>
#include <utility>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/files.h"
#include "cli/report/results_json.h"
#include "cli/study/stored_question.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/export_convert.h"
#include "search/frameworks/framework_file.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostOnOneNode = 8;  // ranks of a file that says nothing of nodes

// Return the value at `path` of a file that this program wrote; zero or empty where it has none.
double NumberAt(const Json& json, const Json::json_pointer& path) {
  return json.contains(path) && json[path].is_number() ? json[path].get<double>() : 0.0;
}
std::string TextAt(const Json& json, const Json::json_pointer& path) {
  return json.contains(path) && json[path].is_string() ? json[path].get<std::string>() : "";
}

v1::Candidate CandidateOf(const Json& json) {
  v1::Candidate candidate;
  candidate.set_plan_text(TextAt(json, Json::json_pointer("/plan_text")));
  v1::Prediction& predicted = *candidate.mutable_predicted();
  predicted.set_step_time_s(NumberAt(json, Json::json_pointer("/predicted/step_time_s")));
  predicted.set_step_time_low_s(NumberAt(json, Json::json_pointer("/predicted/step_time_low_s")));
  predicted.set_step_time_high_s(NumberAt(json, Json::json_pointer("/predicted/step_time_high_s")));
  const auto bytes = [&json](const char* path) {
    return static_cast<std::int64_t>(NumberAt(json, Json::json_pointer(path)));
  };
  predicted.mutable_memory_bytes()->set_total(bytes("/predicted/memory_bytes/total"));
  predicted.mutable_memory_bytes()->set_capacity(bytes("/predicted/memory_bytes/capacity"));
  const Json::json_pointer measured("/measured");
  if (!json.contains(measured) || !json[measured].is_object()) return candidate;
  v1::Measurement& measurement = *candidate.mutable_measured();
  measurement.set_median_step_time_s(NumberAt(json, Json::json_pointer("/measured/step_time_s")));
  measurement.set_ci95_s(NumberAt(json, Json::json_pointer("/measured/ci95_s")));
  measurement.set_planned_memory_bytes(bytes("/measured/planned_memory_bytes"));
  measurement.set_device_overhead_bytes(bytes("/measured/device_overhead_bytes"));
  measurement.set_slice(json.contains(Json::json_pointer("/measured/slice")) &&
                        json["measured"]["slice"] == true);
  measurement.set_build_id(TextAt(json, Json::json_pointer("/measured/build_id")));
  if (const std::string engine = TextAt(json, Json::json_pointer("/measured/engine"));
      !engine.empty() && engine != kOwnEngine) {
    measurement.set_engine(engine);
    measurement.set_engine_version(TextAt(json, Json::json_pointer("/measured/engine_version")));
    measurement.set_peak_memory_bytes(bytes("/measured/peak_memory_bytes"));
  }
  measurement.set_device_fingerprint(TextAt(json, Json::json_pointer("/measured/device_fingerprint")));
  return candidate;
}

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
  const auto text = ReadTextFile(path);
  if (!text.ok()) return Where("--input", text.status());
  if (const std::string_view framework = FrameworkOf(*text); !framework.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "--input: {} is a file of {}; run autocfg import --output first, and export what it writes", path,
        framework));
  }
  auto question = ParseSearchJson(*text);
  if (!question.ok()) return Where(fmt::format("--input: {}", path), question.status(), "answer");
  const auto json = base::ParseJson("answer", *text);
  if (!json.ok()) return Where("--input", json.status());
  const std::int64_t ranks = RankCount(question->plan);
  if (!question->cluster && !question->local && question->ranks_per_node == 0 && ranks > kMostOnOneNode) {
    return absl::FailedPreconditionError(fmt::format(
        "--input: {} names no cluster, and does not say on how many nodes its {} ranks are; write "
        "it again with autocfg import --cluster",
        path, ranks));
  }
  ExportedRun run = RunOf(*std::move(question));
  const v1::Candidate best = CandidateOf((*json)["best"]);
  const Json::json_pointer second("/runners_up/0"), emulated("/best/measured/emulated");
  const bool has_second = json->contains(second) && (*json)[second].is_object();
  const v1::Candidate runner_up = has_second ? CandidateOf((*json)[second]) : v1::Candidate();
  run.evidence = EvidenceFor(best, has_second ? &runner_up : nullptr,
                             json->contains(emulated) && (*json)[emulated] == true);
  if (run.evidence.build.empty())
    run.evidence.build = TextAt(*json, Json::json_pointer("/versions/build_id"));
  const std::string engine = TextAt(*json, Json::json_pointer("/engine"));
  if (!engine.empty() && best.measured().engine().empty()) run.evidence.engine = engine;
  run.evidence.study = TextAt(*json, Json::json_pointer("/study"));
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
