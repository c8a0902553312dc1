// Overrides of OmegaConf, as Hydra's command line has them: one or more name=value a line, `#` starts a
// comment. A word without "=" says nothing. The line "# start:" of an exported file says the ranks.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "search/frameworks/settings/launcher.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

constexpr std::string_view kStartOfRanks = "# start: ";

bool IsOverrideName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool IsInQuotes(std::string_view value) {
  return value.size() >= 2 && (value.front() == '\'' || value.front() == '"') &&
         value.back() == value.front();
}

std::string_view WithoutQuotes(std::string_view value) {
  return IsInQuotes(value) ? value.substr(1, value.size() - 2) : value;
}

// The items of "[a,b]".
std::vector<std::string> ItemsOf(std::string_view list) {
  std::vector<std::string> items;
  list = list.substr(1, list.size() - 2);
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    items.emplace_back(WithoutQuotes(base::Trimmed(item)));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return items;
}

void AddOverride(const FlagWord& word, SettingsText& settings) {
  const std::size_t equals = word.text.find('=');
  if (equals == std::string::npos) return;
  const std::size_t first = std::min(word.text.find_first_not_of("+~"), equals);
  Setting setting{.name = word.text.substr(first, equals - first), .values = {}, .at = word.begin + first};
  if (!IsOverrideName(setting.name)) return;
  const std::string_view value = std::string_view(word.text).substr(equals + 1);
  if (value.find('$') != std::string_view::npos) setting.unknown = "its value is a variable of a shell";
  if (value.size() >= 2 && value.front() == '[' && value.back() == ']') {
    setting.values = ItemsOf(value);
  } else {
    setting.values = {std::string(WithoutQuotes(value))};
    setting.quoted = IsInQuotes(value);
    setting.value_at = word.begin + equals + 1;
    setting.value_end = word.end;
  }
  settings.settings.push_back(std::move(setting));
}

}  // namespace

absl::StatusOr<SettingsText> ReadOverrideSettings(std::string_view file, std::string_view text) {
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  const std::string_view all = settings.text;
  for (std::size_t at = 0; at < all.size(); at += LineAt(all, at).size() + 1) {
    const std::string_view line = base::Trimmed(LineAt(all, at));
    if (line.starts_with(kStartOfRanks)) AddLaunch(WordsOfLine(all, at), {}, settings);
    if (line.starts_with('#')) continue;
    for (const FlagWord& word : WordsOfLine(all, at)) {
      if (word.text.starts_with('#')) break;
      AddOverride(word, settings);
    }
  }
  return settings;
}

}  // namespace autocfg
