#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "search/frameworks/export_target.h"

namespace autocfg {
namespace {

std::string InSingleQuotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

absl::StatusOr<ExportedFile> ExportSlurmScript(const ExportedRun& run, const ExportTarget& engine) {
  auto exported = Export(run, engine);
  if (!exported.ok()) return exported;
  if (exported->launch.program.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("a batch script cannot start {}, whose runs stay on one machine; name a framework that "
                    "trains over nodes",
                    engine.name));
  }
  const NodeLayout layout = LayoutOf(run);
  Launch launch = exported->launch;
  launch.arguments = WithFileName(launch.arguments, "\"$plan\"");
  std::string text = "#!/usr/bin/env bash\n";
  text += fmt::format("# Starts {} on {} nodes of {} GPUs: sbatch THIS_FILE, in the framework's directory.\n",
                      engine.name, layout.nodes, layout.ranks_per_node);
  for (const std::string& line : EvidenceLines(run)) text += fmt::format("# {}\n", line);
  for (const std::string& line : exported->translated) text += fmt::format("# translated: {}\n", line);
  text += fmt::format(
      "#SBATCH --job-name=autocfg-{}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\nset -euo pipefail\n\n",
      engine.name, layout.nodes, layout.ranks_per_node);
  text += fmt::format("plan=$PWD/{}.$SLURM_JOB_ID\n", engine.file_name);
  text += fmt::format("cat >\"$plan\" <<'END_OF_PLAN'\n{}END_OF_PLAN\n\n", exported->text);
  for (const auto& [name, value] : launch.environment) text += fmt::format("export {}={}\n", name, value);
  text +=
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000)) plan\n";
  std::string start = TorchrunLine(launch, layout);
  if (layout.nodes > 1) start = "NODE_RANK=$SLURM_NODEID; " + start;
  text += fmt::format("srun --kill-on-bad-exit=1 bash -c {}\n", InSingleQuotes(start));
  exported->text = std::move(text);
  exported->evidence.clear();  // the script has it
  return exported;
}

}  // namespace autocfg
