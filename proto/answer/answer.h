// What a search says, with the question that it answers, and what follows from it: which plan's time counts,
// how far ahead the best plan is, which plans are tied with it. Pure functions, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/run.h"
#include "search/predict/predict_plan.h"

namespace autocfg {

// The inputs of a search.
struct SearchQuestion : Problem {
  EngineDevice device = EngineDevice::kCpu;  // that measures; not kDry
  bool predict_only = false;                 // nothing is measured
  bool kept = true;                          // the database has the study
  std::string coordinator = {};              // whose workers measured; empty: this machine
  std::vector<std::string> notes = {};       // assumptions, and caveats of the answer
  std::vector<std::string> not_considered =
      {};  // by a search: ways of splitting, and options left at default
};

struct SearchAnswer {
  SearchQuestion question;
  v1::Recommendation found;  // with the name and the usage of its study
};

// Returns whether the plan was measured with all its ranks. A slice runs one rank alone, so its time is not
// that of a step.
bool MeasuredWhole(const v1::Candidate& candidate);

// Returns the time that a candidate is ranked by: its median if it was measured as a whole, else predicted.
double RankedSeconds(const v1::Candidate& candidate);

// Returns whether that time is "measured" or "predicted".
std::string_view Provenance(const v1::Candidate& candidate);

// Returns the rates of a candidate's plan at a step time; zero for a plan that this version cannot read.
Throughput RatesAt(const SearchQuestion& question, const v1::Candidate& candidate, double step_time_s);

// Returns whether the plans are tied: both were measured as a whole, and the candidate's 95% interval begins
// before the end of that of the best plan.
bool IsTied(const v1::Candidate& candidate, const v1::Candidate& best);

// Returns the number of plans that are tied with the best one, whether or not they are among the runners-up.
int TiedWithBest(const v1::Recommendation& found);

// Returns by how much longer the first runner-up takes than the best plan, as a fraction. Nothing if either
// is missing.
std::optional<double> LeadOf(const v1::Recommendation& found);

// Returns the free part of a rank's memory, from 0 to 1.
double FreeShare(const v1::Prediction& predicted);

// Predictions do not tell plans of one cluster apart whose step times differ by less than this fraction. The
// plan that is predicted to be the fastest took 3.4% longer than the fastest measured one, in the mean over
// 45 steps of GPTs on 8 to 64 nodes of A100s to which nothing was fitted (docs/predictions.md, "How good the
// predictions are"); identical runs that were published twice differ by 1% to 8%.
inline constexpr double kPredictionsTellApart = 0.03;

// The runners-up whose predicted times are too close to that of the best plan to say which is faster.
struct PredictionTies {
  int count = 0;
  // The one of these that leaves the most memory free: the choice if something needs memory that is not
  // predicted. Null unless it leaves kMuchMoreFree of a rank's memory more than the best plan.
  const v1::Candidate* roomier = nullptr;  // points into the answer
};
inline constexpr double kMuchMoreFree = 0.02;

// Nothing if the best plan was measured as a whole, or there is none: then predictions decide nothing.
std::optional<PredictionTies> PredictionTiesOf(const v1::Recommendation& found);

// Returns how many plans a core evaluated in a second of planning; 0 if planning took no time.
double EvaluatedPerSecond(const v1::Recommendation& found);

}  // namespace autocfg
