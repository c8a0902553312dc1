// Answers to several questions of one search: as a table for people, and as JSON (docs/formats.md, "Answers
// to several questions"). All of them are predicted. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "search/training_time/training_estimate.h"

namespace autocfg::cli {

// What distinguishes a question from the others. Empty: not known, because the question is wrong.
struct Asked {
  std::string cluster = {};  // as --cluster names it
  std::optional<std::int64_t> nodes = {};
  std::int64_t global_batch = 0;
  std::optional<std::int64_t> seq_len = {};
};

struct AnsweredQuestion {
  Asked asked;
  std::optional<SearchAnswer> answer = {};  // none if the question is wrong
  std::string wrong = {};                   // why the question is wrong; else empty
  bool HasPlan() const { return answer && answer->found.nothing_fits().empty(); }
  std::string Reason() const;  // why there is no plan; empty if there is one
};

// Returns for each answer whether it is on the front of step time against the number of GPUs: no other answer
// for the same cluster, global batch and sequence length has at most as many GPUs and at most its step time,
// and is better in one of them. Answers without a plan are not.
std::vector<bool> OnGpuFront(const std::vector<AnsweredQuestion>& answers);

// Returns a table with a row for each answer, and the reasons of those without a plan below it. The column
// `cluster` is left out if all questions name the same one. `terms`: what is asked about a whole run.
std::string QuestionsReport(const std::vector<AnsweredQuestion>& answers, const TrainingTerms& terms = {});

// Returns {"questions": [...]}. InvalidArgument if a plan in an answer is invalid.
absl::StatusOr<nlohmann::ordered_json> QuestionsJson(const std::vector<AnsweredQuestion>& answers,
                                                     const TrainingTerms& terms = {});

}  // namespace autocfg::cli
