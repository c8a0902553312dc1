#include "search/frameworks/export_target.h"

#include <fmt/format.h>

#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "search/frameworks/adapter.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"

namespace autocfg {

std::span<const ExportTarget> ExportTargets() {
  static const std::vector<ExportTarget> targets = [] {
    std::vector<ExportTarget> all;
    for (const FrameworkAdapter* adapter : FrameworkAdapters()) {
      if (adapter->exported) all.push_back(adapter->target);
    }
    all.push_back({"autocfg", "JSON that train --input and predict --input take", "best.json", "",
                   [](const ExportedRun&, Refusals&) {}, &WriteOwnForm});
    return all;
  }();
  return targets;
}

const ExportTarget* FindExportTarget(std::string_view name) {
  for (const ExportTarget& target : ExportTargets()) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

std::string UnknownExportTarget(std::string_view name, const std::vector<std::string>& more) {
  std::vector<std::string> names;
  for (const ExportTarget& target : ExportTargets()) names.emplace_back(target.name);
  names.insert(names.end(), more.begin(), more.end());
  return fmt::format("unknown target '{}'; expected {}", base::Printable(name), base::ChoiceText(names));
}

std::string HeaderOf(std::string_view title, const ExportedRun& run, const ExportedFile& file) {
  std::string text = fmt::format("# {}\n", title);
  for (const std::string& line : EvidenceLines(run)) text += fmt::format("# {}\n", line);
  for (const std::string& line : file.translated) text += fmt::format("# translated: {}\n", line);
  for (const auto& [name, value] : file.launch.environment) text += fmt::format("# env {}={}\n", name, value);
  return text + fmt::format("# start: {}\n", TorchrunLine(file.launch, LayoutOf(run)));
}

absl::StatusOr<ExportedFile> Export(const ExportedRun& run, const ExportTarget& target) {
  ExportedRun canonical = run;
  canonical.plan = Canonical(run.plan);
  if (canonical.plan.split == SplitMode::kAuto) {
    return base::InvalidArgument("plan", "split=auto names no layers; give those of each stage");
  }
  AUTOCFG_RETURN_IF_ERROR(CheckLegal(canonical, RankCount(canonical.plan)));
  Refusals refuse;
  target.check(canonical, refuse);
  refuse.ByRules(FrameworkRules(target.name), canonical);
  AUTOCFG_RETURN_IF_ERROR(refuse.For(target.name));
  ExportedFile file = target.write(canonical);
  // The launch line among the comments.
  const std::string_view path = run.file_path.empty() ? target.file_name : std::string_view(run.file_path);
  file.text = WithFileName(std::move(file.text), path);
  file.evidence = WithFileName(std::move(file.evidence), path);
  return file;
}

}  // namespace autocfg
