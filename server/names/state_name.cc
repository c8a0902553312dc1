#include "server/names/state_name.h"

#include <string_view>

#include "fmt/format.h"

namespace autocfg::server {
namespace {

std::string Without(std::string_view prefix, std::string_view name, int number) {
  return name.starts_with(prefix) ? std::string(name.substr(prefix.size())) : fmt::format("{}", number);
}

}  // namespace

std::string StateName(v1::StudyState state) {
  return Without("STUDY_STATE_", v1::StudyState_Name(state), state);
}

std::string StateName(v1::TrialState state) {
  return Without("TRIAL_STATE_", v1::TrialState_Name(state), state);
}

}  // namespace autocfg::server
