#include "search/frameworks/export_target.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "search/frameworks/framework_rules.h"
#include "search/frameworks/writers.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

constexpr std::array kTargets = {
    ExportTarget{kMegatron, "flags of Megatron-LM, an option a line", "megatron.args", kMegatronVersion,
                 &WriteMegatron},
    ExportTarget{kNemo, "YAML of NeMo 1.x", "nemo.yaml", kNemoVersion, &WriteNemo},
    ExportTarget{kDeepSpeed, "JSON of DeepSpeed, without the model", "deepspeed.json", kDeepSpeedVersion,
                 &WriteDeepSpeed},
    ExportTarget{kTorchtitan, "TOML of torchtitan, for sizes of Llama 3", "torchtitan.toml",
                 kTorchtitanVersion, &WriteTorchtitan},
    ExportTarget{"autocfg", "JSON that train --input and predict --input take", "best.json", "",
                 &WriteOwnForm},
};

}  // namespace

std::span<const ExportTarget> ExportTargets() { return kTargets; }

const ExportTarget* FindExportTarget(std::string_view name) {
  for (const ExportTarget& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

std::string UnknownExportTarget(std::string_view name, const std::vector<std::string>& more) {
  std::vector<std::string> names;
  names.reserve(kTargets.size() + more.size());
  for (const ExportTarget& target : kTargets) names.emplace_back(target.name);
  names.insert(names.end(), more.begin(), more.end());
  return fmt::format("unknown target '{}'; expected {}", base::Printable(name), base::ChoiceText(names));
}

absl::StatusOr<ExportedFile> Export(const ExportedRun& run, const ExportTarget& target) {
  ExportedRun canonical = run;
  canonical.plan = Canonical(run.plan);
  if (canonical.plan.split == SplitMode::kAuto) {
    return base::InvalidArgument("plan", "split=auto names no layers; give those of each stage");
  }
  AUTOCFG_RETURN_IF_ERROR(
      CheckLegal(canonical.model, canonical.workload, RankCount(canonical.plan), canonical.plan));
  auto file = target.write(canonical);
  if (!file.ok()) return file;
  // The launch line among the comments.
  const std::string_view path = run.file_path.empty() ? target.file_name : std::string_view(run.file_path);
  file->text = WithFileName(std::move(file->text), path);
  file->evidence = WithFileName(std::move(file->evidence), path);
  return file;
}

}  // namespace autocfg
