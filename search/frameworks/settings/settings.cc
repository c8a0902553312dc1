#include "search/frameworks/settings/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/str_split.h"
#include "base/numbers.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg {
namespace {

std::string ValueOf(const Setting& setting) { return fmt::format("{}", fmt::join(setting.values, " ")); }

// Returns a whole number, also one that is written 5e7; nothing for another text, or one above kMostSize.
std::optional<std::int64_t> WholeOf(const std::string& text) {
  constexpr double kMost = kMostSize;
  const auto value = base::ParseNumber<double>(text, -kMost, kMost);
  if (!value || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

// Returns whether the name is `known` with one letter more, less or other, or with two that changed places.
bool IsMisspelt(std::string_view name, std::string_view known) {
  if (known.size() < 6 || name.size() + 1 < known.size() || known.size() + 1 < name.size()) return false;
  const auto [a, b] = std::mismatch(name.begin(), name.end(), known.begin(), known.end());
  const std::string_view left(a, name.end()), right(b, known.end());
  if (left.empty() || right.empty()) return left.size() + right.size() == 1;
  if (left.substr(1) == right || left == right.substr(1) || left.substr(1) == right.substr(1)) return true;
  return left.size() > 1 && right.size() > 1 && left[0] == right[1] && left[1] == right[0] &&
         left.substr(2) == right.substr(2);
}

}  // namespace

bool IsNamedBy(const char* names, std::string_view name) {
  const std::vector<std::string> all = absl::StrSplit(names, ' ');
  return std::ranges::any_of(all, [&](std::string_view known) {
    return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1)) : name == known;
  });
}

bool IsOff(const Setting& setting, bool one_is_off) {
  constexpr std::array<std::string_view, 10> kOff = {"0",    "0.0",  "false", "False", "FALSE",
                                                     "none", "None", "null",  "~",     ""};
  if (!setting.unknown.empty() || setting.values.empty()) return false;
  return std::ranges::all_of(setting.values, [&](const std::string& value) {
    return std::ranges::find(kOff, value) != kOff.end() || (one_is_off && value == "1");
  });
}

std::int64_t SettingsText::Line(std::size_t at) const {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size()));
  return 1 + std::count(text.begin(), end, '\n');
}

std::string SettingsText::Place(std::size_t at) const {
  return at == kNowhere ? fmt::format("{} as launched", file) : fmt::format("{}:{}", file, Line(at));
}

std::string SettingsText::Place(const Setting& setting) const {
  return setting.place.empty() ? Place(setting.at) : setting.place;
}

const Setting* SettingReader::Find(std::string_view name) {
  asked_.emplace_back(name);
  const auto found = std::find_if(text_.settings.rbegin(), text_.settings.rend(),
                                  [&](const Setting& setting) { return setting.name == name; });
  if (found == text_.settings.rend()) return nullptr;
  const bool null =
      !text_.IsFlag(*found) && found->unknown.empty() && found->values.size() == 1 &&
      (found->values.front() == "null" || found->values.front() == "~" || found->values.front().empty());
  return null ? nullptr : &*found;
}

const Setting* SettingReader::Known(std::string_view name) {
  const Setting* setting = Find(name);
  if (setting == nullptr || setting->unknown.empty()) return setting;
  const bool argument = setting->unknown.find("is an argument of the script") != std::string::npos;
  Fail(*setting, fmt::format("has no value that can be known: {}; {}", setting->unknown,
                             argument ? "give the script's arguments behind --" : "write the value"));
  return nullptr;
}

std::int64_t SettingReader::Whole(std::string_view name, std::int64_t otherwise, std::int64_t least,
                                  std::int64_t most) {
  const Setting* setting = Known(name);
  if (setting == nullptr) return otherwise;
  std::optional<std::int64_t> value;
  if (setting->values.size() == 1) value = WholeOf(setting->values.front());
  if (setting->quoted) {
    Fail(*setting, fmt::format("is the text \"{}\"; give a whole number, without quotes",
                               base::Printable(ValueOf(*setting))));
    return otherwise;
  }
  if (!value || *value < least || *value > most) {
    Fail(*setting, fmt::format("is '{}'; give a whole number from {} to {}",
                               base::Printable(ValueOf(*setting)), least, most));
    return otherwise;
  }
  return *value;
}

std::int64_t SettingReader::Required(std::string_view name) {
  if (Find(name) == nullptr) FailMissing(name, fmt::format("{} is missing; add it", name));
  return Whole(name, 1);
}

void SettingReader::FailMissing(std::string_view name, std::string_view problem) {
  if (const Setting* written = Misspelt(name); written != nullptr) {
    Fail(*written, fmt::format("is unknown; did you mean {}?", name));
  } else {
    Fail(problem);
  }
}

// Returns a setting that nobody has asked for, whose name is nearly this one.
const Setting* SettingReader::Misspelt(std::string_view name) const {
  for (const Setting& setting : text_.settings) {
    if (IsMisspelt(setting.name, name) &&
        std::find(asked_.begin(), asked_.end(), setting.name) == asked_.end())
      return &setting;
  }
  return nullptr;
}

double SettingReader::Real(std::string_view name, double otherwise) {
  const Setting* setting = Known(name);
  if (setting == nullptr) return otherwise;
  if (setting->values.size() == 1) {
    if (const auto value = base::ParseNumber<double>(setting->values.front(), 0)) return *value;
  }
  Fail(*setting, fmt::format("is '{}'; give a number", base::Printable(ValueOf(*setting))));
  return otherwise;
}

// Returns whether a word that cannot be known stands behind a flag, which takes no value.
bool SettingReader::IsBeforeUnknown(const Setting& flag) const {
  return text_.IsFlag(flag) && !flag.unknown.empty() && flag.values.size() == 1 &&
         flag.values.front().empty();
}

bool SettingReader::Flag(std::string_view name, bool otherwise) {
  if (const Setting* alone = Find(name); alone != nullptr && IsBeforeUnknown(*alone)) {
    std::string note = fmt::format("{}: {}; it may hold more options, which were not read",
                                   text_.Place(alone->at), alone->unknown);
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
    return true;
  }
  const Setting* setting = Known(name);
  if (setting == nullptr) return otherwise;
  if (text_.IsFlag(*setting)) {
    if (!setting->values.empty()) {
      Fail(*setting,
           fmt::format("takes no value, not '{}'; leave the value out", base::Printable(ValueOf(*setting))));
    }
    return true;
  }
  const std::string value = setting->values.size() == 1 ? setting->values.front() : "";
  for (const std::string_view yes : {"true", "True", "TRUE"}) {
    if (value == yes) return true;
  }
  for (const std::string_view no : {"false", "False", "FALSE"}) {
    if (value == no) return false;
  }
  Fail(*setting, fmt::format("is '{}'; give true or false", base::Printable(ValueOf(*setting))));
  return otherwise;
}

std::string SettingReader::Text(std::string_view name, std::string_view otherwise) {
  const Setting* setting = Known(name);
  if (setting == nullptr) return std::string(otherwise);
  if (setting->values.size() != 1) {
    Fail(*setting, fmt::format("has {} values; give one", setting->values.size()));
    return std::string(otherwise);
  }
  return setting->values.front();
}

void SettingReader::RefuseIfOn(std::string_view name, std::string_view why) {
  const Setting* setting = Find(name);
  if (setting == nullptr || IsOff(*setting, /*one_is_off=*/name.ends_with("experts"))) return;
  const std::string perhaps =
      setting->unknown.empty() ? "" : fmt::format("; {}: leave it out if it does not hold", setting->unknown);
  Fail(*setting, fmt::format("cannot be read: {}{}", why, perhaps));
}

void SettingReader::RefuseAboveOne(std::string_view name, std::string_view why) {
  if (Whole(name, 1, 0) <= 1) return;
  Fail(*Find(name), fmt::format("is {}: {}; only 1 can be read", Text(name), why));
}

void SettingReader::Fail(const Setting& setting, std::string_view problem) {
  if (!status_.ok()) return;
  status_ = base::InvalidArgument(
      text_.Place(setting), fmt::format("{} {}", base::Printable(setting.name), base::OneLine(problem)));
}

void SettingReader::FailAgainst(const Setting& setting, const Setting& other, std::string_view what) {
  const std::string where = other.place.empty() ? fmt::format("line {}", text_.Line(other.at)) : other.place;
  Fail(setting, fmt::format("contradicts {} of {}{}", other.name, where, what));
}

void SettingReader::Fail(std::string_view problem) {
  if (status_.ok()) status_ = base::InvalidArgument(text_.file, problem);
}

void SettingReader::NoteOf(const Setting& setting, std::string_view what) {
  notes_.push_back(
      fmt::format("{}: {} {}", text_.Place(setting), base::Printable(setting.name), base::OneLine(what)));
}

void SettingReader::NoteRepeated() {
  if (!text_.flags_are_present) return;
  const std::set<std::string> asked(asked_.begin(), asked_.end());
  std::set<std::string> seen;
  for (auto last = text_.settings.rbegin(); last != text_.settings.rend(); ++last) {
    if (!last->name.starts_with("--") || !asked.contains(last->name) || !seen.insert(last->name).second)
      continue;
    const auto before = std::find_if(last + 1, text_.settings.rend(), [&](const Setting& setting) {
      return setting.name == last->name && setting.values != last->values;
    });
    if (before == text_.settings.rend()) continue;
    NoteOf(*last, fmt::format("is {} in place of {} of line {}: the last one counts",
                              base::Printable(ValueOf(*last)), base::Printable(ValueOf(*before)),
                              text_.Line(before->at)));
  }
}

std::vector<const Setting*> SettingReader::FinishNames() {
  const std::set<std::string> asked(asked_.begin(), asked_.end());
  std::vector<const Setting*> unread;
  for (const Setting& setting : text_.settings) {
    if (asked.contains(setting.name)) continue;
    unread.push_back(&setting);
    for (const std::string& known : asked) {
      if (!IsMisspelt(setting.name, known)) continue;
      Fail(setting, fmt::format("is unknown; did you mean {}?", known));
    }
  }
  return unread;
}

}  // namespace autocfg
