// The lanes of a rank within an action: its computes, and beside them the collectives that it issues, which
// run one after the other in the order of their issue. The timer of programs (program_timer.h) has lanes
// between actions, this one inside of them. Example, of two chunks whose sums overlap the next product:
//
//   Lanes lanes(contention);
//   lanes.Compute(product_s);
//   lanes.Issue(sum_s);
//   lanes.Compute(product_s);
//   lanes.WaitFor(lanes.Issue(sum_s));
//   lanes.Time();  // when all ends, and how long nothing but collectives ran
//
// Plain values; not thread-safe.
#pragma once

#include <algorithm>

namespace autocfg {

// Returns the seconds of a compute whose first `hidden_s`, at most, run beside collectives. They take
// `contention` of that time from it, a share from 0 to 1 (DeviceEfficiency::overlap_contention).
inline double SecondsBeside(double compute_s, double hidden_s, double contention) {
  const double lost_s = contention * std::max(0.0, hidden_s);
  // Either the collectives end first, or the compute runs beside them to its end.
  return compute_s + lost_s >= hidden_s ? compute_s + lost_s : compute_s / (1 - contention);
}

// A time in which collectives run beside computes, and for how much of it nothing but collectives runs: the
// rank waits for them. What else they take is hidden.
struct OverlapTime {
  double seconds = 0;
  double waited_s = 0;
};

class Lanes {
 public:
  // `contention`: as in SecondsBeside.
  explicit Lanes(double contention) : contention_(contention) {}

  // Runs a compute of that many seconds when nothing runs beside it.
  void Compute(double seconds) {
    alone_s_ += seconds;
    now_s_ += SecondsBeside(seconds, issued_s_ - now_s_, contention_);
  }
  // Issues a collective now. Returns when it ends.
  double Issue(double seconds) { return issued_s_ = std::max(issued_s_, now_s_) + seconds; }
  // Lets the computes wait until then.
  void WaitFor(double end_s) {
    waited_s_ += std::max(0.0, end_s - now_s_);
    now_s_ = std::max(now_s_, end_s);
  }
  void WaitForAll() { WaitFor(issued_s_); }

  OverlapTime Time() const { return {now_s_, waited_s_}; }  // to the end of the computes so far
  // What the collectives added to the computes.
  OverlapTime Added() const { return {now_s_ - alone_s_, waited_s_}; }

 private:
  double contention_;
  double now_s_ = 0, alone_s_ = 0, issued_s_ = 0, waited_s_ = 0;
};

}  // namespace autocfg
