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
  ShellReader(std::string_view file, std::string_view text, ShellVariables& variables, ShellFiles& files,
              const ShellWord* origin)
      : ShellExpander(file, text, variables, origin), files_(files) {}

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
    output_ = {};
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
        if (!number.empty() && std::all_of(number.begin(), number.end(), IsShellDigit)) {  // 2>
          const Output before = output_;
          SkipRedirection();
          if (number != "1") output_ = before;
          continue;
        }
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
    if (command.words.empty() || branch_ == ShellBranch::kSkipped || !ok()) return input_.reset();
    WriteOutput(command.words);
    if (TextOf(command.words.front()) == "shift") return Shift(command);
    if (!ReadAgain(command)) script_.commands.push_back(std::move(command));
  }

  // Writes the file that the command prints to. What it prints into a '|' is the input of the next command.
  void WriteOutput(const std::vector<ShellWord>& words) {
    std::optional<ShellWord> text = files_.OutputOf(words, input_);
    Spend(text ? text->size() : 0, pos_);
    const bool piped = At(pos_) == '|' && At(pos_ + 1) != '|';
    if (piped) input_ = text;
    if (!piped) input_.reset();
    if (output_.path.empty()) return;
    const ShellFiles::Writing how{output_.append, branch_ == ShellBranch::kPerhaps};
    const bool from_document =
        words.size() == 1 && TextOf(words.front()) == "cat" && !here_documents_.empty();
    if (from_document) {
      here_documents_.back().path = output_.path;
      here_documents_.back().how = how;
    } else {
      files_.Write(output_.path, std::move(text), how);
    }
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
    ShellReader again(file_, text, variables_, files_, &word);
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

  // A text that begins on the next line and ends before the line `end`.
  struct HereDocument {
    std::size_t at = 0;
    std::string end;
    bool plain = false;   // nothing in it is expanded
    ShellWord path = {};  // of the file that it is written to; empty: none
    ShellFiles::Writing how = {};
  };
  // The file that a command prints to; none without a path.
  struct Output {
    ShellWord path;
    bool append = false;
  };

  bool SkipRedirection() {
    std::size_t i = pos_;
    if (At(i) == '&' && At(i + 1) == '>') ++i;
    if (At(i) != '>' && At(i) != '<') return false;
    if (At(i) == '<' && At(i + 1) == '<' && At(i + 2) != '<') {
      i += At(i + 2) == '-' ? 3 : 2;
      pos_ = i;
      SkipBlanks();
      HereDocument document{.at = pos_, .end = TextOf(JoinedWords(ReadWords(/*splits=*/false)))};
      document.plain =
          text_.substr(document.at, pos_ - document.at).find_first_of("'\"\\") != std::string_view::npos;
      here_documents_.push_back(std::move(document));
      return true;
    }
    const bool writes = At(i) == '>' && At(i + 1) != '&';
    const bool append = writes && At(i + 1) == '>';
    while (At(i) == '>' || At(i) == '<' || At(i) == '&' || At(i) == '|') ++i;
    pos_ = i;
    SkipBlanks();
    if (pos_ >= text_.size() || EndsShellWord(At(pos_))) return true;
    ShellWord path = JoinedWords(ReadWords(/*splits=*/false));
    if (writes) output_ = {std::move(path), append};
    return true;
  }

  void SkipHereDocuments() {
    for (const HereDocument& document : here_documents_) {
      const std::size_t begin = pos_;
      std::size_t last = pos_;  // where the line that ends it begins
      bool ended = false;
      while (!ended && pos_ < text_.size()) {
        std::size_t stop = text_.find('\n', pos_);
        if (stop == std::string_view::npos) stop = text_.size();
        std::string_view line = text_.substr(pos_, stop - pos_);
        while (line.starts_with('\t')) line.remove_prefix(1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        ended = line == document.end;
        last = pos_;
        pos_ = std::min(stop + 1, text_.size());
      }
      if (!ended)
        Fail(document.at, fmt::format("the text up to '{}' does not end", base::Printable(document.end)));
      if (ok() && !document.path.empty()) WriteDocument(document, begin, last);
    }
    here_documents_.clear();
  }

  void WriteDocument(const HereDocument& document, std::size_t begin, std::size_t end) {
    const std::size_t after = pos_;
    pos_ = begin;
    ShellWord text = document.plain ? PlainText(begin, end) : ReadHereText(end);
    pos_ = after;
    Spend(text.size(), begin);
    files_.Write(document.path, std::move(text), document.how);
  }

  ShellConditions conditions_;
  ShellBranch branch_ = ShellBranch::kTaken;  // of the command that is read
  std::vector<HereDocument> here_documents_;
  Output output_;                   // of the command that is read
  std::optional<ShellWord> input_;  // of the next command, if the one before prints it and it is known
  ShellFiles& files_;
  ShellScript script_;
};

}  // namespace

absl::StatusOr<ShellScript> ReadShellScript(std::string_view file, std::string_view text,
                                            const ShellStart& start) {
  ShellVariables variables(start.environment);
  std::vector<ShellWord> arguments;
  for (const std::string& argument : start.arguments) arguments.push_back(WordFromLaunch(argument));
  if (!arguments.empty()) variables.SetArguments(std::move(arguments));
  ShellFiles files(start.files);
  auto script = ShellReader(file, text, variables, files, /*origin=*/nullptr).Read();
  if (!script.ok()) return script;
  script->options = variables.OptionWords();
  script->files = std::move(files);
  return script;
}

}  // namespace autocfg
