#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

constexpr int kDeepest = 32;
constexpr std::size_t kLongest = 4096;  // of a value that is put in: values may double at each step
constexpr std::string_view kAtLaunch = "???";

struct Resolver {
  std::string_view name;
  double (*compute)(double a, double b);
};

constexpr Resolver kResolvers[] = {
    {"multiply", [](double a, double b) { return a * b; }},
    {"multiply_to_int", [](double a, double b) { return std::trunc(a * b); }},
    {"add", [](double a, double b) { return a + b; }},
    {"divide_ceil", [](double a, double b) { return std::ceil(a / b); }},
    {"divide_floor", [](double a, double b) { return std::floor(a / b); }},
    {"int_div", [](double a, double b) { return std::floor(a / b); }},
};

// Returns the text up to `end`, one of its characters that stands in no bracket, or all of it.
std::string_view UpTo(char end, std::string_view text) {
  int open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == end && open == 0) return text.substr(0, i);
    if (text[i] == '{') ++open;
    if (text[i] == '}') --open;
  }
  return text;
}

class Interpolation {
 public:
  explicit Interpolation(std::vector<Setting>& settings)
      : settings_(settings), states_(settings.size(), State::kOpen) {
    for (std::size_t i = 0; i < settings.size(); ++i) by_name_[settings[i].name] = i;
  }

  // Puts in the value of a setting, and before that of those that it refers to.
  void Resolve(std::size_t index) {
    if (states_[index] != State::kOpen) return;
    states_[index] = State::kBusy;
    Setting& setting = settings_[index];
    if (setting.values.size() == 1) {
      const std::string text = setting.values.front();
      const std::string section =
          setting.name.substr(0, std::min(setting.name.rfind('.'), setting.name.size()));
      if (text == kAtLaunch) setting.unknown = "it is said at launch";
      if (text.find("${") != std::string::npos) PutIn(TextOf(text, section), setting);
    }
    states_[index] = State::kDone;
  }

 private:
  enum class State : std::uint8_t { kOpen, kBusy, kDone };

  struct Value {
    std::string text;
    std::string unknown = {};         // why it cannot be known
    const Setting* source = nullptr;  // the setting whose value it is, if nothing is added to it
  };

  static void PutIn(const Value& value, Setting& setting) {
    setting.unknown = value.unknown;
    if (value.unknown.empty()) setting.values = {value.text};
    setting.value_at = value.source != nullptr ? value.source->value_at : kNowhere;
    setting.value_end = value.source != nullptr ? value.source->value_end : kNowhere;
  }

  // Returns a text with its interpolations put in.
  Value TextOf(std::string_view text, const std::string& section) {
    Value all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = text.find("${", at);
      all.text += text.substr(at, begin - at);
      if (begin == std::string_view::npos) break;
      const std::string_view inner = UpTo('}', text.substr(begin + 2));
      at = begin + 2 + inner.size() + 1;
      Value value = Expression(inner, section);
      if (value.unknown.empty() && all.text.size() + value.text.size() > kLongest)
        value.unknown = "it is too long";
      if (!value.unknown.empty() || (begin == 0 && at >= text.size())) return value;
      all.text += value.text;
    }
    return all;
  }

  // Returns what "${inner}" stands for.
  Value Expression(std::string_view inner, const std::string& section) {
    const auto unknown = [&](std::string_view why) {
      return Value{.text = {}, .unknown = fmt::format("${{{}}} {}", base::Printable(inner), why)};
    };
    if (depth_ == kDeepest) return unknown(fmt::format("is nested deeper than {}", kDeepest));
    ++depth_;
    const std::string_view name = UpTo(':', inner);
    Value value = name.size() == inner.size() ? Reference(inner, section)
                                              : Resolved(name, inner.substr(name.size() + 1), section);
    --depth_;
    if (value.unknown == kNotComputed || value.unknown == kLoop) return unknown(value.unknown);
    return value;
  }

  Value Reference(std::string_view written, const std::string& section) {
    Value name = TextOf(written, section);
    if (!name.unknown.empty()) return name;
    std::string within;
    if (name.text.starts_with('.')) {
      within = section;
      name.text.erase(0, 1);
      for (; name.text.starts_with('.'); name.text.erase(0, 1))
        within = within.substr(0, within.find('.') == std::string::npos ? 0 : within.rfind('.'));
    }
    const auto found = by_name_.find(within.empty() ? name.text : fmt::format("{}.{}", within, name.text));
    if (found == by_name_.end()) return {.text = {}, .unknown = kNotComputed};
    if (states_[found->second] == State::kBusy) return {.text = {}, .unknown = kLoop};
    Resolve(found->second);
    const Setting& other = settings_[found->second];
    if (other.values.size() != 1) return {.text = {}, .unknown = kNotComputed};
    return {.text = other.values.front(), .unknown = other.unknown, .source = &other};
  }

  Value Resolved(std::string_view name, std::string_view arguments, const std::string& section) {
    std::vector<Value> values;
    while (true) {
      const std::string_view argument = UpTo(',', arguments);
      values.push_back(TextOf(base::Trimmed(argument), section));
      if (argument.size() == arguments.size()) break;
      arguments.remove_prefix(argument.size() + 1);
    }
    // The file says what holds without the environment.
    if (name == "oc.env" && values.size() == 2) return values.back();
    if (name == "oc.decode" && values.size() == 1) return values.front();
    const auto resolver = std::ranges::find(kResolvers, name, &Resolver::name);
    if (resolver == std::end(kResolvers) || values.size() != 2) return {.text = {}, .unknown = kNotComputed};
    for (const Value& value : values) {
      if (!value.unknown.empty()) return value;
    }
    const auto a = base::ParseNumber<double>(values[0].text), b = base::ParseNumber<double>(values[1].text);
    const double result = a && b ? resolver->compute(*a, *b) : std::nan("");
    if (!std::isfinite(result)) return {.text = {}, .unknown = kNotComputed};
    return {.text = fmt::format("{}", result)};
  }

  static constexpr char kNotComputed[] = "is not computed";
  static constexpr char kLoop[] = "leads back to itself";

  std::vector<Setting>& settings_;
  std::vector<State> states_;
  std::map<std::string, std::size_t> by_name_;
  int depth_ = 0;
};

}  // namespace

void Interpolate(SettingsText& settings) {
  Interpolation interpolation(settings.settings);
  for (std::size_t i = 0; i < settings.settings.size(); ++i) interpolation.Resolve(i);
}

}  // namespace autocfg
