// Synthetic searches for tests: a small model on a synthetic machine, with hidden true step times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "search/planner/search_loop.h"
#include "search/space/search_space.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg::test {

inline constexpr std::size_t kAll = 1000000;

inline SearchLoop Loop(const SearchOptions& options = {}, const ClusterSpec& cluster = LocalRanks(8),
                       const Workload& workload = Fp32(16, 32), const AxisValues& space = {}) {
  auto loop = SearchLoop::Create({SmallGpt(12, 128, 8), workload, cluster}, space, options);
  EXPECT_TRUE(loop.ok()) << loop.status();
  return *std::move(loop);
}

inline SearchLoop Calibrated(const SearchOptions& options = {}, const AxisValues& space = {}) {
  SearchLoop loop = Loop(options, LocalRanks(8), Fp32(16, 32), space);
  EXPECT_TRUE(loop.SetCalibration(SyntheticDevice().Measure(loop.CalibrationOps()), 0).ok());
  return loop;
}

// Attention takes a millisecond, everything else almost nothing: only the number of layers matters.
class FlatTimes final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    return op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionBackward ? 1e-3 : 1e-12;
  }
};

// The true step times of a synthetic study: the prediction times hidden factors of the plan's features.
// Measured steps scatter around two peaks, with 3% deviation.
class HiddenTruth {
 public:
  // `own`: standard deviation of each plan's individual effect.
  HiddenTruth(const std::vector<RankedPlan>& predicted, std::uint64_t seed, double own = 0.015)
      : random_(seed) {
    const double common = 0.2 * Normal(), gpipe = 0.1 * Normal(), full = 0.1 * Normal(),
                 slope = 0.05 * Normal(), stages = 0.05 * Normal();
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double> layouts;
    std::map<ParallelPlan, double>
        families;  // plans that differ only in recompute, or in zero above 1, deviate alike
    for (const RankedPlan& r : predicted) {
      const ParallelPlan& p = r.plan;
      const auto [layout, made] = layouts.try_emplace({p.tp, p.pp, p.dp}, 0);
      if (made) layout->second = 0.1 * Normal();
      ParallelPlan family = p;
      SearchSpace::RecomputeValue{}.SetIn(family);
      family.zero_stage = std::min<std::int64_t>(family.zero_stage, 1);
      const auto [deviation, first] = families.try_emplace(family, 0);
      if (first) deviation->second = own * Normal();
      const double log_factor = common + layout->second + (p.schedule == Schedule::kGPipe ? gpipe : 0) +
                                full * r.predicted.breakdown.recompute / r.predicted.breakdown.compute * 3 +
                                slope * std::log2(static_cast<double>(p.micro_batch)) +
                                stages * std::log2(static_cast<double>(p.virtual_stages)) + deviation->second;
      truth_[p] = r.predicted.step_time_s * std::exp(log_factor);
      best_ = std::min(best_, truth_[p]);
    }
  }

  double Of(const ParallelPlan& plan) const { return truth_.at(plan); }
  double best() const { return best_; }

  Sample Measure(const ParallelPlan& plan, int steps = 7) {
    Sample sample;
    for (int i = 0; i < steps; ++i) {
      const double mode =
          random_() % 4 == 0 ? 0.05 : -0.015;  // a quarter of the steps are disturbed by other load
      sample.step_time_s.push_back(Of(plan) * (1 + mode + 0.01 * Normal()));
      sample.device_s += sample.step_time_s.back();
    }
    sample.device_s += 0.5;
    return sample;
  }

 private:
  double Normal() { return normal_(random_); }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::map<ParallelPlan, double> truth_;
  double best_ = std::numeric_limits<double>::infinity();
};

struct Step {
  ParallelPlan plan;
  std::int64_t repeat = 0;
  Sample sample;
};

// Runs a study against the true times. Returns the observations and checks the bounds that every study must
// meet.
inline std::vector<Step> RunStudy(SearchLoop& loop, HiddenTruth& truth) {
  std::vector<Step> log;
  while (loop.phase() != SearchPhase::kDone) {
    const std::int64_t left = loop.TrialsLeft();
    const auto requests = loop.Next();
    EXPECT_FALSE(requests.empty());
    if (requests.empty()) break;
    EXPECT_GE(left, static_cast<std::int64_t>(requests.size()));
    for (const TrialRequest& r : requests) {
      EXPECT_EQ(r.repeat > 0, loop.phase() == SearchPhase::kConfirming);
      log.push_back({r.plan, r.repeat, truth.Measure(r.plan)});
    }
    for (std::size_t i = log.size() - requests.size(); i < log.size(); ++i) {
      EXPECT_TRUE(loop.Observe(log[i].plan, log[i].repeat, TrialOutcome::kMeasured, log[i].sample).ok());
    }
  }
  return log;
}

}  // namespace autocfg::test
