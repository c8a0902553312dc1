#include "search/frameworks/shell/shell_script.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/shell/shell_arithmetic.h"
#include "search/frameworks/shell/shell_conditions.h"
#include "search/frameworks/shell/shell_variables.h"

namespace autocfg {
namespace {

class ShellReader {
 public:
  ShellReader(std::string_view file, std::string_view text,
              const std::map<std::string, ShellWord>& environment)
      : file_(file), text_(text), variables_(environment) {}

  absl::StatusOr<ShellScript> Read() {
    while (ok() && pos_ < text_.size()) ReadCommand();
    if (!ok()) return status_;
    script_.unknowns = variables_.unknowns();
    return std::move(script_);
  }

 private:
  bool ok() const { return status_.ok(); }
  void Fail(std::size_t at, std::string_view problem) {
    if (!ok()) return;
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    status_ = base::InvalidArgument(fmt::format("{}:{}", file_, line), problem);
  }
  char At(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool StartsWith(std::string_view what) const { return text_.substr(pos_).starts_with(what); }

  // Returns the length of a backslash with the end of its line; 0 if there is none here.
  std::size_t Continuation(std::size_t i) const {
    if (At(i) != '\\') return 0;
    if (At(i + 1) == '\n') return 2;
    return At(i + 1) == '\r' && At(i + 2) == '\n' ? 3 : 0;
  }

  void SkipBlanks() {
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

  void Spend(std::size_t characters, std::size_t at) {
    spent_ += characters;
    if (spent_ > kMostShellText)
      Fail(at, fmt::format("the script expands to more than {} bytes; shorten it", kMostShellText));
  }

  // Ends at the newline or separator behind the command.
  void ReadCommand() {
    SkipBlanks();
    const char c = At(pos_);
    if (c == '\n') {
      ++pos_;
      SkipHereDocuments();
      return;
    }
    if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') return ReadSeparator(c);
    branch_ = conditions_.Next();
    ShellCommand command{.at = pos_, .words = {}};
    bool begins = true;  // only assignments and words such as `export` so far
    while (ok() && pos_ < text_.size()) {
      SkipBlanks();
      const char next = At(pos_);
      if (pos_ >= text_.size() || next == '\n' || next == ';' || next == '|' || next == '(' || next == ')')
        break;
      if (next == '&' && At(pos_ + 1) != '>') break;
      if (SkipRedirection()) continue;
      if (begins && ReadAssignment()) continue;
      const std::size_t at = pos_;
      std::vector<ShellWord> words = ReadWords();
      if (At(pos_) == '>' || At(pos_) == '<') {
        const std::string number = words.size() == 1 ? TextOf(words.front()) : "";
        if (!number.empty() && std::all_of(number.begin(), number.end(), IsShellDigit)) continue;  // 2>
      }
      if (command.words.empty() && begins && words.size() == 1) {
        const std::string word = TextOf(words.front());
        if (IsControl(word, at)) return;
        if (IsDeclaration(word)) continue;
      }
      begins = false;
      command.words.insert(command.words.end(), words.begin(), words.end());
    }
    conditions_.EndCommand(command.words.empty() ? std::optional(true) : ResultOfTest(command.words));
    if (!command.words.empty() && branch_ != ShellBranch::kSkipped)
      script_.commands.push_back(std::move(command));
  }

  // Reads what stands between two commands, or a bracket around some.
  void ReadSeparator(char c) {
    const bool twice = At(pos_ + 1) == c;
    if (c == '(' && twice) {
      SkipArithmeticCommand();
      return conditions_.EndCommand(std::nullopt);
    }
    pos_ += (twice && c != ')') || (c == '|' && At(pos_ + 1) == '&') ? 2 : 1;
    if (c == '(') BeginLevel(pos_, [&] { conditions_.BeginGroup(); });
    if (c == ')') conditions_.EndGroup();
    if (c == '&' && twice) conditions_.And();
    if (c == '|' && twice) conditions_.Or();
    if (c == '|' && !twice) conditions_.Pipe();
  }

  template <typename Begin>
  void BeginLevel(std::size_t at, const Begin& begin) {
    begin();
    if (conditions_.depth() > kDeepestShell)
      Fail(at, fmt::format("conditions are nested deeper than {}", kDeepestShell));
  }

  static bool IsDeclaration(std::string_view word) {
    return word == "export" || word == "declare" || word == "local" || word == "readonly" ||
           word == "typeset" || word == "env" || word.starts_with('-');
  }

  // Follows conditions and loops. Returns whether the word is one of theirs and a command follows.
  bool IsControl(std::string_view word, std::size_t at) {
    if (word == "if") {
      BeginLevel(at, [&] { conditions_.If(); });
      return true;
    }
    if (word == "while" || word == "until" || word == "case" || word == "select" || word == "for") {
      BeginLevel(at, [&] { conditions_.BeginLoop(); });
      if (word == "for" || word == "select") {
        SkipBlanks();
        const std::string name = ReadName();
        if (!name.empty())
          variables_.Set(name, variables_.Unknown(at, fmt::format("${} is set by a loop", name)));
      }
      return word == "while" || word == "until";
    }
    if (word == "{") BeginLevel(at, [&] { conditions_.BeginGroup(); });
    if (word == "}") conditions_.EndGroup();
    if (word == "then") conditions_.Then();
    if (word == "elif") conditions_.Elif();
    if (word == "else") conditions_.Else();
    if (word == "fi") conditions_.Fi();
    if (word == "done" || word == "esac") conditions_.EndLoop();
    if (word == "!") conditions_.Not();
    return word == "fi" || word == "done" || word == "esac" || word == "then" || word == "else" ||
           word == "elif" || word == "do" || word == "{" || word == "}" || word == "!" || word == "time";
  }

  std::string ReadName() {
    const std::size_t begin = pos_;
    if (!BeginsShellName(At(pos_))) return "";
    while (IsOfShellName(At(pos_))) ++pos_;
    return std::string(text_.substr(begin, pos_ - begin));
  }

  void SkipArithmeticCommand() {
    const std::size_t end = text_.find("))", pos_);
    if (end == std::string_view::npos) return Fail(pos_, "'((' does not end; add '))'");
    pos_ = end + 2;
  }

  // Reads NAME=VALUE, NAME+=VALUE and NAME=( ... ). Returns whether there was one.
  bool ReadAssignment() {
    const std::size_t begin = pos_;
    const std::string name = ReadName();
    bool item = false;
    if (!name.empty() && At(pos_) == '[') {
      const std::size_t close = text_.find_first_of("]\n", pos_);
      if (close != std::string_view::npos && text_[close] == ']') {
        item = true;
        pos_ = close + 1;
      }
    }
    const bool append = At(pos_) == '+' && At(pos_ + 1) == '=';
    if (name.empty() || (At(pos_) != '=' && !append)) {
      pos_ = begin;
      return false;
    }
    pos_ += append ? 2 : 1;
    ShellVariable value;
    if (At(pos_) == '(') {
      value = {true, ReadArray()};
    } else {
      value.items = {JoinedWords(ReadWords(/*splits=*/false))};
    }
    const bool perhaps = branch_ == ShellBranch::kPerhaps;
    if (branch_ != ShellBranch::kSkipped)
      variables_.Assign(name, std::move(value), {append, item, perhaps}, begin);
    return true;
  }

  std::vector<ShellWord> ReadArray() {
    const std::size_t begin = pos_++;
    std::vector<ShellWord> items;
    while (ok()) {
      SkipBlanks();
      if (pos_ >= text_.size()) {
        Fail(begin, "'(' does not end; add ')'");
        break;
      }
      const char c = At(pos_);
      if (c == ')') {
        ++pos_;
        break;
      }
      if (c == '\n') {
        ++pos_;
        continue;
      }
      if (EndsShellWord(c)) {
        Fail(pos_, fmt::format("'{}' is not expected in an array; quote it", c));
        break;
      }
      for (ShellWord& word : ReadWords()) items.push_back(std::move(word));
    }
    return items;
  }

  bool SkipRedirection() {
    std::size_t i = pos_;
    if (At(i) == '&' && At(i + 1) == '>') ++i;
    if (At(i) != '>' && At(i) != '<') return false;
    if (At(i) == '<' && At(i + 1) == '<' && At(i + 2) != '<') {
      i += At(i + 2) == '-' ? 3 : 2;
      pos_ = i;
      SkipBlanks();
      here_documents_.emplace_back(pos_, TextOf(JoinedWords(ReadWords(/*splits=*/false))));
      return true;
    }
    while (At(i) == '>' || At(i) == '<' || At(i) == '&' || At(i) == '|') ++i;
    pos_ = i;
    SkipBlanks();
    if (pos_ < text_.size() && !EndsShellWord(At(pos_))) (void)ReadWords(/*splits=*/false);
    return true;
  }

  void SkipHereDocuments() {
    for (const auto& [at, end] : here_documents_) {
      bool ended = false;
      while (!ended && pos_ < text_.size()) {
        std::size_t stop = text_.find('\n', pos_);
        if (stop == std::string_view::npos) stop = text_.size();
        std::string_view line = text_.substr(pos_, stop - pos_);
        while (line.starts_with('\t')) line.remove_prefix(1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        ended = line == end;
        pos_ = std::min(stop + 1, text_.size());
      }
      if (!ended) Fail(at, fmt::format("the text up to '{}' does not end", base::Printable(end)));
    }
    here_documents_.clear();
  }

  // The words of one place: several, or none, if an unquoted variable has blanks or an array has items.
  struct Words {
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

  std::vector<ShellWord> ReadWords(bool splits = true) {
    Words words;
    while (ok() && pos_ < text_.size() && !EndsShellWord(text_[pos_])) ReadPart(words, splits);
    words.End();
    return std::move(words.done);
  }

  void ReadPart(Words& words, bool splits) {
    const std::size_t at = pos_;
    const char c = text_[pos_];
    if (const std::size_t more = Continuation(pos_); more > 0) {
      pos_ += more;
    } else if (c == '\\') {
      ++pos_;
      if (pos_ < text_.size()) words.Add({.c = text_[pos_], .at = pos_});
      ++pos_;
    } else if (c == '\'' || (c == '$' && At(pos_ + 1) == '\'')) {
      pos_ += c == '$' ? 2 : 1;
      const std::size_t end = text_.find('\'', pos_);
      if (end == std::string_view::npos) return Fail(at, "a single quote does not end; add one");
      words.any = true;
      for (; pos_ < end; ++pos_) words.Add({.c = text_[pos_], .at = pos_});
      ++pos_;
    } else if (c == '"') {
      ++pos_;
      ReadDoubleQuoted(words, at);
    } else if (c == '$' || c == '`') {
      Expand(words, /*quoted=*/!splits);
    } else {
      words.Add({.c = c, .at = pos_});
      ++pos_;
    }
  }

  void ReadDoubleQuoted(Words& words, std::size_t begin) {
    const bool array = StartsWith("${") && text_.substr(pos_, text_.find('}', pos_) - pos_).ends_with("[@]");
    if (!array) words.any = true;
    while (ok() && pos_ < text_.size() && text_[pos_] != '"') {
      const char c = text_[pos_];
      if (const std::size_t more = Continuation(pos_); more > 0) {
        pos_ += more;
      } else if (c == '\\' && std::string_view("$`\"\\").find(At(pos_ + 1)) != std::string_view::npos &&
                 pos_ + 1 < text_.size()) {
        words.Add({.c = text_[pos_ + 1], .at = pos_ + 1});
        pos_ += 2;
      } else if (c == '$' || c == '`') {
        Expand(words, /*quoted=*/true);
      } else {
        words.Add({.c = c, .at = pos_});
        ++pos_;
      }
    }
    if (pos_ >= text_.size()) return Fail(begin, "a double quote does not end; add one");
    ++pos_;
  }

  void AddText(Words& words, const ShellWord& text, bool quoted) {
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

  void AddVariable(Words& words, const ShellVariable& variable, bool quoted, bool all) {
    for (std::size_t i = 0; i < variable.items.size(); ++i) {
      if (i > 0 && !all) break;  // $NAME of an array is its first item
      if (i > 0) words.End();
      if (all && quoted) words.any = true;
      AddText(words, variable.items[i], quoted);
    }
  }

  // Reads an expansion at '$' or '`'.
  void Expand(Words& words, bool quoted) {
    const std::size_t at = pos_;
    if (++nested_ > kDeepestShell)
      Fail(at, fmt::format("expansions are nested deeper than {}", kDeepestShell));
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
      } else if (pos_ < text_.size() && (IsShellDigit(At(pos_)) || std::string_view("@*#?$!-").find(
                                                                       At(pos_)) != std::string_view::npos)) {
        const std::string which(1, text_[pos_++]);
        AddText(words, variables_.Unknown(at, fmt::format("${} is an argument of the script", which)),
                quoted);
      } else {
        words.Add({.c = '$', .at = at});
      }
    }
    --nested_;
  }

  ShellWord NotRun(std::size_t at) {
    return variables_.Unknown(at, fmt::format("{} is not run", base::Printable(text_.substr(at, pos_ - at))));
  }

  // Ends behind the bracket that closes "$(".
  void SkipSubstitution(std::size_t begin) {
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

  void AddNamed(Words& words, const std::string& name, std::size_t at, bool quoted, bool all) {
    if (const ShellVariable* variable = variables_.Find(name))
      return AddVariable(words, *variable, quoted, all);
    if (IsShellDigit(name.front()))
      return AddText(words, variables_.Unknown(at, fmt::format("${} is an argument of the script", name)),
                     quoted);
    const std::string shown = all ? fmt::format("{{{}[@]}}", name) : name;
    AddText(words, variables_.Unknown(at, fmt::format("${} is not set in the file", shown)), quoted);
  }

  void ExpandBraces(Words& words, bool quoted) {
    const std::size_t at = pos_;
    pos_ += 2;
    std::string name = ReadName();
    while (name.empty() ? IsShellDigit(At(pos_)) : IsShellDigit(name.front()) && IsShellDigit(At(pos_)))
      name += text_[pos_++];  // an argument
    bool all = false;
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
      return AddText(words,
                     variables_.Unknown(
                         at, fmt::format("{} is not computed", base::Printable(text_.substr(at, pos_ - at)))),
                     quoted);
    }
    pos_ += colon ? 2 : 1;
    Words other;
    while (ok() && pos_ < text_.size() && text_[pos_] != '}') {
      if (IsShellBlank(text_[pos_]) || EndsShellWord(text_[pos_])) {
        other.Add({.c = text_[pos_], .at = pos_});
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

  bool SkipBraces(std::size_t begin) {
    int open = 1;
    for (; pos_ < text_.size() && open > 0; ++pos_) {
      if (text_[pos_] == '{') ++open;
      if (text_[pos_] == '}') --open;
      if (text_[pos_] == '\n') break;
    }
    if (open > 0) Fail(begin, "'${' does not end; add '}'");
    return open == 0;
  }

  ShellWord Arithmetic() {
    const std::size_t at = pos_;
    pos_ += 3;
    ShellArithmetic arithmetic(text_, pos_, nested_, [this] { return ArithmeticOperand(); });
    const std::optional<std::int64_t> value = arithmetic.Read();
    if (value && StartsWith("))")) {
      pos_ += 2;
      ShellWord word;
      for (const char c : fmt::to_string(*value)) word.push_back({.c = c, .at = at, .computed = true});
      return word;
    }
    pos_ = at + 2;  // the inner bracket opens, too
    SkipSubstitution(at);
    if (!ok()) return {};
    const int met = arithmetic.unknown();
    const std::string why = met < 0 ? "" : ": " + variables_.unknowns()[static_cast<std::size_t>(met)];
    return variables_.Unknown(
        at, fmt::format("{} is not computed{}", base::Printable(text_.substr(at, pos_ - at)), why));
  }

  // What stands for a number in arithmetic: $NAME, ${...}, NAME. Empty for anything else.
  ShellWord ArithmeticOperand() {
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

  std::string_view file_, text_;
  std::size_t pos_ = 0, spent_ = 0;
  int nested_ = 0;
  ShellConditions conditions_;
  ShellBranch branch_ = ShellBranch::kTaken;  // of the command that is read
  ShellVariables variables_;
  std::vector<std::pair<std::size_t, std::string>> here_documents_;
  ShellScript script_;
  absl::Status status_ = absl::OkStatus();
};

}  // namespace

absl::StatusOr<ShellScript> ReadShellScript(std::string_view file, std::string_view text,
                                            const std::map<std::string, ShellWord>& environment) {
  return ShellReader(file, text, environment).Read();
}

}  // namespace autocfg
