#include "proto/convert/breakdown_convert.h"

namespace autocfg {

static_assert(kBreakdownParts.size() == 8, "convert the new part both ways");

v1::Breakdown ToProto(const Breakdown& breakdown) {
  v1::Breakdown message;
  message.set_compute(breakdown.compute);
  message.set_recompute(breakdown.recompute);
  message.set_tp_comm(breakdown.tp_comm);
  message.set_pp_comm(breakdown.pp_comm);
  message.set_dp_comm(breakdown.dp_comm);
  message.set_bubble(breakdown.bubble);
  message.set_optimizer(breakdown.optimizer);
  message.set_overhead(breakdown.overhead);
  return message;
}

Breakdown FromProto(const v1::Breakdown& message) {
  Breakdown breakdown;
  breakdown.compute = message.compute();
  breakdown.recompute = message.recompute();
  breakdown.tp_comm = message.tp_comm();
  breakdown.pp_comm = message.pp_comm();
  breakdown.dp_comm = message.dp_comm();
  breakdown.bubble = message.bubble();
  breakdown.optimizer = message.optimizer();
  breakdown.overhead = message.overhead();
  return breakdown;
}

v1::Breakdown ToProto(const RankBreakdown& breakdown) {
  v1::Breakdown message = ToProto(breakdown.parts);
  message.set_hidden_comm(breakdown.hidden_comm_s);
  return message;
}

}  // namespace autocfg
