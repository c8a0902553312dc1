// How the time of a step divides into parts. Pure, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "search/cost/timing/closed_form.h"
#include "search/cost/timing/pipeline_costs.h"

namespace autocfg {

// Seconds of one step; the parts add up to the whole.
struct Breakdown {
  double compute = 0;
  double recompute = 0;  // its tensor-parallel communication included
  double tp_comm = 0;
  double pp_comm = 0;
  double dp_comm = 0;
  double bubble = 0;
  double optimizer = 0;
  double overhead = 0;

  double Total() const;
  void Scale(double factor);  // every part
};

// One row per part, in the order in which reports list them. Sums, conversions and reports go through the
// rows: a new part is a field and a row.
struct BreakdownPart {
  std::string_view name;   // in JSON and protobuf
  std::string_view label;  // in reports
  double Breakdown::*seconds;
};
inline constexpr std::array<BreakdownPart, 8> kBreakdownParts = {
    {{"compute", "compute", &Breakdown::compute},
     {"recompute", "recompute", &Breakdown::recompute},
     {"tp_comm", "tensor comm.", &Breakdown::tp_comm},
     {"pp_comm", "pipeline comm.", &Breakdown::pp_comm},
     {"dp_comm", "data comm.", &Breakdown::dp_comm},
     {"bubble", "bubble", &Breakdown::bubble},
     {"optimizer", "optimizer", &Breakdown::optimizer},
     {"overhead", "overhead", &Breakdown::overhead}}};
static_assert(sizeof(Breakdown) == kBreakdownParts.size() * sizeof(double), "a part has no row");

inline double Breakdown::Total() const {
  double total = 0;
  for (const BreakdownPart& part : kBreakdownParts) total += this->*part.seconds;
  return total;
}

inline void Breakdown::Scale(double factor) {
  for (const BreakdownPart& part : kBreakdownParts) this->*part.seconds *= factor;
}

// Returns the least time of a pipeline whose ranks share cores: the ranks' mean forward and backward time of
// all microbatches, in seconds.
double SharedCoreSeconds(const PipelineCosts& costs, std::int64_t microbatches);

// Returns the breakdown of a step whose pipeline ends as `pipeline` says (closed_form.h).
Breakdown BreakdownOf(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                      const PipelineEnd& pipeline);

// Returns the breakdown of a timed pipeline. `worked_s`: by rank, the end of its last backward, in seconds
// since the begin of the step.
Breakdown BreakdownOf(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                      std::span<const double> worked_s);

}  // namespace autocfg
