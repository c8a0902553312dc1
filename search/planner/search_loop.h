// The search: which plans to measure next, and when there is evidence enough. A state machine without clock,
// threads or I/O: whoever drives it (server/study_runner) carries out what Next() asks for and tells it what
// came out. Observing the same outcomes in the same order leads to the same decisions, so a stored study is
// resumed by replaying it. Not thread-safe.
//
// The course: enumerate; predict memory; the driver calibrates; closed form for all, the simulator for the
// shortlist; rounds of trials, predictions recalibrated after each; then the plans that are statistically
// tied with the best are repeated in turns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/planner/strategy.h"
#include "search/space/search_space.h"

namespace autocfg {

struct SearchOptions {
  bool exhaustive = false;  // every feasible plan is measured
  bool predict_only = false;
  std::int64_t max_trials = 0;  // 0: the planner's own bound
  std::uint64_t seed = 1;
};

// What a trial measured. Seconds of each timed step.
struct Sample {
  std::vector<double> step_time_s;
  double device_s = 0;
};

enum class TrialOutcome : std::uint8_t { kMeasured, kOutOfMemory, kFailed, kTimedOut, kCancelled, kLost };

struct TrialRequest {
  ParallelPlan plan;
  std::int64_t repeat = 0;  // 0: the first measurement of this plan
  Prediction predicted;     // as of now
};

struct SearchCounts {
  std::int64_t enumerated = 0;
  std::int64_t illegal = 0;
  std::int64_t out_of_memory = 0;
  std::int64_t predicted = 0;
  std::int64_t evaluated = 0;
  std::int64_t measured = 0;
  std::map<std::string, std::int64_t> rejected;  // by reason; includes "out_of_memory"
};

struct RankedPlan {
  ParallelPlan plan;
  Prediction predicted;
  std::optional<double> median_step_time_s;  // measured, over all repeats
  std::optional<double> ci95_s;              // half width, of the median
  std::vector<double> step_time_s;           // all measured steps
};

enum class SearchPhase : std::uint8_t { kCalibrating, kMeasuring, kConfirming, kDone };
std::string_view Name(SearchPhase phase);

class SearchLoop {
 public:
  // Enumerates and predicts memory. InvalidArgument as the parts say.
  static absl::StatusOr<SearchLoop> Create(const ModelSpec& model, const Workload& workload,
                                           const ClusterSpec& cluster, const AxisValues& space,
                                           const SearchOptions& options);

  SearchPhase phase() const;
  const SearchCounts& counts() const;

  // The distinct ops of the feasible plans (of their programs, all stages), most promising to matter first:
  // what a calibration job is to time.
  std::vector<OpDesc> CalibrationOps() const;

  // Predicts times. Requires: phase is kCalibrating. Plans whose memory with `device_overhead_bytes` exceeds
  // the capacity are counted as out of memory from here on.
  absl::Status SetCalibration(const OpTimes& times, std::int64_t device_overhead_bytes);

  // The next trials, best chance first; those asked for and not yet observed are not asked for again. Empty
  // while outcomes are awaited that the next decision needs, and when the phase is kDone.
  std::vector<TrialRequest> Next();

  // InvalidArgument if the trial was never asked for.
  absl::Status Observe(const ParallelPlan& plan, std::int64_t repeat, TrialOutcome outcome,
                       const Sample& sample);

  // No new trials are asked for; what is known decides (time budget, cancel).
  void Stop();

  // All feasible plans, best first: measured ones by their median, ahead of all that are only predicted.
  std::vector<RankedPlan> Ranking(std::size_t limit) const;

  // Predicted device seconds of measuring, as the trials were, every feasible plan that has not been: what an exhaustive search would take beyond what
  // this one took. 0 before any trial was measured.
  double UnmeasuredDeviceSeconds() const;

  // Trials that are likely still to come, at most.
  std::int64_t TrialsLeft() const;

 private:
  struct State;
  explicit SearchLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;

 public:
  SearchLoop(SearchLoop&&) noexcept;
  SearchLoop& operator=(SearchLoop&&) noexcept;
  ~SearchLoop();
};

}  // namespace autocfg
