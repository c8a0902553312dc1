#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/frameworks/settings/text_positions.h"
#include "search/frameworks/settings/yaml_events.h"

namespace autocfg {
namespace {

constexpr std::size_t kDeepestYaml = 64;
constexpr std::size_t kMostAliasEvents = 100'000;
constexpr std::string_view kMergeKey = "<<";

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
      const YamlEvent copy = YamlEventOf(event);
      yaml_event_delete(&event);
      if (copy.type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
        status_ = FailAt(copy.begin.line, "a second document begins; give a file with one");
      anchors_.Record(copy);
      Take(copy);
      if (!status_.ok()) return status_;
      if (copy.type == YAML_STREAM_END_EVENT) break;
    }
    DropMerged();
    return absl::OkStatus();
  }

 private:
  // A mapping or a list that is open.
  struct Level {
    bool list = false;
    std::string key = {};  // of a mapping, the key at hand
    std::size_t key_at = 0;
    bool has_key = false;
    int merge = 0;             // of the mappings that are merged into others by "<<"; 0: it is not within one
    bool merged_list = false;  // the list of mappings behind a "<<"
  };

  // A setting of a mapping that is merged into another.
  struct MergedSetting {
    std::size_t index = 0;  // in the settings
    int depth = 0;          // of merges within merges
    int merge = 0;
    std::string owner;  // the name of the merged mapping's key
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
      if (level.merged_list || level.key == kMergeKey) continue;
      if (!name.empty()) name += '.';
      name += level.key;
    }
    return name;
  }
  bool InMerge() const { return !levels_.empty() && levels_.back().merge > 0; }

  void Open(bool list, std::size_t line) {
    if (levels_.size() >= kDeepestYaml) {
      status_ = FailAt(line, fmt::format("it is nested deeper than {}; make it flatter", kDeepestYaml));
      return;
    }
    const bool merges =
        !levels_.empty() && !InList() &&
        (levels_.back().merged_list || (levels_.back().has_key && levels_.back().key == kMergeKey));
    if (list && !InList() && !levels_.empty() && !merges)
      AddSetting({.name = NameOfLeaf(), .values = {}, .at = levels_.back().key_at});
    const int outer = levels_.empty() ? 0 : levels_.back().merge;
    levels_.push_back({.list = list && !merges,
                       .merge = merges && !list ? ++merges_ : outer,
                       .merged_list = list && merges});
  }

  void AddSetting(Setting setting) {
    if (InMerge()) NoteMerged(setting.name);
    settings_.settings.push_back(std::move(setting));
  }

  // Notes where the setting that is about to be added comes from.
  void NoteMerged(const std::string& name) {
    MergedSetting merged{.index = settings_.settings.size(), .merge = levels_.back().merge, .owner = {}};
    std::string prefix;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      if (level.key == kMergeKey) ++merged.depth;
      if (level.merged_list || level.key == kMergeKey) continue;
      prefix += (prefix.empty() ? "" : ".") + level.key;
      if (i > 0 && levels_[i - 1].merge != level.merge) merged.owner = prefix;
    }
    if (merged.owner.empty()) merged.owner = name;
    merged_.push_back(std::move(merged));
  }

  // Drops the settings of merged mappings whose keys another mapping says: the one that they are merged into,
  // or one that is merged before.
  void DropMerged() {
    if (merged_.empty()) return;
    std::set<std::size_t> dropped;
    std::map<std::string, int> owners;  // the merge that says a key, or anything below it
    std::size_t next = 0;
    for (std::size_t i = 0; i < settings_.settings.size(); ++i) {
      if (next < merged_.size() && merged_[next].index == i) {
        ++next;
        continue;
      }
      const std::string& name = settings_.settings[i].name;
      for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
        owners[name.substr(0, dot)] = 0;
      owners[name] = 0;
    }
    std::ranges::stable_sort(merged_, {}, &MergedSetting::depth);
    for (const MergedSetting& merged : merged_) {
      const auto [owner, added] = owners.try_emplace(merged.owner, merged.merge);
      if (!added && owner->second != merged.merge) dropped.insert(merged.index);
    }
    std::size_t index = 0;
    std::erase_if(settings_.settings, [&](const Setting&) { return dropped.contains(index++); });
  }

  void Close() {
    if (!levels_.empty()) levels_.pop_back();
    if (!levels_.empty()) levels_.back().has_key = false;
  }

  void Take(const YamlEvent& event) {
    if (!status_.ok()) return;
    switch (event.type) {
      case YAML_ALIAS_EVENT: Repeat(event); break;
      case YAML_MAPPING_START_EVENT: Open(false, event.begin.line); break;
      case YAML_SEQUENCE_START_EVENT: Open(true, event.begin.line); break;
      case YAML_MAPPING_END_EVENT:
      case YAML_SEQUENCE_END_EVENT: Close(); break;
      case YAML_SCALAR_EVENT: TakeScalar(event); break;
      default: break;
    }
  }

  // Takes the events of the node that the alias stands for. Aliases within aliases may grow without end.
  void Repeat(const YamlEvent& alias) {
    const std::vector<YamlEvent>* node = anchors_.Find(alias.value);
    if (node == nullptr) {
      status_ =
          FailAt(alias.begin.line, fmt::format("*{} is none of the anchors before it; write the value out",
                                               base::Printable(alias.value)));
      return;
    }
    for (const YamlEvent& event : *node) {
      if (++repeated_ > kMostAliasEvents) {
        if (status_.ok())
          status_ =
              FailAt(alias.begin.line, fmt::format("its aliases stand for more than {} values; write out "
                                                   "those that count",
                                                   kMostAliasEvents));
        return;
      }
      Take(event);
    }
  }

  void TakeScalar(const YamlEvent& event) {
    const std::string& value = event.value;
    if (levels_.empty()) {
      if (!value.empty()) status_ = FailAt(event.begin.line, "it holds no settings; give KEY: VALUE");
      return;
    }
    Level& level = levels_.back();
    if (!level.list && !level.has_key) {
      level.key = value;
      level.key_at = OffsetOf(event.begin);
      level.has_key = true;
      const bool checked = !InList() && !InMerge() && value != kMergeKey;
      if (checked && !names_.insert({NameOfLeaf(), level.key_at}).second) {
        status_ = FailAt(event.begin.line,
                         fmt::format("{} is given twice; leave one of them", base::Printable(NameOfLeaf())));
      }
      return;
    }
    if (InList()) {
      if (level.list && !settings_.settings.empty()) settings_.settings.back().values.push_back(value);
      if (!level.list) level.has_key = false;
      return;
    }
    const yaml_scalar_style_t style = event.style;
    const bool spaced = style == YAML_PLAIN_SCALAR_STYLE && IsSpacedNumber(value);
    Setting setting{
        .name = NameOfLeaf(), .values = {spaced ? WithoutSpacing(value) : value}, .at = level.key_at};
    const bool quoted = style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    const bool plain = style == YAML_PLAIN_SCALAR_STYLE;
    const std::size_t quote = quoted ? 1 : 0, begin = OffsetOf(event.begin) + quote;
    // Behind a colon without a blank, another value would be part of the key.
    const bool joined = plain && value.empty() && (begin == 0 || settings_.text[begin - 1] != ' ');
    if ((quoted || plain) && !joined) positions_.SetValueAt(begin, OffsetOf(event.end) - quote, setting);
    AddSetting(std::move(setting));
    levels_.back().has_key = false;
  }

  SettingsText& settings_;
  const TextPositions positions_;
  const bool marked_;  // by a byte order mark
  yaml_parser_t parser_ = {};
  std::vector<Level> levels_;
  YamlAnchors anchors_;
  std::size_t repeated_ = 0;
  int merges_ = 0;
  std::vector<MergedSetting> merged_;
  std::map<std::string, std::size_t> names_;
  absl::Status status_ = absl::OkStatus();
};

}  // namespace

absl::StatusOr<SettingsText> ReadYamlSettings(std::string_view file, std::string_view text,
                                              const LaunchWords& launch) {
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  AUTOCFG_RETURN_IF_ERROR(YamlReader(settings).Read());
  for (const LaunchFile& more : launch.files) {
    SettingsText others{.file = more.name, .text = more.text, .settings = {}};
    AUTOCFG_RETURN_IF_ERROR(YamlReader(others).Read());
    for (Setting& setting : others.settings) {
      setting.at = setting.value_at = setting.value_end = kNowhere;
      settings.settings.push_back(std::move(setting));
    }
  }
  AddOverrides(launch.arguments, settings);
  Interpolate(settings);
  return settings;
}

}  // namespace autocfg
