#include "proto/short_name.h"

#include <string_view>

#include "fmt/format.h"

namespace autocfg {
namespace {

std::string WithoutPrefix(std::string_view prefix, std::string_view name, int number) {
  return name.starts_with(prefix) ? std::string(name.substr(prefix.size())) : fmt::format("{}", number);
}

}  // namespace

std::string ShortName(v1::StudyState state) {
  return WithoutPrefix("STUDY_STATE_", v1::StudyState_Name(state), state);
}

std::string ShortName(v1::TrialState state) {
  return WithoutPrefix("TRIAL_STATE_", v1::TrialState_Name(state), state);
}

std::string ShortName(v1::Outcome outcome) {
  return WithoutPrefix("OUTCOME_", v1::Outcome_Name(outcome), outcome);
}

std::string ShortName(v1::WorkerState state) {
  return WithoutPrefix("WORKER_STATE_", v1::WorkerState_Name(state), state);
}

}  // namespace autocfg
