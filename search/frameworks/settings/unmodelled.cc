#include "search/frameworks/settings/unmodelled.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace autocfg {
namespace {

std::vector<std::string> WordsOf(const char* text) { return absl::StrSplit(text, ' ', absl::SkipEmpty()); }

bool HasWord(const Setting& setting, const char* words) {
  const std::vector<std::string> all = WordsOf(words);
  return all.empty() || std::ranges::any_of(all, [&](const std::string& word) {
           return std::ranges::any_of(setting.values, [&](const std::string& value) {
             return value.find(word) != std::string::npos;
           });
         });
}

}  // namespace

void RefuseUnmodelled(std::span<const UnmodelledSetting> table, SettingReader& read) {
  const auto refuse = [&](const UnmodelledSetting& row, std::string_view name) {
    if (const Setting* setting = read.Find(name); setting != nullptr && HasWord(*setting, row.values))
      read.RefuseIfOn(name, row.why);
  };
  for (const UnmodelledSetting& row : table) {
    for (const std::string& name : WordsOf(row.names)) {
      if (!name.ends_with('*')) refuse(row, name);
    }
    for (const Setting& setting : read.text().settings) {
      if (IsNamedBy(row.names, setting.name)) refuse(row, setting.name);
    }
  }
}

}  // namespace autocfg
