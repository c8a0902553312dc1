// A search's answer for people: every number says whether it was measured or predicted. Pure functions,
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "cli/results_json.h"

namespace autocfg {

// `next`: the command that runs the best plan.
std::string SearchReport(const v1::Recommendation& answer, const SearchQuestion& question,
                         const std::string& next);

// One sentence where a limit ended the search with plans left that it would have measured; empty without.
std::string StopNote(const v1::Recommendation& answer, double time_budget_s, std::int64_t max_trials);

// A plan's text for a table: the stages of a long split are left out, from the end. Never longer than `most`
// for the sake of its split.
std::string ShortPlan(const std::string& plan_text, std::size_t most);

// Text that comes from elsewhere, for a terminal: on one line, without control characters, of `most` bytes at
// most.
std::string Shown(std::string_view text, std::size_t most);

// A cell of a table is cut behind so many bytes.
inline constexpr std::size_t kWidestCell = 400;

// Left-aligned columns, two spaces between them; the first row is the heading. Cells are as Shown has them.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// "created", "running", ...
std::string StateText(v1::StudyState state);
std::string StateText(v1::TrialState state);

}  // namespace autocfg
