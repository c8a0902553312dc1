// autocfg studies: lists the studies of a database or a coordinator.
#include <cmath>
#include <ctime>
#include <memory>
#include <string>

#include "base/os/trace_parent.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/service_options.h"
#include "cli/report/report.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kStudyNoteBytes = 160;

struct StudiesArgs {
  ServiceOptions service;
  bool json = false;
};

std::string TimeText(double unix_s) {
  return unix_s > 0 ? fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(unix_s)))
                    : "-";
}

// Returns the model's name, which a study of the API need not have, or its size.
std::string ModelText(const v1::ModelSpec& model) {
  if (!model.name().empty()) return base::OneLine(model.name(), kStudyNoteBytes);
  return fmt::format("a model of {} layers, hidden {}", base::CountText(model.layers()),
                     base::CountText(model.hidden()));
}

// Returns the cluster's name, or its size and devices.
std::string StudyClusterText(const v1::ClusterSpec& cluster) {
  if (!cluster.name().empty()) return base::OneLine(cluster.name(), kStudyNoteBytes);
  std::string text = cluster.local() ? "local" : "";
  for (const v1::NodeGroup& group : cluster.groups()) {
    const std::string& device = group.device().name().empty() ? group.device().kind() : group.device().name();
    text += fmt::format("{}{}x{} {}", text.empty() ? "" : ", ", group.nodes(), group.gpus_per_node(),
                        base::OneLine(device, kStudyNoteBytes));
  }
  return text;
}

Json WorkloadOf(const v1::Workload& workload) {
  Json json{{"global_batch", workload.global_batch()},
            {"seq_len", workload.seq_len()},
            {"precision", workload.precision()}};
  if (!workload.optimizer().name().empty()) json["optimizer"] = workload.optimizer().name();
  if (workload.optimizer().momentum() != 0) json["momentum"] = workload.optimizer().momentum();
  return json;
}

// Returns the precision, and the optimizer unless it is AdamW.
std::string StatesOf(const v1::Workload& workload) {
  const v1::Optimizer& optimizer = workload.optimizer();
  if (optimizer.name().empty()) return workload.precision();
  return fmt::format("{}, {}{}", workload.precision(), optimizer.name(),
                     optimizer.momentum() != 0 ? fmt::format(" with momentum {}", optimizer.momentum()) : "");
}

Json StudyJson(const v1::Study& study, const std::string& state) {
  const auto& spec = study.spec();
  Json json{{"study", study.name()},
            {"state", state},
            {"phase", study.phase()},
            {"message", study.message()},
            {"waiting", study.waiting()},
            {"owner", study.owner()},
            {"weight", study.weight() > 0 ? study.weight() : 1},
            {"trace_id", base::TraceOf(study.trace_parent())},
            {"model", spec.model().name()},
            {"cluster", spec.cluster().name()},
            {"workload", WorkloadOf(spec.workload())},
            {"enumerated", study.counts().enumerated()},
            {"predicted", study.counts().predicted()},
            {"measured", study.counts().measured()},
            {"create_time_s", study.create_time_s()}};
  json["end_time_s"] = study.end_time_s() > 0 ? Json(study.end_time_s()) : Json(nullptr);
  json["best"] = nullptr;
  if (study.best().has_measured()) {
    json["best"] = {{"plan_text", study.best().plan_text()},
                    {"provenance", Provenance(study.best())},
                    {"step_time_s", study.best().measured().median_step_time_s()},
                    {"ci95_s", study.best().measured().ci95_s()},
                    {"slice", study.best().measured().slice()}};
  }
  return json;
}

int RunStudies(const StudiesArgs& args) {
  const auto reader = StudyReader::Open(args.service);
  if (!reader.ok()) return Fail(reader.status());
  const auto studies = (*reader)->Studies();
  if (!studies.ok()) return Fail(studies.status());
  if (args.json) {
    Json json = Json::array();
    for (const auto& study : *studies) json.push_back(StudyJson(study, (*reader)->StateOf(study)));
    return Answer(json.dump(2) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"study", "state", "began", "measured", "best (measured)"}};
  TableNotes notes = {.below = {"model, cluster and workload; plan; note"}};
  for (const auto& study : *studies) {
    const auto& spec = study.spec();
    const bool measured = study.best().has_measured();
    rows.push_back({LastPart(study.name()), (*reader)->StateOf(study), TimeText(study.create_time_s()),
                    fmt::format("{} of {}", study.counts().measured(), study.counts().predicted()),
                    measured
                        ? fmt::format("{}{}", base::SecondsText(study.best().measured().median_step_time_s()),
                                      SliceMark(study.best().measured()))
                        : "-"});
    const auto& workload = spec.workload();
    notes.below.push_back(
        fmt::format("{} on {}, {} sequences of {} tokens, {}\n{}\n{}", ModelText(spec.model()),
                    StudyClusterText(spec.cluster()), base::CountText(workload.global_batch()),
                    base::CountText(workload.seq_len()), StatesOf(workload),
                    measured ? WithShortSplit(study.best().plan_text()) : "",
                    base::OneLine(study.waiting().empty() ? study.message() : "waiting: " + study.waiting(),
                                  kStudyNoteBytes)));
  }
  if (studies->empty()) Note("no studies yet; autocfg search creates one");
  return Answer(Table(rows, notes));
}

}  // namespace

void AddStudies(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("studies", "list studies, newest first");
  const auto args = std::make_shared<StudiesArgs>();
  AddServiceOptions(verb, args->service);
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunStudies(*args); }; });
}

}  // namespace autocfg::cli
