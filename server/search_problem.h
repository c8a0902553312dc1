// What a study searches, checked: the SearchSpec message as the structs of search/. Pure functions,
// thread-safe.
#pragma once

#include <cstdint>
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
  std::string device;        // "cpu", "cuda", "paced"
  // that run at once where a described cluster has more; 0: as many as a node has
  std::int64_t machine_ranks = 0;
};

// How a study comes by its evidence.
enum class Evidence : std::uint8_t {
  kTrials,      // whole plans run on this machine, which the cluster is (`local`)
  kSlices,      // the cluster is many machines like this one: one rank of a plan alone, its peers missing
  kPaced,       // a described cluster, emulated: plans run on devices that take their modelled time
  kPrediction,  // none: predict_only
};
Evidence EvidenceOf(const SearchProblem& problem);

// Whether op times are measured before plans are predicted: on a described cluster they follow from its
// figures instead.
bool NeedsCalibration(const SearchProblem& problem);

// Ranks of the largest plan that is run whole; 0: any.
std::int64_t MeasurableRanks(const SearchProblem& problem);

// Fills defaults: the model's by FillDefaults, seq_len = the model's max_seq_len, precision fp32 on CPUs and
// bf16 on GPUs, device cpu, and cuda for `local` on GPUs; what a described cluster leaves out, by
// AssumeTypicalFigures where it is predicted or emulated, else of its links alone; sorts the axes and their
// values. InvalidArgument names the field ("spec.model: ..."); Unimplemented names what the engine or the
// search does not do yet.
absl::StatusOr<SearchProblem> ParseSearchSpec(const v1::SearchSpec& spec);

// The normal form: equal problems give equal messages.
v1::SearchSpec ToProto(const SearchProblem& problem);

// Of the normal form, the same on every machine: 16 hexadecimal digits.
std::string SpecFingerprint(const v1::SearchSpec& normal_form);

}  // namespace autocfg
