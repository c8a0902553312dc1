// The YAML of Megatron-LM's functional tests (tests/functional_tests, model_config.yaml): options under
// MODEL_ARGS, a flag with true.
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

constexpr std::string_view kTestArguments = "MODEL_ARGS";

bool IsPlainWord(const Setting& setting, std::initializer_list<std::string_view> words) {
  if (setting.quoted || setting.values.size() != 1) return false;
  for (const std::string_view word : words) {
    if (setting.values.front() == word) return true;
  }
  return false;
}

// "[attn mlp]" are two values.
void SplitList(Setting& option) {
  if (option.values.size() != 1) return;
  const std::string text = option.values.front();
  if (!text.starts_with('[') || !text.ends_with(']') || text.find('*') != std::string::npos) return;
  option.values = absl::StrSplit(text.substr(1, text.size() - 2), absl::ByAnyChar(" ,"), absl::SkipEmpty());
  option.value_at = option.value_end = kNowhere;
}

}  // namespace

bool IsArgumentsYaml(std::string_view text) {
  const std::string begin = fmt::format("{}:", kTestArguments);
  return text.starts_with(begin) || text.find("\n" + begin) != std::string_view::npos;
}

absl::StatusOr<SettingsText> ReadArgumentsYaml(std::string_view file, std::string_view text,
                                               const LaunchWords& launch) {
  AUTOCFG_ASSIGN_OR_RETURN(auto settings, ReadYamlSettings(file, text));
  const std::string section = fmt::format("{}.--", kTestArguments);
  std::vector<Setting> options;
  for (Setting& setting : settings.settings) {
    if (!setting.name.starts_with(section)) continue;
    setting.name.erase(0, section.size() - 2);
    if (IsPlainWord(setting, {"false", "False", "null", "~"})) continue;
    if (IsPlainWord(setting, {"true", "True", ""})) setting.values.clear();
    SplitList(setting);
    options.push_back(std::move(setting));
  }
  settings.settings = std::move(options);
  settings.flags_are_present = true;
  AddFlags(launch.arguments, settings);
  return settings;
}

}  // namespace autocfg
