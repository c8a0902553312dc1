// What a study searches, checked: the SearchSpec message as the structs of search/. Pure functions,
// thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/workload.h"
#include "search/planner/search_loop.h"

namespace autocfg {

struct SearchProblem {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  AxisValues space;
  SearchOptions options;
  double time_budget_s = 0;  // 0 = none
  std::string device;        // "cpu"
};

// Fills defaults: the model's by FillDefaults, seq_len = the model's max_seq_len, precision fp32, device cpu;
// sorts the axes and their values. InvalidArgument names the field ("spec.model: ..."); Unimplemented names
// what the engine or the search does not do yet.
absl::StatusOr<SearchProblem> ParseSearchSpec(const v1::SearchSpec& spec);

// The normal form: equal problems give equal messages.
v1::SearchSpec ToProto(const SearchProblem& problem);

// Of the normal form, the same on every machine: 16 hexadecimal digits.
std::string SpecFingerprint(const v1::SearchSpec& normal_form);

}  // namespace autocfg
