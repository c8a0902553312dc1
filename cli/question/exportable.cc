#include "cli/question/exportable.h"

#include "base/status_macros.h"
#include "cli/terminal/console.h"
#include "proto/convert/spec_convert.h"
#include "search/frameworks/export_target.h"

namespace autocfg::cli {
namespace {

absl::Status ExportStatus(const v1::Recommendation& answer, const SearchQuestion& question,
                          const ExportTarget& target) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(answer.best().plan()));
  return Export(ExportedRun{{question, plan}}, target).status();
}

// The framework whose step was predicted; null if it is this program's own engine.
const ExportTarget* PredictedFramework(const SearchQuestion& question) {
  const ExportTarget* target = FindExportTarget(question.cluster.engine.name);
  return target == nullptr || target->version.empty() ? nullptr : target;
}

}  // namespace

std::string NotExportable(const v1::Recommendation& answer, const SearchQuestion& question) {
  const ExportTarget* target = PredictedFramework(question);
  if (target == nullptr || !answer.has_best()) return "";
  const absl::Status status = ExportStatus(answer, question, *target);
  return status.ok() ? "" : Text(status);
}

std::string FrameworkFor(const v1::Recommendation& answer, const SearchQuestion& question) {
  if (!answer.has_best()) return "";
  const ExportTarget* own = PredictedFramework(question);
  for (const ExportTarget& target : ExportTargets()) {
    if (target.version.empty() || (own != nullptr && own != &target)) continue;
    if (ExportStatus(answer, question, target).ok()) return std::string(target.name);
  }
  return "";
}

}  // namespace autocfg::cli
