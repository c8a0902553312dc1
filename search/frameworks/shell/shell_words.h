// Words of a bash script, and the characters that they are made of. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

// How deep expansions, expressions and conditions may be nested.
inline constexpr int kDeepestShell = 64;

inline constexpr std::size_t kNotInScript = static_cast<std::size_t>(-1);

// A character of a word, and where it stands in the script.
struct ShellChar {
  char c = 0;
  std::size_t at = 0;     // kNotInScript: of an argument or a variable that is set at launch
  int unknown = -1;       // index of ShellScript::unknowns: it stands for a text that cannot be known
  int perhaps = -1;       // index of ShellScript::unknowns: it is added under a condition
  bool computed = false;  // by arithmetic: `at` is that of the whole expression
};
using ShellWord = std::vector<ShellChar>;

ShellWord WordFromLaunch(std::string_view text);
std::string TextOf(const ShellWord& word);                   // what is unknown is left out
ShellWord JoinedWords(const std::vector<ShellWord>& words);  // with blanks between them

constexpr bool IsShellBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
constexpr bool IsShellDigit(char c) { return c >= '0' && c <= '9'; }
// Of the name of a variable.
constexpr bool BeginsShellName(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool IsOfShellName(char c) { return BeginsShellName(c) || IsShellDigit(c); }
// Whether it ends a word unless it is quoted.
constexpr bool EndsShellWord(char c) {
  return IsShellBlank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' ||
         c == '<' || c == '>';
}

}  // namespace autocfg
