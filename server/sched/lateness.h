// Detects that a periodic thread was late: its process was stopped, the machine was suspended or overloaded,
// or the thread was blocked. Whoever was to call the process meanwhile could not, so deadlines must be
// extended. Not thread-safe.
#pragma once

#include <limits>

namespace autocfg::server {

class Lateness {
 public:
  // `tolerated_s`: lateness that does not count.
  explicit Lateness(double tolerated_s) : tolerated_s_(tolerated_s) {}

  // Call at each look; the next one is due within `next_s`. `now_s` goes on while the process is stopped.
  // Returns by how many seconds this look is late; 0 if by no more than is tolerated.
  double Check(double now_s, double next_s) {
    const double late_s = now_s - due_s_;
    due_s_ = now_s + next_s;
    return late_s > tolerated_s_ ? late_s : 0;
  }

 private:
  const double tolerated_s_;
  double due_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace autocfg::server
