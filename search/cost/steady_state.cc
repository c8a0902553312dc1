#include "search/cost/steady_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace autocfg {
namespace {

// The moves may repeat with any period, such as a few groups of microbatches; most do with one or two.
constexpr std::size_t kRemembered = 2;

// Whether all clocks are later by the same time than their counterparts.
class Shift {
 public:
  explicit Shift(double seconds) : seconds_(seconds) {}
  void Add(double then, double now) {
    if (!(std::abs(now - then - seconds_) <= kRounding * now)) differs_ = true;
  }
  bool IsTheSame() const { return !differs_; }

 private:
  static constexpr double kRounding = 1e-12;
  double seconds_;
  bool differs_ = false;
};

// A clock that lies behind the rank's own holds nothing up any more, wherever it stands.
void AddClocks(const WalkRank& then, const WalkRank& now, Shift& shift) {
  shift.Add(then.now, now.now);
  const auto add = [&](double a, double least_a, double b, double least_b) {
    shift.Add(std::max(a, least_a), std::max(b, least_b));
  };
  const std::size_t sends = now.moves.sends;
  // the lane is waited for by the first of its sends, or one to come
  add(then.send_free, sends > 0 ? then.sends[0].issued : then.now, now.send_free,
      sends > 0 ? now.sends[0].issued : now.now);
  for (std::size_t i = 0; i < sends; ++i) shift.Add(then.sends[i].issued, now.sends[i].issued);
  for (const std::size_t i : {0u, 1u}) {
    if (!now.moves.output_sending[i]) add(then.output_free[i], then.now, now.output_free[i], now.now);
    if (!now.moves.gradient_sending[i]) add(then.gradient_free[i], then.now, now.gradient_free[i], now.now);
  }
}

bool SameMoves(const WalkRank& a, const WalkRank& b) {
  return a.moves == b.moves &&
         std::equal(a.sends.begin(), a.sends.begin() + a.moves.sends, b.sends.begin(),
                    [](const WalkSend& x, const WalkSend& y) { return x.SameMessage(y); });
}

// How often the rank can do what it did since `then` before it comes into another phase.
std::int64_t Times(const WalkRank& then, const WalkRank& now, std::int64_t total) {
  using Phase = WalkRank::Phase;
  const Phase phase = now.PhaseOf(total);
  if (then.PhaseOf(total) != phase) return 0;
  const std::int64_t done = phase == Phase::kBackwards ? now.backwards : now.forwards;
  const std::int64_t again = done - (phase == Phase::kBackwards ? then.backwards : then.forwards);
  const std::int64_t most = phase == Phase::kForwards ? std::min(now.ahead, total - 1) : total - 1;
  return again > 0 ? (most - done) / again : 0;
}

void MoveOn(const WalkRank& then, WalkRank& rank, std::int64_t times, double seconds) {
  rank.forwards += times * (rank.forwards - then.forwards);
  rank.backwards += times * (rank.backwards - then.backwards);
  rank.now += seconds;
  rank.send_free += seconds;
  for (const std::size_t i : {0u, 1u}) {
    rank.output_free[i] += seconds;
    rank.gradient_free[i] += seconds;
  }
  for (WalkSend& send : rank.sends) send.issued += seconds;
}

}  // namespace

SteadyState::Repetition SteadyState::Find(const std::vector<WalkRank>& then,
                                          const std::vector<WalkRank>& now) const {
  Repetition found{.seconds = now.front().now - then.front().now,
                   .times = std::numeric_limits<std::int64_t>::max()};
  Shift shift(found.seconds);
  for (std::size_t r = 0; r < now.size(); ++r) {
    found.times = std::min(found.times, Times(then[r], now[r], total_));
    if (found.times == 0 || !SameMoves(then[r], now[r])) return {};
    AddClocks(then[r], now[r], shift);
    if (!shift.IsTheSame()) return {};
  }
  return found;
}

void SteadyState::Skip(std::vector<WalkRank>& ranks) {
  for (const std::vector<WalkRank>& then : stood_) {
    const Repetition found = Find(then, ranks);
    if (found.times == 0) continue;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      MoveOn(then[r], ranks[r], found.times, static_cast<double>(found.times) * found.seconds);
    }
    stood_.clear();
    next_ = 0;
    return;
  }
  if (stood_.size() < kRemembered) {
    stood_.push_back(ranks);
  } else {
    stood_[next_++ % kRemembered] = ranks;
  }
}

}  // namespace autocfg
