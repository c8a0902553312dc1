#include "search/fit/fitted_figures.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>

namespace autocfg {
namespace {

// A host that issues ops from C++ needs a few microseconds for one, and one that runs a script a hundred
// (predict/prediction_interval.h). The middle of both stands for an unknown host.
constexpr double kUnknownHostOpSeconds = 2e-5;

// What stands for figures that a cluster does not give.
constexpr double kNothing = 0, kOne = 1, kHalfOfHeadDim = 24, kMicrosecond = 1e-6;

using Group = NodeGroup;
using Efficiency = DeviceEfficiency;

// Return the part of a group that has the member.
template <typename Value>
auto& In(auto& group, Value Group::* /*member*/) {
  return group;
}
template <typename Value>
auto& In(auto& group, Value Efficiency::* /*member*/) {
  return group.device.efficiency;
}

double Known(double value) { return value; }
double Known(const std::optional<double>& value) { return value.value_or(0); }

double ValueIn(const NodeGroup& /*group*/, const double* value) { return *value; }
double ValueIn(const NodeGroup& group, auto member) { return Known(In(group, member).*member); }

// A row; where the cluster does not give the figure, `kElse` stands for it, a constant or another figure.
template <auto kMember, auto kElse = &kNothing>
constexpr FigureToFit FitRow(std::string_view name, std::string_view determined_by, double prior_sigma,
                             double least, double most, bool between_nodes = false) {
  const auto get = [](const NodeGroup& group) {
    const double given = ValueIn(group, kMember);
    return given > 0 ? given : ValueIn(group, kElse);
  };
  const auto set = [](NodeGroup& group, double value) { In(group, kMember).*kMember = value; };
  return {name, determined_by, prior_sigma, least, most, get, set, between_nodes};
}

constexpr double kLeastShare = 0.001;

constexpr std::array<FigureToFit, 15> kFigures = {{
    FitRow<&Efficiency::matmul>("efficiency.matmul", "hidden of 4096 and more, tp=1", 0.06, 0.05, 1),
    FitRow<&Efficiency::matmul_k_half, &kOne>("efficiency.matmul_k_half", "small and large hidden", 0.3, 1,
                                              10'000),
    FitRow<&Efficiency::attention_forward>(
        "efficiency.attention_forward", "attention=fused, long seq_len, recompute=full", 0.7, kLeastShare, 2),
    FitRow<&Efficiency::attention_backward>("efficiency.attention_backward", "attention=fused, long seq_len",
                                            0.7, kLeastShare, 2),
    FitRow<&Efficiency::attention_head_dim_half, &kHalfOfHeadDim>(
        "efficiency.attention_head_dim_half", "attention=fused, small and large heads", 1, 1, 10'000),
    FitRow<&Efficiency::memory>("efficiency.memory", "small hidden, large micro_batch", 0.3, 0.05, 1),
    FitRow<&Efficiency::op_overhead_s, &kMicrosecond>(
        "efficiency.op_overhead_s", "small hidden and micro_batch, a fast host", 0.1, 1e-8, 1e-3),
    FitRow<&Efficiency::optimizer, &Efficiency::memory>("efficiency.optimizer", "one microbatch a step", 0.5,
                                                        kLeastShare, 1),
    FitRow<&Efficiency::data_exposed, &kOne>("efficiency.data_exposed", "several dp, the rest the same", 0.7,
                                             kLeastShare, 1),
    FitRow<&Efficiency::intra_node>("efficiency.intra_node", "tp above 1 within a node", 0.15, kLeastShare,
                                    1),
    FitRow<&Efficiency::inter_node>("efficiency.inter_node", "dp over nodes, few microbatches", 0.3,
                                    kLeastShare, 1, true),
    FitRow<&Efficiency::intra_node_message, &Efficiency::intra_node>(
        "efficiency.intra_node_message", "pp above 1 within a node", 1.5, kLeastShare, 1),
    FitRow<&Efficiency::inter_node_message, &Efficiency::inter_node>(
        "efficiency.inter_node_message", "several pp over nodes", 0.5, kLeastShare, 1, true),
    FitRow<&Group::intra_node_latency_s, &kMicrosecond>(
        "intra_node_latency_s", "tp above 1, small hidden and micro_batch", 0.5, 1e-8, 1e-2),
    FitRow<&Group::host_op_s, &kUnknownHostOpSeconds>("host_op_s", "small hidden and micro_batch", 1.5, 1e-8,
                                                      1e-2),
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
