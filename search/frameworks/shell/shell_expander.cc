#include "search/frameworks/shell/shell_expander.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/shell/shell_arithmetic.h"
#include "search/frameworks/shell/shell_script.h"

namespace autocfg {

// The words of one place.
struct ShellExpander::Words {
  std::vector<ShellWord> done;
  ShellWord word;
  bool any = false;  // there is a word, even an empty one

  void Add(const ShellChar& c) {
    word.push_back(c);
    any = true;
  }
  void End() {
    if (any) done.push_back(std::move(word));
    word.clear();
    any = false;
  }
};

std::size_t ShellExpander::Place(std::size_t i) const {
  if (origin_ == nullptr) return i;
  return origin_->empty() ? 0 : (*origin_)[std::min(i, origin_->size() - 1)].at;
}

ShellChar ShellExpander::CharAt(std::size_t i) const {
  return origin_ == nullptr ? ShellChar{.c = text_[i], .at = i} : (*origin_)[i];
}

void ShellExpander::Fail(std::size_t at, std::string_view problem) {
  if (!ok()) return;
  const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  status_ = base::InvalidArgument(fmt::format("{}:{}", file_, line), problem);
}
// Returns the length of a backslash with the end of its line; 0 if there is none here.
std::size_t ShellExpander::Continuation(std::size_t i) const {
  if (At(i) != '\\') return 0;
  if (At(i + 1) == '\n') return 2;
  return At(i + 1) == '\r' && At(i + 2) == '\n' ? 3 : 0;
}

void ShellExpander::SkipBlanks() {
  for (;;) {
    if (const std::size_t more = Continuation(pos_); more > 0) {
      pos_ += more;
    } else if (pos_ < text_.size() && IsShellBlank(text_[pos_])) {
      ++pos_;
    } else if (At(pos_) == '#') {
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
    } else {
      return;
    }
  }
}

void ShellExpander::Spend(std::size_t characters, std::size_t at) {
  spent_ += characters;
  if (spent_ > kMostShellText)
    Fail(at, fmt::format("the script expands to more than {} bytes; shorten it", kMostShellText));
}

std::string ShellExpander::ReadName() {
  const std::size_t begin = pos_;
  if (!BeginsShellName(At(pos_))) return "";
  while (IsOfShellName(At(pos_))) ++pos_;
  return std::string(text_.substr(begin, pos_ - begin));
}

std::vector<ShellWord> ShellExpander::ReadWords(bool splits) {
  Words words;
  while (ok() && pos_ < text_.size() && !EndsShellWord(text_[pos_])) ReadPart(words, splits);
  words.End();
  return std::move(words.done);
}

void ShellExpander::ReadPart(Words& words, bool splits) {
  const std::size_t at = pos_;
  const char c = text_[pos_];
  if (const std::size_t more = Continuation(pos_); more > 0) {
    pos_ += more;
  } else if (c == '\\') {
    ++pos_;
    if (pos_ < text_.size()) words.Add(CharAt(pos_));
    ++pos_;
  } else if (c == '\'' || (c == '$' && At(pos_ + 1) == '\'')) {
    pos_ += c == '$' ? 2 : 1;
    const std::size_t end = text_.find('\'', pos_);
    if (end == std::string_view::npos) return Fail(at, "a single quote does not end; add one");
    words.any = true;
    for (; pos_ < end; ++pos_) words.Add(CharAt(pos_));
    ++pos_;
  } else if (c == '"') {
    ++pos_;
    ReadDoubleQuoted(words, at);
  } else if (c == '$' || c == '`') {
    Expand(words, /*quoted=*/!splits);
  } else {
    words.Add(CharAt(pos_));
    ++pos_;
  }
}

ShellWord ShellExpander::ReadHereText(std::size_t end) {
  Words words;
  while (ok() && pos_ < end) {
    const char c = text_[pos_];
    if (c == '\\' && std::string_view("$`\\").find(At(pos_ + 1)) != std::string_view::npos &&
        pos_ + 1 < end) {
      words.Add(CharAt(pos_ + 1));
      pos_ += 2;
    } else if (c == '$' || c == '`') {
      Expand(words, /*quoted=*/true);
    } else {
      words.Add(CharAt(pos_));
      ++pos_;
    }
  }
  words.End();
  return JoinedWords(words.done);
}

ShellWord ShellExpander::PlainText(std::size_t begin, std::size_t end) const {
  ShellWord word;
  for (; begin < end; ++begin) word.push_back(CharAt(begin));
  return word;
}

void ShellExpander::ReadDoubleQuoted(Words& words, std::size_t begin) {
  const std::string_view braces = text_.substr(pos_, text_.find('}', pos_) - pos_);
  const bool array = StartsWith("$@\"") || (StartsWith("${") && braces.ends_with("[@]"));
  if (!array) words.any = true;
  while (ok() && pos_ < text_.size() && text_[pos_] != '"') {
    const char c = text_[pos_];
    if (const std::size_t more = Continuation(pos_); more > 0) {
      pos_ += more;
    } else if (c == '\\' && std::string_view("$`\"\\").find(At(pos_ + 1)) != std::string_view::npos &&
               pos_ + 1 < text_.size()) {
      words.Add(CharAt(pos_ + 1));
      pos_ += 2;
    } else if (c == '$' || c == '`') {
      Expand(words, /*quoted=*/true);
    } else {
      words.Add(CharAt(pos_));
      ++pos_;
    }
  }
  if (pos_ >= text_.size()) return Fail(begin, "a double quote does not end; add one");
  ++pos_;
}

void ShellExpander::AddText(Words& words, const ShellWord& text, bool quoted) {
  Spend(text.size(), pos_);
  for (const ShellChar& c : text) {
    if (!ok()) return;
    if (!quoted && c.unknown < 0 && (IsShellBlank(c.c) || c.c == '\n')) {
      words.End();
    } else {
      words.Add(c);
    }
  }
  if (quoted && !text.empty()) words.any = true;
}

void ShellExpander::AddVariable(Words& words, const ShellVariable& variable, bool quoted, bool all) {
  for (std::size_t i = 0; i < variable.items.size(); ++i) {
    if (i > 0 && !all) break;  // $NAME of an array is its first item
    if (i > 0) words.End();
    if (all && quoted) words.any = true;
    AddText(words, variable.items[i], quoted);
  }
}

// Reads an expansion at '$' or '`'.
void ShellExpander::Expand(Words& words, bool quoted) {
  const std::size_t at = pos_;
  if (++nested_ > kDeepestShell) Fail(at, fmt::format("expansions are nested deeper than {}", kDeepestShell));
  if (!ok()) return;
  if (text_[pos_] == '`') {
    const std::size_t end = text_.find('`', pos_ + 1);
    if (end == std::string_view::npos) return Fail(at, "'`' does not end; add one");
    pos_ = end + 1;
    AddText(words, NotRun(at), quoted);
  } else if (StartsWith("$((")) {
    AddText(words, Arithmetic(), quoted);
  } else if (StartsWith("$(")) {
    pos_ += 2;
    SkipSubstitution(at);
    if (ok()) AddText(words, NotRun(at), quoted);
  } else if (StartsWith("${")) {
    ExpandBraces(words, quoted);
  } else {
    ++pos_;
    const std::string name = ReadName();
    if (!name.empty()) {
      AddNamed(words, name, at, quoted, /*all=*/false);
    } else if (pos_ < text_.size() && (IsShellDigit(At(pos_)) || std::string_view("@*#?$!-").find(At(pos_)) !=
                                                                     std::string_view::npos)) {
      const char which = text_[pos_++];
      AddNamed(words, std::string(1, which), at, quoted, /*all=*/which == '@' || which == '*');
    } else {
      words.Add(CharAt(at));
    }
  }
  --nested_;
}

ShellWord ShellExpander::NotRun(std::size_t at) {
  return Unknown(at, fmt::format("{} is not run", base::Printable(text_.substr(at, pos_ - at))));
}

// Ends behind the bracket that closes "$(".
void ShellExpander::SkipSubstitution(std::size_t begin) {
  int open = 1;
  while (pos_ < text_.size() && open > 0) {
    const char c = text_[pos_];
    if (c == '\\') {
      ++pos_;
    } else if (c == '\'' || c == '"') {
      std::size_t end = pos_ + 1;
      while (end < text_.size() && text_[end] != c) end += c == '"' && text_[end] == '\\' ? 2 : 1;
      pos_ = std::min(end, text_.size());
    } else if (c == '(') {
      ++open;
    } else if (c == ')') {
      --open;
    }
    ++pos_;
  }
  pos_ = std::min(pos_, text_.size());
  if (open > 0) Fail(begin, "'$(' does not end; add ')'");
}

void ShellExpander::AddNamed(Words& words, const std::string& name, std::size_t at, bool quoted, bool all) {
  if (const ShellVariable* variable = variables_.Find(name))
    return AddVariable(words, *variable, quoted, all);
  const bool argument = !BeginsShellName(name.front());
  if (IsShellDigit(name.front()) && name != "0" && variables_.HasArguments()) return;  // there are fewer
  const std::string shown = all && !argument ? fmt::format("{{{}[@]}}", name) : name;
  const std::string_view why = argument ? "is an argument of the script" : "is not set in the file";
  AddText(words, Unknown(at, fmt::format("${} {}", shown, why)), quoted);
}

void ShellExpander::ExpandBraces(Words& words, bool quoted) {
  const std::size_t at = pos_;
  pos_ += 2;
  std::string name = ReadName();
  while (name.empty() ? IsShellDigit(At(pos_)) : IsShellDigit(name.front()) && IsShellDigit(At(pos_)))
    name += text_[pos_++];  // an argument
  bool all = name.empty() && (StartsWith("@}") || StartsWith("*}"));
  if (all || (name.empty() && StartsWith("#}"))) name = text_[pos_++];
  if (StartsWith("[@]") || StartsWith("[*]")) {
    all = true;
    pos_ += 3;
  }
  const char c = At(pos_);
  const bool colon = c == ':';
  const char operation = colon ? At(pos_ + 1) : c;
  if (!name.empty() && c == '}') {
    ++pos_;
    return AddNamed(words, name, at, quoted, all);
  }
  const bool substitutes = operation == '-' || operation == '=' || operation == '+' || operation == '?';
  if (name.empty() || !substitutes) {
    if (!SkipBraces(at)) return;
    return AddText(
        words, Unknown(at, fmt::format("{} is not computed", base::Printable(text_.substr(at, pos_ - at)))),
        quoted);
  }
  pos_ += colon ? 2 : 1;
  Words other;
  while (ok() && pos_ < text_.size() && text_[pos_] != '}') {
    if (IsShellBlank(text_[pos_]) || EndsShellWord(text_[pos_])) {
      other.Add(CharAt(pos_));
      ++pos_;
    } else {
      ReadPart(other, /*splits=*/false);
    }
  }
  if (pos_ >= text_.size()) return Fail(at, "'${' does not end; add '}'");
  ++pos_;
  other.End();
  const ShellWord otherwise = JoinedWords(other.done);
  const ShellVariable* variable = variables_.Find(name);
  const bool set =
      variable != nullptr && (!colon || (!variable->items.empty() && !variable->items.front().empty()));
  if (operation == '+') {
    if (set) AddText(words, otherwise, quoted);
  } else if (set) {
    AddVariable(words, *variable, quoted, all);
  } else if (operation == '?') {
    AddNamed(words, name, at, quoted, all);
  } else {
    // In practice the environment decides; the file says what holds without it.
    if (operation == '=') variables_.Set(name, otherwise);
    AddText(words, otherwise, quoted);
  }
}

bool ShellExpander::SkipBraces(std::size_t begin) {
  int open = 1;
  for (; pos_ < text_.size() && open > 0; ++pos_) {
    if (text_[pos_] == '{') ++open;
    if (text_[pos_] == '}') --open;
    if (text_[pos_] == '\n') break;
  }
  if (open > 0) Fail(begin, "'${' does not end; add '}'");
  return open == 0;
}

ShellWord ShellExpander::Arithmetic() {
  const std::size_t at = pos_;
  pos_ += 3;
  ShellArithmetic arithmetic(text_, pos_, nested_, [this] { return ArithmeticOperand(); });
  const std::optional<std::int64_t> value = arithmetic.Read();
  if (value && StartsWith("))")) {
    pos_ += 2;
    ShellWord word;
    for (const char c : fmt::to_string(*value)) word.push_back({.c = c, .at = Place(at), .computed = true});
    return word;
  }
  pos_ = at + 2;  // the inner bracket opens, too
  SkipSubstitution(at);
  if (!ok()) return {};
  const int met = arithmetic.unknown();
  const std::string why = met < 0 ? "" : ": " + variables_.unknowns()[static_cast<std::size_t>(met)];
  return Unknown(at, fmt::format("{} is not computed{}", base::Printable(text_.substr(at, pos_ - at)), why));
}

// What stands for a number in arithmetic: $NAME, ${...}, NAME. Empty for anything else.
ShellWord ShellExpander::ArithmeticOperand() {
  Words words;
  if (At(pos_) == '$') {
    Expand(words, /*quoted=*/true);
  } else if (BeginsShellName(At(pos_))) {
    const std::size_t at = pos_;
    AddNamed(words, ReadName(), at, /*quoted=*/true, /*all=*/false);
  }
  words.End();
  return JoinedWords(words.done);
}

}  // namespace autocfg
