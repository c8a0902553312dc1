#include "search/frameworks/shell/shell_script.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/numbers.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/shell/shell_conditions.h"
#include "search/frameworks/shell/shell_expander.h"
#include "search/frameworks/shell/shell_variables.h"

namespace autocfg {
namespace {

// Reads the commands. A word that a shell reads again is read as a script of its own.
class ShellReader : private ShellExpander {
 public:
  // As ShellExpander.
  ShellReader(std::string_view file, std::string_view text, ShellVariables& variables,
              const ShellWord* origin)
      : ShellExpander(file, text, variables, origin) {}

  absl::StatusOr<ShellScript> Read() {
    while (ok() && pos_ < text_.size()) ReadCommand();
    if (!ok()) return status_;
    script_.unknowns = variables_.unknowns();
    return std::move(script_);
  }

 private:
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
    ShellCommand command{.at = Place(pos_), .words = {}};
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
    if (command.words.empty() || branch_ == ShellBranch::kSkipped || !ok()) return;
    if (TextOf(command.words.front()) == "shift") return Shift(command);
    if (!ReadAgain(command)) script_.commands.push_back(std::move(command));
  }

  void Shift(const ShellCommand& command) {
    const std::optional<std::size_t> count =
        command.words.size() > 1 ? base::ParseNumber<std::size_t>(TextOf(command.words[1])) : 1;
    if (branch_ == ShellBranch::kPerhaps || !count) return variables_.ForgetArguments();
    variables_.Shift(*count);
  }

  // Returns the index of the word that a shell reads again: that of `bash -c`, one that names a program of
  // Python (ssh HOST "..."), or the first one of `eval`. The number of words if there is none.
  static std::size_t WordOfCommands(const std::vector<ShellWord>& words) {
    bool shell = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string text = TextOf(words[i]);
      if (i == 0 && text == "eval") return 1;
      const std::string_view file = std::string_view(text).substr(text.rfind('/') + 1);
      shell = shell || file == "bash" || file == "sh" || file == "zsh" || file == "dash";
      if (shell && text.size() > 1 && text[0] == '-' && text[1] != '-' && text.ends_with('c')) return i + 1;
      if (text.find(".py ") != std::string::npos) return i;
      if (text.ends_with(".py")) break;
    }
    return words.size();
  }

  // Reads the commands of a word that a shell reads again. Returns whether `command` has one; a word that is
  // no script is left as it is.
  bool ReadAgain(const ShellCommand& command) {
    const std::size_t index = WordOfCommands(command.words);
    if (index >= command.words.size() || nested_ == kDeepestShell) return false;
    const auto first = command.words.begin() + static_cast<std::ptrdiff_t>(index);
    const bool evaluated = TextOf(command.words.front()) == "eval";
    const ShellWord word = evaluated ? JoinedWords({first, command.words.end()}) : *first;
    std::string text;
    for (const ShellChar& c : word) text += c.c;
    ShellReader again(file_, text, variables_, &word);
    again.spent_ = spent_;
    again.nested_ = nested_ + 1;
    again.Spend(text.size(), 0);
    if (branch_ == ShellBranch::kPerhaps) again.conditions_.BeginLoop();
    auto script = again.Read();
    spent_ = again.spent_;
    Spend(0, pos_);
    if (!script.ok()) return false;
    for (ShellCommand& each : script->commands) {
      if (!evaluated) each.words.insert(each.words.begin(), command.words.begin(), first);
      script_.commands.push_back(std::move(each));
    }
    return true;
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
          variables_.Set(name, variables_.Unknown(Place(at), fmt::format("${} is set by a loop", name)));
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
      variables_.Assign(name, std::move(value), {append, item, perhaps}, Place(begin));
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

  ShellConditions conditions_;
  ShellBranch branch_ = ShellBranch::kTaken;  // of the command that is read
  std::vector<std::pair<std::size_t, std::string>> here_documents_;
  ShellScript script_;
};

}  // namespace

absl::StatusOr<ShellScript> ReadShellScript(std::string_view file, std::string_view text,
                                            const ShellStart& start) {
  ShellVariables variables(start.environment);
  std::vector<ShellWord> arguments;
  for (const std::string& argument : start.arguments) arguments.push_back(WordFromLaunch(argument));
  if (!arguments.empty()) variables.SetArguments(std::move(arguments));
  return ShellReader(file, text, variables, /*origin=*/nullptr).Read();
}

}  // namespace autocfg
