#include <yaml.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/frameworks/settings/text_positions.h"

namespace autocfg {
namespace {

constexpr std::size_t kDeepestYaml = 64;

// Whether a plain value is a number with '_' between its digits: 500_000.
bool IsSpacedNumber(std::string_view value) {
  const bool digits = !value.empty() && value.front() >= '0' && value.front() <= '9' &&
                      value.find_first_not_of("0123456789_.") == std::string_view::npos;
  return digits && value.find('_') != std::string_view::npos;
}
std::string WithoutSpacing(std::string value) {
  std::erase(value, '_');
  return value;
}

// Reads the events of a document with libyaml, which builds no objects of its own.
class YamlReader {
 public:
  explicit YamlReader(SettingsText& settings)
      : settings_(settings), positions_(settings.text), marked_(settings.text.starts_with(kByteOrderMark)) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);  // else a first character may choose UTF-16
    // With an encoding set, the parser takes the mark for a character of the first key.
    const std::string_view text = std::string_view(settings.text).substr(marked_ ? kByteOrderMark.size() : 0);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~YamlReader() { yaml_parser_delete(&parser_); }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  absl::Status Read() {
    int documents = 0;
    for (;;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        return FailAt(parser_.problem_mark.line,
                      fmt::format("it is no YAML: {}; correct it",
                                  parser_.problem != nullptr ? parser_.problem : "it cannot be read"));
      }
      const yaml_event_type_t type = event.type;
      if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
        status_ = FailAt(event.start_mark.line, "a second document begins; give a file with one");
      Take(event);
      yaml_event_delete(&event);
      if (!status_.ok()) return status_;
      if (type == YAML_STREAM_END_EVENT) return absl::OkStatus();
    }
  }

 private:
  // A mapping or a list that is open.
  struct Level {
    bool list = false;
    std::string key = {};  // of a mapping, the key at hand
    std::size_t key_at = 0;
    bool has_key = false;
  };

  absl::Status FailAt(std::size_t line, std::string_view problem) const {
    return base::InvalidArgument(fmt::format("{}:{}", settings_.file, line + 1), problem);
  }

  std::size_t OffsetOf(const yaml_mark_t& mark) const {
    return positions_.Of(mark.index + (marked_ ? 1 : 0));
  }

  bool InList() const {
    return std::any_of(levels_.begin(), levels_.end(), [](const Level& level) { return level.list; });
  }
  std::string NameOfLeaf() const {
    std::string name;
    for (const Level& level : levels_) {
      if (!name.empty()) name += '.';
      name += level.key;
    }
    return name;
  }

  void Open(bool list, std::size_t line) {
    if (levels_.size() >= kDeepestYaml) {
      status_ = FailAt(line, fmt::format("it is nested deeper than {}; make it flatter", kDeepestYaml));
      return;
    }
    if (list && !InList() && !levels_.empty())
      settings_.settings.push_back({.name = NameOfLeaf(), .values = {}, .at = levels_.back().key_at});
    levels_.push_back({.list = list});
  }

  void Close() {
    if (!levels_.empty()) levels_.pop_back();
    if (!levels_.empty()) levels_.back().has_key = false;
  }

  void Take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_ALIAS_EVENT:
        status_ = FailAt(event.start_mark.line, "anchors and aliases cannot be read; write the value out");
        break;
      case YAML_MAPPING_START_EVENT: Open(false, event.start_mark.line); break;
      case YAML_SEQUENCE_START_EVENT: Open(true, event.start_mark.line); break;
      case YAML_MAPPING_END_EVENT:
      case YAML_SEQUENCE_END_EVENT: Close(); break;
      case YAML_SCALAR_EVENT: TakeScalar(event); break;
      default: break;
    }
  }

  void TakeScalar(const yaml_event_t& event) {
    const std::string value(reinterpret_cast<const char*>(event.data.scalar.value), event.data.scalar.length);
    if (levels_.empty()) {
      if (!value.empty()) status_ = FailAt(event.start_mark.line, "it holds no settings; give KEY: VALUE");
      return;
    }
    Level& level = levels_.back();
    if (!level.list && !level.has_key) {
      level = {.list = false, .key = value, .key_at = OffsetOf(event.start_mark), .has_key = true};
      if (!InList() && !names_.insert({NameOfLeaf(), level.key_at}).second) {
        status_ = FailAt(event.start_mark.line,
                         fmt::format("{} is given twice; leave one of them", base::Printable(NameOfLeaf())));
      }
      return;
    }
    if (InList()) {
      if (level.list && !settings_.settings.empty()) settings_.settings.back().values.push_back(value);
      if (!level.list) level.has_key = false;
      return;
    }
    const yaml_scalar_style_t style = event.data.scalar.style;
    const bool spaced = style == YAML_PLAIN_SCALAR_STYLE && IsSpacedNumber(value);
    Setting setting{
        .name = NameOfLeaf(), .values = {spaced ? WithoutSpacing(value) : value}, .at = level.key_at};
    const bool quoted = style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    const bool plain = style == YAML_PLAIN_SCALAR_STYLE;
    const std::size_t quote = quoted ? 1 : 0, begin = OffsetOf(event.start_mark) + quote;
    // Behind a colon without a blank, another value would be part of the key.
    const bool joined = plain && value.empty() && (begin == 0 || settings_.text[begin - 1] != ' ');
    if ((quoted || plain) && !joined) positions_.SetValueAt(begin, OffsetOf(event.end_mark) - quote, setting);
    settings_.settings.push_back(std::move(setting));
    level.has_key = false;
  }

  SettingsText& settings_;
  const TextPositions positions_;
  const bool marked_;  // by a byte order mark
  yaml_parser_t parser_ = {};
  std::vector<Level> levels_;
  std::map<std::string, std::size_t> names_;
  absl::Status status_ = absl::OkStatus();
};

}  // namespace

absl::StatusOr<SettingsText> ReadYamlSettings(std::string_view file, std::string_view text,
                                              const LaunchWords& launch) {
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  AUTOCFG_RETURN_IF_ERROR(YamlReader(settings).Read());
  AddOverrides(launch.arguments, settings);
  Interpolate(settings);
  return settings;
}

}  // namespace autocfg
