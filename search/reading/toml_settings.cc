#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/reading/settings_forms.h"

namespace autocfg {
namespace {

constexpr std::size_t kLongestProblem = 200;  // bytes of what the parser says

std::string ValueText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return fmt::to_string(whole->get());
  if (const auto* real = node.as_floating_point()) return fmt::to_string(real->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return "";  // a date
}

class TomlReader {
 public:
  explicit TomlReader(SettingsText& settings) : settings_(settings) {
    line_starts_.push_back(0);
    for (std::size_t i = 0; i < settings.text.size(); ++i) {
      if (settings.text[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  void AddTable(const toml::table& table, const std::string& path) {
    for (const auto& [key, node] : table) {
      const std::string name = path.empty() ? std::string(key.str()) : fmt::format("{}.{}", path, key.str());
      if (const toml::table* inner = node.as_table()) {
        AddTable(*inner, name);
        continue;
      }
      Setting setting{.name = name, .values = {}, .at = OffsetOf(key.source().begin)};
      if (const toml::array* list = node.as_array()) {
        AddItems(*list, setting.values);
      } else {
        setting.values = {ValueText(node)};
        setting.quoted = node.is_string();
        const std::size_t begin = OffsetOf(node.source().begin) + (node.is_string() ? 1 : 0);
        // Floating-point numbers and escaped texts may be written otherwise.
        if (settings_.text.compare(begin, setting.values.front().size(), setting.values.front()) == 0) {
          setting.value_at = begin;
          setting.value_end = begin + setting.values.front().size();
        }
      }
      settings_.settings.push_back(std::move(setting));
    }
  }

 private:
  // Lists of lists keep their form: a stage is an item, its modules stand between blanks.
  static void AddItems(const toml::array& list, std::vector<std::string>& values) {
    for (const toml::node& node : list) {
      if (const toml::array* inner = node.as_array()) {
        std::string all;
        for (const toml::node& item : *inner) {
          if (!all.empty()) all += ' ';
          all += ValueText(item);
        }
        values.push_back(std::move(all));
      } else {
        values.push_back(ValueText(node));
      }
    }
  }

  std::size_t OffsetOf(const toml::source_position& position) const {
    if (position.line == 0 || position.line > line_starts_.size()) return 0;
    return std::min<std::size_t>(line_starts_[position.line - 1] + position.column - 1,
                                 settings_.text.size());
  }

  SettingsText& settings_;
  std::vector<std::size_t> line_starts_;
};

}  // namespace

absl::StatusOr<SettingsText> ReadTomlSettings(std::string_view file, std::string_view text) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return base::InvalidArgument(
        fmt::format("{}:{}", file, error.source().begin.line),
        fmt::format("it is no TOML: {}; correct it", base::OneLine(error.description(), kLongestProblem)));
  }
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  TomlReader(settings).AddTable(parsed.table(), "");
  return settings;
}

}  // namespace autocfg
