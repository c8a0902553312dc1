#include "cli/study/stored_question.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/spec_convert.h"
#include "server/store/store.h"

namespace autocfg::cli {

absl::StatusOr<v1::Trial> TrialNamed(StudyReader& reader, const v1::Study& study, const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyId(study.name()));
  AUTOCFG_ASSIGN_OR_RETURN(const auto trials, reader.Trials(id));
  const std::string name = study.name() + text.substr(std::min(text.find(kTrialsPart), text.size()));
  for (const v1::Trial& trial : trials) {
    if (trial.name() == name) return trial;
  }
  return absl::NotFoundError(
      fmt::format("--study: there is no trial '{}'; autocfg trials lists them", base::Printable(text)));
}

absl::StatusOr<BestPlan> QuestionOfStudy(StudyReader& reader, const std::string& text) {
  const std::size_t slash = text.find(kTrialsPart);
  AUTOCFG_ASSIGN_OR_RETURN(const auto study, reader.StudyNamed(text.substr(0, slash)));
  BestPlan question;
  const auto model = FromProto(study.spec().model());
  if (!model.ok()) return Where("--study", model.status());
  question.model = *model;
  const auto workload = FromProto(study.spec().workload());
  if (!workload.ok()) return Where("--study", workload.status());
  question.workload = *workload;
  auto cluster = FromProto(study.spec().cluster());
  if (!cluster.ok()) return Where("--study", cluster.status());
  question.local = cluster->local;
  question.engine = EngineText(cluster->engine);
  if (study.spec().has_memory_margin()) question.memory_margin = study.spec().memory_margin();
  if (!cluster->local) question.cluster = *std::move(cluster);
  v1::ParallelPlan message = study.best().plan();
  if (slash != std::string::npos) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto trial, TrialNamed(reader, study, text));
    message = trial.plan();
  } else if (!study.has_best()) {
    const std::string number = LastPart(study.name());
    if (server::IsEnd(study.state())) {
      return absl::FailedPreconditionError(fmt::format(
          "--study: study {} has ended without a plan: {}; name another study", number,
          study.message().empty() ? "no plan fits, or none was measured" : base::OneLine(study.message())));
    }
    return absl::FailedPreconditionError(
        fmt::format("--study: study {} has no plan yet; name a trial, as in {}/trials/1, or another study",
                    number, number));
  }
  const auto plan = FromProto(message);
  if (!plan.ok()) return Where("--study", plan.status());
  question.plan = *plan;
  return question;
}

}  // namespace autocfg::cli
