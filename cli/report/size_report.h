// The answer of `autocfg size`: for people, and as JSON (docs/formats.md, "Size of a model"). All of it is
// predicted. Pure functions, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "cli/report/training_report.h"
#include "nlohmann/json.hpp"
#include "search/sizing/size_search.h"

namespace autocfg::cli {

// What was asked, and what was assumed.
struct SizeAsked {
  SizeQuestion question;
  TrainingTerms terms = {};             // tokens and price, as given
  std::vector<std::string> notes = {};  // assumptions
};

// Returns why the model is not the answer, for a sentence: "it needs 41.2 days for 263B tokens".
std::string WhyNot(const SizedModel& sized);

// Returns why there is no answer at all. Requires an answer without `best`.
std::string WhyNone(const SizeAnswer& answer, const SizeAsked& asked);

// Requires an answer with `best`. `next`: the command that searches all plans of the model. Empty: none is
// proposed.
std::string SizeReport(const SizeAnswer& answer, const SizeAsked& asked, const std::string& next);

nlohmann::ordered_json SizeJson(const SizeAnswer& answer, const SizeAsked& asked);

}  // namespace autocfg::cli
