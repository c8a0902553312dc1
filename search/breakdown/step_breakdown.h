// The parts of a step's time, and how the actions of one rank divide a step into them. Plain values and pure
// functions, thread-safe.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "search/schedule/program.h"

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
  bool communicates = false;
};
inline constexpr std::array<BreakdownPart, 8> kBreakdownParts = {
    {{"compute", "compute", &Breakdown::compute},
     {"recompute", "recompute", &Breakdown::recompute},
     {"tp_comm", "tensor comm.", &Breakdown::tp_comm, true},
     {"pp_comm", "pipeline comm.", &Breakdown::pp_comm, true},
     {"dp_comm", "data comm.", &Breakdown::dp_comm, true},
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

// Returns the seconds of a step in which its rank waits for communication: the parts that communicate.
inline double ExposedComm(const Breakdown& breakdown) {
  double seconds = 0;
  for (const BreakdownPart& part : kBreakdownParts)
    seconds += part.communicates ? breakdown.*part.seconds : 0;
  return seconds;
}

// When an action of a rank ran, in seconds since the step began. A message or collective starts when all of
// its ranks have reached it: the time in which one of them waits for another is not part of it.
struct ActionTime {
  double start_s = 0;
  double end_s = 0;
  double collective_s = 0;  // inside of the action, in collectives; those of recomputation excluded
  double recompute_s = 0;   // inside of the action, in recomputation
  double states_s = 0;      // inside of the action, in collectives of sharded states
  double hidden_s = 0;      // of collectives that ran while the action computed
};

struct RankBreakdown {
  Breakdown parts;
  // Of messages and collectives, the seconds that ran while the rank computed. Not one of the parts. Those
  // that ran at the same time count each.
  double hidden_comm_s = 0;
};

// Divides a step of `step_s` seconds by what one rank did. `times`: by action of `program`. The rank runs its
// computes and collectives one after the other, and each moment of the step belongs to one part:
//
//   forward, backward or a part of it   recompute, tp_comm (collectives), dp_comm (those of sharded states),
//                                       compute (the rest)
//   zeroing, optimizer                  optimizer
//   sum of the gradients of norms       tp_comm
//   other reductions, gathering         dp_comm
//   sum of loss and norm                overhead (the collective), optimizer (the sum of squares)
//   before one of them                  pp_comm while a message runs that it waits for, else bubble
//   after the last one                  pp_comm while any message runs, else bubble
//
// A rank of a job of one (`alone`) waits for no other: what it does between its actions is overhead. Of an
// action that starts before the one before it has ended, only the rest is a part. The parts add up to
// `step_s`, or to the end of the last action if that is later. Requires: times.size() == program.size().
RankBreakdown BreakdownOfRank(const RankProgram& program, std::span<const ActionTime> times, double step_s,
                              bool alone);

}  // namespace autocfg
