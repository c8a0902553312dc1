#include "search/fit/fitted_figures.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace autocfg {
namespace {

// A host that issues ops from C++ needs a few microseconds for one, and one that runs a script a hundred
// (predict/prediction_interval.h). The middle of both stands for an unknown host.
constexpr double kUnknownHostOpSeconds = 2e-5;

double Given(double value, double otherwise) { return value > 0 ? value : otherwise; }

constexpr double kLeastShare = 0.001;

constexpr std::array<FigureToFit, 15> kFigures = {{
    {"efficiency.matmul", "hidden of 4096 and more, tp=1", 0.06, 0.05, 1,
     [](const NodeGroup& g) { return g.device.efficiency.matmul; },
     [](NodeGroup& g, double v) { g.device.efficiency.matmul = v; }},
    {"efficiency.matmul_k_half", "small and large hidden", 0.3, 1, 10'000,
     [](const NodeGroup& g) { return Given(g.device.efficiency.matmul_k_half, 1); },
     [](NodeGroup& g, double v) { g.device.efficiency.matmul_k_half = v; }},
    {"efficiency.attention_forward", "attention=fused, long seq_len, recompute=full", 0.7, kLeastShare, 2,
     [](const NodeGroup& g) { return g.device.efficiency.attention_forward; },
     [](NodeGroup& g, double v) { g.device.efficiency.attention_forward = v; }},
    {"efficiency.attention_backward", "attention=fused, long seq_len", 0.7, kLeastShare, 2,
     [](const NodeGroup& g) { return g.device.efficiency.attention_backward; },
     [](NodeGroup& g, double v) { g.device.efficiency.attention_backward = v; }},
    {"efficiency.attention_head_dim_half", "attention=fused, small and large heads", 1, 1, 10'000,
     [](const NodeGroup& g) { return Given(g.device.efficiency.attention_head_dim_half, 24); },
     [](NodeGroup& g, double v) { g.device.efficiency.attention_head_dim_half = v; }},
    {"efficiency.memory", "small hidden, large micro_batch", 0.3, 0.05, 1,
     [](const NodeGroup& g) { return g.device.efficiency.memory; },
     [](NodeGroup& g, double v) { g.device.efficiency.memory = v; }},
    {"efficiency.op_overhead_s", "small hidden and micro_batch, a fast host", 0.1, 1e-8, 1e-3,
     [](const NodeGroup& g) { return Given(g.device.efficiency.op_overhead_s.value_or(0), 1e-6); },
     [](NodeGroup& g, double v) { g.device.efficiency.op_overhead_s = v; }},
    {"efficiency.optimizer", "one microbatch a step", 0.5, kLeastShare, 1,
     [](const NodeGroup& g) { return Given(g.device.efficiency.optimizer, g.device.efficiency.memory); },
     [](NodeGroup& g, double v) { g.device.efficiency.optimizer = v; }},
    {"efficiency.data_exposed", "several dp, the rest the same", 0.7, kLeastShare, 1,
     [](const NodeGroup& g) { return Given(g.device.efficiency.data_exposed, 1); },
     [](NodeGroup& g, double v) { g.device.efficiency.data_exposed = v; }},
    {"efficiency.intra_node", "tp above 1 within a node", 0.15, kLeastShare, 1,
     [](const NodeGroup& g) { return g.device.efficiency.intra_node; },
     [](NodeGroup& g, double v) { g.device.efficiency.intra_node = v; }},
    {"efficiency.inter_node", "dp over nodes, few microbatches", 0.3, kLeastShare, 1,
     [](const NodeGroup& g) { return g.device.efficiency.inter_node; },
     [](NodeGroup& g, double v) { g.device.efficiency.inter_node = v; }, true},
    {"efficiency.intra_node_message", "pp above 1 within a node", 1.5, kLeastShare, 1,
     [](const NodeGroup& g) {
       return Given(g.device.efficiency.intra_node_message, g.device.efficiency.intra_node);
     },
     [](NodeGroup& g, double v) { g.device.efficiency.intra_node_message = v; }},
    {"efficiency.inter_node_message", "several pp over nodes", 0.5, kLeastShare, 1,
     [](const NodeGroup& g) {
       return Given(g.device.efficiency.inter_node_message, g.device.efficiency.inter_node);
     },
     [](NodeGroup& g, double v) { g.device.efficiency.inter_node_message = v; }, true},
    {"intra_node_latency_s", "tp above 1, small hidden and micro_batch", 0.5, 1e-8, 1e-2,
     [](const NodeGroup& g) { return Given(g.intra_node_latency_s.value_or(0), 1e-6); },
     [](NodeGroup& g, double v) { g.intra_node_latency_s = v; }},
    {"host_op_s", "small hidden and micro_batch", 1.5, 1e-8, 1e-2,
     [](const NodeGroup& g) { return Given(g.host_op_s.value_or(0), kUnknownHostOpSeconds); },
     [](NodeGroup& g, double v) { g.host_op_s = v; }},
}};

}  // namespace

std::span<const FigureToFit> FiguresToFit() { return kFigures; }

const FigureToFit& FigureToFitOf(std::string_view name) {
  const auto found = std::find_if(kFigures.begin(), kFigures.end(),
                                  [&](const FigureToFit& figure) { return figure.name == name; });
  if (found == kFigures.end()) throw std::invalid_argument(std::string(name) + " is no figure to fit");
  return *found;
}

}  // namespace autocfg
