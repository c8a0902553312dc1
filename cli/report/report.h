// Formats a search's answer for people. Every number says if it was measured or predicted. Pure functions,
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "proto/answer/answer.h"

namespace autocfg::cli {

// `next`: the command that runs the best plan. `training`: lines about a whole run (training_report.h).
// `front`: with the plans that no other beats in both step time and memory.
std::string SearchReport(const SearchAnswer& answer, const std::string& next,
                         const std::string& training = "", bool front = false);

// Returns why there is no plan: "nothing fits: ...", or "no plan ran: ..." if all failed that should fit.
std::string NoPlanText(const v1::Recommendation& answer);

// Returns " (the slice)" if one rank of the plan was measured alone, else nothing. Follows each time of a
// slice, which is no step time of the plan.
std::string_view SliceMark(const v1::Measurement& measured);
// Returns "250 ms +- 2.5 ms" with the mark of a slice; for a column of measured times.
std::string MeasuredCell(const v1::Measurement& measured);
// Returns "250 ms +- 2.5 ms (measured)" with the mark of a slice; for a line of its own.
std::string MeasuredText(const v1::Measurement& measured);

// Returns a plan's text for a table. Trailing stages of a long split are omitted, so that the split does not
// make the text longer than `most`.
std::string ShortPlan(const std::string& plan_text, std::size_t most);

// Returns the line "TITLE PLAN  (HOW)"; the title has its colon.
std::string PlanLine(std::string_view title, const std::string& plan, std::string_view how);

// How the trials of a search ended.
struct TrialEnds {
  std::int64_t answered = 0;                        // measured, or found not to fit
  std::int64_t did_not_fit = 0;                     // of those answered
  std::int64_t without_answer = 0;                  // failed, timed out, lost
  std::map<std::string, std::int64_t> states = {};  // counts of those without an answer, by state name
  std::string first = {};                           // message of the first one without an answer
  std::string first_trial = {};                     // its name
  std::string first_unfit = {};                     // name of the first trial that did not fit
};

TrialEnds EndsOf(const std::vector<v1::Trial>& trials);

// Returns one sentence if a limit ended the search before all the plans it would have measured; otherwise
// empty.
std::string StopNote(const v1::Recommendation& answer, double time_budget_s, std::int64_t max_trials,
                     const TrialEnds& ends);

// Returns "2 of 5 trials gave no answer (failed 1, timed out 1): rank 0: ..."; empty if all gave one.
std::string TextOf(const TrialEnds& ends);

}  // namespace autocfg::cli
