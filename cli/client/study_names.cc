#include "cli/client/study_names.h"

#include "cli/input/option_values.h"

namespace autocfg::cli {

absl::StatusOr<std::int64_t> ParseStudyId(const std::string& text) {
  const std::string prefix = "studies/";
  const std::string number = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  return ParseWhole("--study", number);
}

std::string LastPart(const std::string& name) {
  const auto slash = name.find_last_of('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

}  // namespace autocfg::cli
