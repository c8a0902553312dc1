#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/json_reader.h"
#include "base/numbers.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

// Counts what the parser has read, so that each value has a place.
class CountedText {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedText(const char* at, const char** reached) : at_(at), reached_(reached) {}
  const char& operator*() const { return *at_; }
  CountedText& operator++() {
    ++at_;
    *reached_ = at_;
    return *this;
  }
  bool operator==(const CountedText& other) const { return at_ == other.at_; }
  bool operator!=(const CountedText& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Collects the leaves of objects. Requires JSON that base::ParseJson accepts.
class LeafReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  LeafReader(SettingsText& settings, const char* const* reached) : settings_(settings), reached_(reached) {}

  bool null() override { return Add("null", Reached()); }
  bool boolean(bool value) override { return Add(value ? "true" : "false", Reached()); }
  bool number_integer(number_integer_t value) override { return Add(fmt::to_string(value), NumberEnd()); }
  bool number_unsigned(number_unsigned_t value) override { return Add(fmt::to_string(value), NumberEnd()); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return Add(text, NumberEnd());
  }
  bool string(string_t& value) override { return Add(value, Reached() - 1, /*quoted=*/true); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*elements*/) override {
    if (in_list_ == 0) path_.push_back(key_);
    if (in_list_ > 0) ++in_list_;
    return true;
  }
  bool key(string_t& value) override {
    if (in_list_ > 0) return true;
    key_ = value;
    key_at_ = Reached() - std::min(Reached(), value.size() + 2);
    return true;
  }
  bool end_object() override {
    if (in_list_ > 0) {
      --in_list_;
    } else {
      path_.pop_back();
    }
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (in_list_++ == 0) settings_.settings.push_back({.name = NameOfKey(), .values = {}, .at = key_at_});
    return true;
  }
  bool end_array() override {
    --in_list_;
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  std::size_t Reached() const { return static_cast<std::size_t>(*reached_ - settings_.text.data()); }

  std::string NameOfKey() const {
    std::string name;
    for (std::size_t i = 1; i < path_.size(); ++i) {
      name += path_[i];
      name += '.';
    }
    return name + key_;
  }

  // A number ends where the next character begins, which the parser has read already.
  std::size_t NumberEnd() const { return Reached() - 1; }

  // `end`: of the value in the text, without its quotes.
  bool Add(const std::string& value, std::size_t end, bool quoted = false) {
    if (in_list_ > 0) {
      settings_.settings.back().values.push_back(value);
      return true;
    }
    Setting setting{.name = NameOfKey(), .values = {value}, .at = key_at_};
    const std::string_view until = std::string_view(settings_.text).substr(0, end);
    if (until.ends_with(value)) {
      // Otherwise the text has it in another form: with escapes, or -0.
      const std::string_view before = until.substr(0, end - value.size());
      if (before.ends_with('"') == quoted && !before.ends_with('-')) {
        setting.value_at = before.size();
        setting.value_end = end;
      }
    }
    settings_.settings.push_back(std::move(setting));
    return true;
  }

  SettingsText& settings_;
  const char* const* reached_;
  std::vector<std::string> path_;
  std::string key_;
  std::size_t key_at_ = 0;
  int in_list_ = 0;
};

// A word outside of quotes that JSON does not have: what a script fills in, as in "stage": ZERO_STAGE.
struct Placeholder {
  std::string_view name;
  std::size_t at = 0;
};

std::optional<Placeholder> FindPlaceholder(std::string_view text) {
  const auto of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\') ++i;
    if (quoted || !(of_name(text[i]) || text[i] == '$')) continue;
    const std::size_t begin = i;
    while (i < text.size() &&
           (of_name(text[i]) || std::string_view("$+-.{}").find(text[i]) != std::string_view::npos))
      ++i;
    const std::string_view word = text.substr(begin, i-- - begin);
    if ((word.front() >= 'A' && word.front() <= 'Z' && word != "NaN" && word != "Infinity") ||
        (word.size() > 1 && word.front() == '$'))
      return Placeholder{word, begin};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<SettingsText> ReadJsonSettings(std::string_view file, std::string_view text) {
  const auto holds = base::ParseJson(file, text);
  if (const auto placeholder = holds.ok() ? std::nullopt : FindPlaceholder(text)) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(placeholder->at);
    return base::InvalidArgument(
        fmt::format("{}:{}", file, 1 + std::count(text.begin(), end, '\n')),
        fmt::format("it is a template: {} stands for a value; give the file that a script writes from it, or "
                    "that script",
                    base::Printable(placeholder->name)));
  }
  if (!holds.ok()) return holds.status();
  if (!holds->is_object()) return base::InvalidArgument(file, "it holds no JSON object; give one");
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  const char* reached = settings.text.data();
  const CountedText begin(settings.text.data(), &reached);
  const CountedText end(settings.text.data() + settings.text.size(), &reached);
  LeafReader leaves(settings, &reached);
  if (!nlohmann::json::sax_parse(begin, end, &leaves))
    return base::InvalidArgument(file, "it is no JSON object; give one");
  return settings;
}

absl::Status AddNamedJson(const NamedText& named, SettingsText& settings) {
  const auto json = ReadJsonSettings(named.file, named.text.value_or(""));
  if (!json.ok()) return json.status();
  for (Setting setting : json->settings) {
    setting.place = json->Place(setting.at);
    setting.at = setting.value_at = setting.value_end = kNowhere;
    for (const std::string& value : setting.values) {
      const std::size_t mark = value.find(kUnknownMark);
      if (mark == std::string::npos) continue;
      std::size_t end = mark + kUnknownMark.size();
      const std::size_t begin = end;
      while (end < value.size() && value[end] >= '0' && value[end] <= '9') ++end;
      const auto index = base::ParseNumber<std::size_t>(value.substr(begin, end - begin));
      setting.unknown = index && *index < named.unknowns.size() ? named.unknowns[*index] : "it is not known";
    }
    settings.settings.push_back(std::move(setting));
  }
  return absl::OkStatus();
}

}  // namespace autocfg
