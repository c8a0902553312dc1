#include "cli/refused_options.h"

#include "fmt/format.h"

namespace autocfg {

void RefusedOptions::AddFlag(CLI::App* app, const std::string& name, const std::string& instead) {
  Refused& refused = options_.emplace_back(Refused{name, instead, "", nullptr});
  refused.option = app->add_flag(name)->group("");
}

void RefusedOptions::AddValue(CLI::App* app, const std::string& name, const std::string& instead) {
  Refused& refused = options_.emplace_back(Refused{name, instead, "", nullptr});
  refused.option = app->add_option(name, refused.value, "not supported yet")->group("");
}

absl::Status RefusedOptions::Check() const {
  for (const auto& refused : options_) {
    if (refused.option->count() > 0) {
      return absl::UnimplementedError(
          fmt::format("{} is not supported yet; {}", refused.name, refused.instead));
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
