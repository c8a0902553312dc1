#include "search/cost/timing/pipeline_costs.h"

namespace autocfg {

void Scale(StageCosts& costs, double factor) {
  // Names every field, so that a new one does not compile until its part is decided.
  auto& [forward_s, backward_s, first_saves_s, weight_s, weight_first_saves_s, recompute_s, tp_forward_s,
         tp_backward_s, tp_recompute_s, tp_weight_s, dp_s, hidden_forward_s, hidden_backward_s,
         hidden_first_less_s, forward_ops, backward_ops, weight_ops] = costs;
  for (double* cost :
       {&forward_s, &backward_s, &first_saves_s, &weight_s, &weight_first_saves_s, &recompute_s,
        &tp_forward_s, &tp_backward_s, &tp_recompute_s, &tp_weight_s, &dp_s, &hidden_forward_s,
        &hidden_backward_s, &hidden_first_less_s, &forward_ops, &backward_ops, &weight_ops})
    *cost *= factor;
}

}  // namespace autocfg
