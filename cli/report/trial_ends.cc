#include "cli/report/trial_ends.h"

#include "cli/report/report.h"
#include "fmt/format.h"

namespace autocfg::cli {

TrialEnds EndsOf(const std::vector<v1::Trial>& trials) {
  TrialEnds ends;
  for (const v1::Trial& trial : trials) {
    switch (trial.state()) {
      case v1::TRIAL_STATE_MEASURED:
      case v1::TRIAL_STATE_INFEASIBLE: ++ends.answered; break;
      case v1::TRIAL_STATE_FAILED:
      case v1::TRIAL_STATE_TIMED_OUT:
      case v1::TRIAL_STATE_LOST:
        ++ends.without_answer;
        ++ends.states[StateText(trial.state())];
        if (ends.first.empty()) ends.first = trial.message();
        break;
      default:  // cancelled with its study's budget, or not ended
        break;
    }
  }
  return ends;
}

std::string TextOf(const TrialEnds& ends) {
  if (ends.without_answer == 0) return "";
  std::string states;
  for (const auto& [state, count] : ends.states)
    states += fmt::format("{}{} {}", states.empty() ? "" : ", ", state, count);
  const std::int64_t all = ends.answered + ends.without_answer;
  return fmt::format("{} of {} trial{} gave no answer ({}){}", ends.without_answer, all, all == 1 ? "" : "s",
                     states, ends.first.empty() ? "" : ": " + ends.first);
}

}  // namespace autocfg::cli
