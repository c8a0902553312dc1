// The words of a bash script that is not run: quotes, and what variables, arrays and $((...)) expand to. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "search/frameworks/shell/shell_variables.h"
#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

class ShellExpander {
 protected:
  // `origin`: of a text that is a word of a script (bash -c '...'), that word, as long as the text. Null: the
  // text is the script.
  ShellExpander(std::string_view file, std::string_view text, ShellVariables& variables,
                const ShellWord* origin)
      : file_(file), text_(text), variables_(variables), origin_(origin) {}

  bool ok() const { return status_.ok(); }
  void Fail(std::size_t at, std::string_view problem);
  char At(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool StartsWith(std::string_view what) const { return text_.substr(pos_).starts_with(what); }
  // Returns where a character of the text stands in the script.
  std::size_t Place(std::size_t i) const;
  // Counts what a text expands to. Fails above kMostShellText.
  void Spend(std::size_t characters, std::size_t at);

  void SkipBlanks();
  std::string ReadName();
  // Returns the words of one place: several, or none, if an unquoted variable has blanks or an array has
  // items.
  std::vector<ShellWord> ReadWords(bool splits = true);

  // Returns a text of a here-document, from `pos_` to `end`, with its variables put in.
  ShellWord ReadHereText(std::size_t end);
  // Returns the characters of a part of the text, as they are.
  ShellWord PlainText(std::size_t begin, std::size_t end) const;

  std::string_view file_, text_;
  std::size_t pos_ = 0, spent_ = 0;
  int nested_ = 0;
  ShellVariables& variables_;
  absl::Status status_ = absl::OkStatus();

 private:
  struct Words;

  std::size_t Continuation(std::size_t i) const;
  ShellChar CharAt(std::size_t i) const;
  void ReadPart(Words& words, bool splits);
  void ReadDoubleQuoted(Words& words, std::size_t begin);
  void AddText(Words& words, const ShellWord& text, bool quoted);
  void AddVariable(Words& words, const ShellVariable& variable, bool quoted, bool all);
  void Expand(Words& words, bool quoted);
  void ExpandBraces(Words& words, bool quoted);
  ShellWord NotRun(std::size_t at);
  void SkipSubstitution(std::size_t begin);
  void AddNamed(Words& words, const std::string& name, std::size_t at, bool quoted, bool all);
  bool SkipBraces(std::size_t begin);
  ShellWord Arithmetic();
  ShellWord ArithmeticOperand();
  ShellWord Unknown(std::size_t at, std::string why) { return variables_.Unknown(Place(at), std::move(why)); }

  const ShellWord* origin_;
};

}  // namespace autocfg
