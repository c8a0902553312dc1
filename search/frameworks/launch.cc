#include "search/frameworks/launch.h"

#include <fmt/format.h>

#include <algorithm>

namespace autocfg {

NodeLayout LayoutOf(const ExportedRun& run) {
  const std::int64_t ranks = RankCount(run.plan);
  std::int64_t each = run.ranks_per_node > 0 ? run.ranks_per_node : ranks;
  if (!run.cluster.groups.empty()) each = run.cluster.groups.front().gpus_per_node;
  each = std::clamp<std::int64_t>(each, 1, ranks);
  while (ranks % each != 0) --each;
  return {.nodes = ranks / each, .ranks_per_node = each};
}

std::string WithFileName(std::string text, std::string_view path) {
  constexpr std::string_view kPlace = "{file}";
  for (std::size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + path.size()))
    text.replace(at, kPlace.size(), path);
  return text;
}

std::string TorchrunLine(const Launch& launch, const NodeLayout& layout) {
  const std::string where = layout.nodes == 1
                                ? "--standalone"
                                : fmt::format(
                                      "--nnodes {} --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\" "
                                      "--master-port \"${{MASTER_PORT:-29500}}\"",
                                      layout.nodes);
  return fmt::format("torchrun {} --nproc-per-node {} {} {}", where, layout.ranks_per_node, launch.program,
                     launch.arguments);
}

}  // namespace autocfg
