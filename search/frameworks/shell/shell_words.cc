#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

ShellWord WordFromLaunch(std::string_view text) {
  ShellWord word;
  for (const char c : text) word.push_back({.c = c, .at = kNotInScript, .computed = true});
  return word;
}

std::string TextOf(const ShellWord& word) {
  std::string text;
  for (const ShellChar& c : word) {
    if (c.unknown < 0) text += c.c;
  }
  return text;
}

ShellWord JoinedWords(const std::vector<ShellWord>& words) {
  ShellWord all;
  for (const ShellWord& word : words) {
    if (&word != &words.front()) all.push_back({.c = ' ', .at = word.empty() ? 0 : word.front().at});
    all.insert(all.end(), word.begin(), word.end());
  }
  return all;
}

}  // namespace autocfg
