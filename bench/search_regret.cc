// Measures how good the default search's choice is, against an exhaustive one that was run before: replays
// the search on the trials of the exhaustive study. Reports the regret (how much longer the chosen plan's
// step is than that of the fastest plan, by the exhaustive study's medians) and the share of the exhaustive
// study's device seconds that the search would have taken, calibration included.
//
// A trial that the search would run with fewer steps than the exhaustive one is cut to its first steps, and
// its device seconds by those steps. Repeats of a plan, which an exhaustive study makes of its best plans
// only, give the plan's own trial again.
//
// usage: autocfg_search_regret DATABASE [STUDY]      STUDY: 1 by default. Prints JSON.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/statistics.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/plan/plan_text.h"
#include "search/plan/rank_mesh.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"
#include "server/studies/trial_job.h"

namespace autocfg {
namespace {

[[noreturn]] void Die(absl::string_view what) {
  fmt::print(stderr, "autocfg_search_regret: {}\n", std::string(what));
  std::exit(1);
}

template <typename T>
T Get(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().message());
  return *std::move(value);
}

// The first trial of each plan, by the plan's text.
using Trials = std::map<std::string, v1::Trial>;

std::vector<v1::Trial> AllTrials(server::Store& store, std::int64_t study) {
  constexpr int kPage = 500;
  std::vector<v1::Trial> trials;
  while (true) {
    const auto after = static_cast<std::int64_t>(trials.size());  // trials are numbered from 1
    std::vector<v1::Trial> page = Get(store.ListTrials(study, after, kPage));
    if (page.empty()) return trials;
    std::move(page.begin(), page.end(), std::back_inserter(trials));
  }
}

class Replayed final : public server::OutcomeSource {
 public:
  Replayed(const Trials& trials, const server::Store::Calibration& calibration)
      : trials_(trials), calibration_(calibration) {}

  absl::StatusOr<std::optional<server::Store::Calibration>> Calibrate(const SearchLoop& /*loop*/) override {
    return std::optional(calibration_);
  }
  absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest& request) override {
    const auto found = trials_.find(PlanText(request.plan));
    if (found == trials_.end()) Die(PlanText(request.plan) + " was not measured by the exhaustive study");
    asked_.push_back(Cut(found->second, request));
    return std::optional(static_cast<std::int64_t>(asked_.size()));
  }
  absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t number) override {
    return std::optional(asked_[static_cast<std::size_t>(number - 1)]);
  }
  bool StopNow() override { return false; }

  double device_s() const {
    double sum = 0;
    for (const v1::Trial& trial : asked_) sum += trial.measured().device_s();
    return sum;
  }
  std::size_t trials() const { return asked_.size(); }

 private:
  static v1::Trial Cut(v1::Trial trial, const TrialRequest& request) {
    trial.set_repeat(request.repeat);
    auto& steps = *trial.mutable_measured()->mutable_step_time_s();
    const int wanted = static_cast<int>(server::StepsFor(request).timed);
    double left_out_s = 0;
    for (int i = wanted; i < steps.size(); ++i) left_out_s += steps[i];
    steps.Truncate(std::min(wanted, steps.size()));
    const double device_s =
        trial.measured().device_s() - left_out_s * static_cast<double>(RankCount(request.plan));
    trial.mutable_measured()->set_device_s(device_s);
    return trial;
  }

  const Trials& trials_;
  const server::Store::Calibration& calibration_;
  std::vector<v1::Trial> asked_;
};

nlohmann::ordered_json Regret(const std::string& path, std::int64_t id) {
  const std::unique_ptr<server::Store> store = Get(server::OpenSqliteStoreReadOnly(path));
  const v1::Study study = Get(store->GetStudy(id));
  server::SearchProblem problem = Get(server::ParseSearchSpec(study.spec()));
  if (!problem.options.exhaustive) Die(fmt::format("study {} is not exhaustive", id));
  Trials trials;
  double all_trials_device_s = 0;
  for (v1::Trial& trial : AllTrials(*store, id)) {
    all_trials_device_s += trial.measured().device_s();
    if (trial.repeat() == 0) trials.emplace(trial.plan_text(), std::move(trial));
  }
  double best_s = std::numeric_limits<double>::infinity(), trials_device_s = 0;
  const auto median = [](const v1::Trial& trial) {
    const auto& steps = trial.measured().step_time_s();
    return base::Median(std::vector<double>(steps.begin(), steps.end()));
  };
  std::string best;
  for (const auto& [plan, trial] : trials) {
    trials_device_s += trial.measured().device_s();
    if (trial.state() != v1::TRIAL_STATE_MEASURED || median(trial) >= best_s) continue;
    best_s = median(trial);
    best = plan;
  }
  const server::Store::Calibration calibration =
      Get(store->GetCalibration(id)).value_or(server::Store::Calibration{});
  const double calibration_device_s = Get(store->Usage(id)).device_s - all_trials_device_s;

  problem.options.exhaustive = false;
  server::StudySearch search = Get(server::StudySearch::Create(problem));
  Replayed replayed(trials, calibration);
  if (absl::Status status = search.Drive(replayed); !status.ok()) Die(status.message());
  const v1::Recommendation answer = search.Recommendation();
  if (!answer.has_best()) Die("the search found no plan");
  const double chosen_s = median(trials.at(answer.best().plan_text()));
  const double device_s = calibration_device_s + replayed.device_s();
  const double exhaustive_s = calibration_device_s + trials_device_s;
  return {{"plans", trials.size()},
          {"measured", answer.counts().measured()},
          {"trials", replayed.trials()},
          {"device_s", device_s},
          {"exhaustive_device_s", exhaustive_s},
          {"share", device_s / exhaustive_s},
          {"chance_of_better", answer.chance_of_better()},
          {"regret", chosen_s / best_s - 1},
          {"chosen", answer.best().plan_text()},
          {"fastest", best}};
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) autocfg::Die("usage: autocfg_search_regret DATABASE [STUDY]");
  std::int64_t study = 1;
  if (argc == 3) {
    const std::string_view text = argv[2];
    if (std::from_chars(text.data(), text.data() + text.size(), study).ptr != text.data() + text.size())
      autocfg::Die(fmt::format("\"{}\" is no number of a study", text));
  }
  fmt::print("{}\n", autocfg::Regret(argv[1], study).dump(1));
}
