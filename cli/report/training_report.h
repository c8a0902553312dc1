// Days and cost of a whole training run, for people and as JSON (docs/formats.md, "Days and cost of a run").
// Pure functions, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "search/training_time/training_estimate.h"

namespace autocfg::cli {

struct TrainingAnswer {
  TrainingEstimate estimate;
  bool measured = false;  // from the measured step time, else from the predicted one
};

// Estimates the run with the best plan of a search: by its measured step time if it was measured as a whole.
// Empty if nothing is asked or there is no plan.
std::optional<TrainingAnswer> TrainingOf(const TrainingTerms& terms, const SearchAnswer& answer);

// What was not asked, or does not follow from what is given, is null.
nlohmann::ordered_json TrainingJson(const TrainingAnswer& training);

// Returns up to four lines; empty for no answer.
std::string TrainingText(const std::optional<TrainingAnswer>& training);

// Columns of a table for what is asked: their titles, and their cells ("-" for no answer).
std::vector<std::string> TrainingTitles(const TrainingTerms& terms);
std::vector<std::string> TrainingCells(const TrainingTerms& terms,
                                       const std::optional<TrainingAnswer>& training);

// "300B", "1.5T", "2.1M".
std::string TokensText(double tokens);
// "12.3 days", "1,204 days"; below two days "5 h 30 min" and the like.
std::string DaysText(double days);

}  // namespace autocfg::cli
