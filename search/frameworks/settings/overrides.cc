#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {

void AddOverrides(const std::vector<LaunchWord>& words, SettingsText& settings) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i].text;
    const bool option = word.starts_with("--");
    word.remove_prefix(std::min(word.find_first_not_of("-+~"), word.size()));
    const std::size_t equals = word.find('=');
    std::string name(word.substr(0, equals));
    const bool has_value = equals != std::string_view::npos;
    if (!has_value && (!option || name.find('.') == std::string::npos)) continue;
    std::replace(name.begin(), name.end(), '-', '_');
    LaunchWord value{.text = "true", .unknown = words[i].unknown};
    if (has_value) {
      value.text = word.substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].text.starts_with("--")) {
      value = words[++i];
    }
    settings.settings.push_back(
        {.name = std::move(name), .values = {value.text}, .unknown = value.unknown, .at = kNowhere});
  }
}

}  // namespace autocfg
