#include "search/frameworks/shell/shell_variables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

// Returns whether some word of the value is an option of a command.
bool HoldsOptions(const ShellVariable& value) {
  for (const ShellWord& item : value.items) {
    const std::string text = TextOf(item);
    if (text.starts_with("--") || text.find(" --") != std::string::npos ||
        text.find("\n--") != std::string::npos)
      return true;
  }
  return false;
}

// The words of a variable, and where those that are options stand. The values stand where they are set.
struct OptionText {
  std::set<std::size_t> places;
  std::vector<ShellWord> words;
};

OptionText OptionTextOf(const ShellVariable& variable) {
  OptionText text;
  const auto add = [&](ShellWord word) {
    if (word.empty()) return;
    if (TextOf(word).starts_with("--")) text.places.insert(word.front().at);
    text.words.push_back(std::move(word));
  };
  for (const ShellWord& item : variable.items) {
    ShellWord word;
    for (const ShellChar& c : item) {
      const bool blank = !variable.array && c.unknown < 0 && (IsShellBlank(c.c) || c.c == '\n');
      if (blank) add(std::exchange(word, {}));
      if (!blank) word.push_back(c);
    }
    add(std::move(word));
  }
  return text;
}

void MarkPerhaps(int why, ShellVariable& value) {
  for (ShellWord& word : value.items) {
    for (ShellChar& c : word) {
      if (c.perhaps < 0) c.perhaps = why;
    }
  }
}

}  // namespace

ShellVariables::ShellVariables(const std::map<std::string, ShellWord>& environment) {
  for (const auto& [name, value] : environment) Set(name, value);
}

void ShellVariables::SetArguments(std::vector<ShellWord> arguments) {
  ForgetArguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) Set(fmt::to_string(i + 1), arguments[i]);
  Set("#", WordFromLaunch(fmt::to_string(arguments.size())));
  variables_["*"] = {true, arguments};
  variables_["@"] = {true, std::move(arguments)};
}

void ShellVariables::ForgetArguments() {
  std::erase_if(variables_, [](const auto& variable) { return !BeginsShellName(variable.first.front()); });
}

void ShellVariables::Shift(std::size_t count) {
  if (!HasArguments()) return;
  std::vector<ShellWord> left = variables_["@"].items;
  left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(std::min(count, left.size())));
  SetArguments(std::move(left));
}

const ShellVariable* ShellVariables::Find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

std::vector<ShellWord> ShellVariables::OptionWords() const {
  std::vector<OptionText> texts;
  for (const auto& [name, variable] : variables_) {
    if (BeginsShellName(name.front()) && HoldsOptions(variable)) texts.push_back(OptionTextOf(variable));
  }
  std::ranges::sort(texts, {}, [](const OptionText& text) { return text.places; });
  std::vector<ShellWord> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto holds = [&](std::size_t other) {
      const bool same = texts[other].places == texts[i].places;
      return other != i && std::ranges::includes(texts[other].places, texts[i].places) &&
             (!same || other < i);
    };
    bool held = false;  // by another variable, which has it put in
    for (std::size_t other = 0; other < texts.size() && !held; ++other) held = holds(other);
    if (!held) all.insert(all.end(), texts[i].words.begin(), texts[i].words.end());
  }
  return all;
}

ShellWord ShellVariables::Unknown(std::size_t at, std::string why) {
  unknowns_.push_back(std::move(why));
  return {{.c = 0, .at = at, .unknown = static_cast<int>(unknowns_.size()) - 1}};
}

void ShellVariables::Assign(const std::string& name, ShellVariable value, const ShellAssignment& how,
                            std::size_t at) {
  if (how.item) value = {false, {Unknown(at, fmt::format("${} has items that are set one by one", name))}};
  ShellVariable& variable = variables_[name];
  if (how.perhaps) return AssignPerhaps(name, value, how.append, at, variable);
  if (!how.append) {
    variable = std::move(value);
    return;
  }
  if (value.array || variable.array) {
    variable.array = true;
    variable.items.insert(variable.items.end(), value.items.begin(), value.items.end());
    return;
  }
  if (variable.items.empty()) variable.items.emplace_back();
  ShellWord& text = variable.items.front();
  text.insert(text.end(), value.items.front().begin(), value.items.front().end());
}

void ShellVariables::AssignPerhaps(const std::string& name, const ShellVariable& value, bool append,
                                   std::size_t at, ShellVariable& variable) {
  const bool adds = append || (!value.array && !variable.array && !value.items.empty() &&
                               !variable.items.empty() && !TextOf(variable.items.front()).empty() &&
                               TextOf(value.items.front()).starts_with(TextOf(variable.items.front())));
  if (adds && (variable.array || !variable.items.empty()) && AddPerhaps(name, value, append, variable))
    return;
  if (HoldsOptions(value) || (!adds && HoldsOptions(variable)))
    return AddAlternative(value, fmt::format("${} is set under a condition", name), variable);
  ShellWord unknown = Unknown(at, fmt::format("${} is set under a condition", name));
  if (!adds || variable.items.empty()) {
    variable = {false, {std::move(unknown)}};
  } else if (variable.array) {
    variable.items.push_back(std::move(unknown));
  } else {
    variable.items.front().push_back({.c = ' ', .at = at});
    variable.items.front().push_back(unknown.front());
  }
}

// Keeps the options that were there beside those that a condition sets, all of them marked.
void ShellVariables::AddAlternative(ShellVariable value, std::string why, ShellVariable& variable) {
  unknowns_.push_back(std::move(why));
  const int index = static_cast<int>(unknowns_.size()) - 1;
  MarkPerhaps(index, value);
  MarkPerhaps(index, variable);
  if (value.array || variable.array) {
    variable.array = true;
    variable.items.insert(variable.items.end(), value.items.begin(), value.items.end());
    return;
  }
  if (variable.items.empty()) variable.items.emplace_back();
  ShellWord& text = variable.items.front();
  for (const ShellWord& word : value.items) {
    if (!text.empty()) text.push_back({.c = ' ', .at = text.back().at, .perhaps = index});
    text.insert(text.end(), word.begin(), word.end());
  }
}

// Adds options that a condition adds, marked as such. Returns false if what is added is no option.
bool ShellVariables::AddPerhaps(const std::string& name, const ShellVariable& value, bool append,
                                ShellVariable& variable) {
  if (value.items.empty()) return true;
  std::vector<ShellWord> added = value.items;
  // Of NAME="$NAME --x": what follows the old text.
  if (!append) {
    const std::size_t known = variable.items.front().size();
    if (added.front().size() < known) return false;
    added.front().erase(added.front().begin(), added.front().begin() + static_cast<std::ptrdiff_t>(known));
  }
  const std::string text = TextOf(added.front());
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos || text.substr(begin, 2) != "--") return false;
  if (begin == 0 && !variable.array) return false;  // it goes on with the word before
  unknowns_.push_back(fmt::format("${} gets it under a condition", name));
  for (ShellWord& word : added) {
    for (ShellChar& c : word) c.perhaps = static_cast<int>(unknowns_.size()) - 1;
  }
  if (variable.array) {
    variable.items.insert(variable.items.end(), added.begin(), added.end());
  } else {
    ShellWord& whole = variable.items.front();
    for (const ShellWord& word : added) whole.insert(whole.end(), word.begin(), word.end());
  }
  return true;
}

}  // namespace autocfg
