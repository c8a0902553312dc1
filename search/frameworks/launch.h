// How the ranks of an exported run are started. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/frameworks/exported_run.h"

namespace autocfg {

// Nodes with the same number of processes each.
struct NodeLayout {
  std::int64_t nodes = 1;
  std::int64_t ranks_per_node = 1;
};

// Returns the layout of the plan's ranks: as many on a node as its GPUs, or the largest smaller number that
// divides the ranks.
NodeLayout LayoutOf(const ExportedRun& run);

// A program and its arguments as a shell takes them, and the variables that it needs.
struct Launch {
  std::string program;    // "pretrain_gpt.py"
  std::string arguments;  // shell words: "$(grep -v '^#' plan.args)"
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Returns the text with a file's path in place of each {file}.
std::string WithFileName(std::string text, std::string_view path);

// Returns the command that starts one node's ranks by torchrun. The shell has NODE_RANK, MASTER_ADDR and
// MASTER_PORT if there are several nodes.
std::string TorchrunLine(const Launch& launch, const NodeLayout& layout);

}  // namespace autocfg
