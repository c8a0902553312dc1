// A study's search problem: converts and validates the SearchSpec message into the structs of search/. Pure
// functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/run.h"
#include "search/planner/search_loop.h"

namespace autocfg::server {

struct SearchProblem : Problem {
  AxisValues space;
  SearchOptions options;
  double time_budget_s = 0;                  // 0 = no limit
  EngineDevice device = EngineDevice::kCpu;  // that measures; not kDry
  // Number of ranks that run at once, if a described cluster has more; 0: the ranks of one node.
  std::int64_t machine_ranks = 0;
  bool fresh = false;  // measure anew what earlier studies measured
};

// Most bytes of an encoded specification. A study is listed and watched with it.
inline constexpr std::size_t kMostSpecBytes = std::size_t{256} << 10;
// InvalidArgument if the specification is larger. For new studies: a database may hold larger ones.
absl::Status CheckSpecSize(const v1::SearchSpec& spec);

// How a study obtains its evidence.
enum class Evidence : std::uint8_t {
  kTrials,  // whole plans run on this machine, which is the cluster (`local`)
  kSlices,  // the cluster is many machines like this one: one rank of a plan runs alone, without its peers
  kPaced,   // a described cluster is emulated: devices take their modelled time
  kPrediction,  // no measurements: predict_only
};
Evidence EvidenceOf(const SearchProblem& problem);

// Returns true if op times are measured before plans are predicted. On a described cluster they follow from
// its figures instead.
bool NeedsCalibration(const SearchProblem& problem);

// Returns the number of ranks of the largest plan that runs whole; 0: no limit.
std::int64_t MeasurableRanks(const SearchProblem& problem);

// Validates the specification, sorts axes and their values, and fills defaults:
//
// - model: by FillDefaults
// - seq_len: the model's max_seq_len
// - device: cpu; cuda for `local` on GPUs
// - memory_margin: DefaultMemoryMargin
// - precision, and missing figures of a described cluster: by ResolveDefaults
//
// InvalidArgument names the field ("spec.model: ..."). Unimplemented names what the engine or the search does
// not support yet.
absl::StatusOr<SearchProblem> ParseSearchSpec(const v1::SearchSpec& spec);

// Returns the normal form: equal problems give equal messages.
v1::SearchSpec ToProto(const SearchProblem& problem);

// Returns the fingerprint of the normal form, 16 hexadecimal digits, the same on every machine.
std::string SpecFingerprint(const v1::SearchSpec& normal_form);

}  // namespace autocfg::server
