#include "cli/question/exportable.h"

#include "base/status_macros.h"
#include "cli/terminal/console.h"
#include "proto/convert/spec_convert.h"
#include "search/frameworks/export_target.h"

namespace autocfg::cli {
namespace {

absl::Status ExportStatus(const SearchAnswer& answer, const ExportTarget& target) {
  const auto& [question, found] = answer;
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(found.best().plan()));
  return Export(ExportedRun{{question, plan}}, target).status();
}

// The framework whose step was predicted; null if it is this program's own engine.
const ExportTarget* PredictedFramework(const SearchQuestion& question) {
  const ExportTarget* target = FindExportTarget(question.cluster.engine.name);
  return target == nullptr || target->version.empty() ? nullptr : target;
}

}  // namespace

std::string NotExportable(const SearchAnswer& answer) {
  const ExportTarget* target = PredictedFramework(answer.question);
  if (target == nullptr || !answer.found.has_best()) return "";
  const absl::Status status = ExportStatus(answer, *target);
  return status.ok() ? "" : Text(status);
}

std::string FrameworkFor(const SearchAnswer& answer) {
  if (!answer.found.has_best()) return "";
  const ExportTarget* own = PredictedFramework(answer.question);
  for (const ExportTarget& target : ExportTargets()) {
    if (target.version.empty() || (own != nullptr && own != &target)) continue;
    if (ExportStatus(answer, target).ok()) return std::string(target.name);
  }
  return "";
}

}  // namespace autocfg::cli
