#include "search/frameworks/shell/shell_files.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

// s/WHAT/WITH/ of sed, WHAT without operators of a regular expression.
struct SedRule {
  std::string what;
  ShellWord with;
  bool everywhere = false;  // /g: else the first of each line
};

// Returns the end of the part of a rule that begins at `begin`: its delimiter.
std::size_t EndOfPart(const ShellWord& rule, std::size_t begin, char delimiter) {
  while (begin < rule.size() && (rule[begin].unknown >= 0 || rule[begin].c != delimiter))
    begin += rule[begin].unknown < 0 && rule[begin].c == '\\' ? 2 : 1;
  return begin;
}

// Returns the text that a pattern matches; nothing if it matches several.
std::optional<std::string> TextOfPattern(const ShellWord& pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i].unknown >= 0) return std::nullopt;
    char c = pattern[i].c;
    if (std::string_view(".*[]^$+?(){}|").find(c) != std::string_view::npos) return std::nullopt;
    if (c == '\\') {
      if (++i == pattern.size() || std::isalnum(static_cast<unsigned char>(pattern[i].c)) != 0)
        return std::nullopt;
      c = pattern[i].c;
    }
    text += c;
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<SedRule> RuleOf(const ShellWord& word) {
  if (word.size() < 4 || word[0].c != 's') return std::nullopt;
  const char delimiter = word[1].c;
  const std::size_t middle = EndOfPart(word, 2, delimiter);
  const std::size_t end = EndOfPart(word, middle + 1, delimiter);
  if (end >= word.size()) return std::nullopt;
  const auto part = [&](std::size_t from, std::size_t to) {
    return ShellWord(word.begin() + static_cast<std::ptrdiff_t>(from),
                     word.begin() + static_cast<std::ptrdiff_t>(to));
  };
  const auto what = TextOfPattern(part(2, middle));
  SedRule rule{.what = what.value_or(""), .with = part(middle + 1, end)};
  const std::string flags = TextOf(part(end + 1, word.size()));
  rule.everywhere = flags == "g";
  const bool plain = std::ranges::none_of(
      rule.with, [](const ShellChar& c) { return c.unknown < 0 && (c.c == '&' || c.c == '\\'); });
  if (!what || !plain || (!flags.empty() && flags != "g")) return std::nullopt;
  return rule;
}

// Returns nothing if the result is longer than kMostFileText.
std::optional<ShellWord> Substituted(const ShellWord& text, const SedRule& rule) {
  ShellWord result;
  bool done = false;  // on this line
  for (std::size_t i = 0; i < text.size();) {
    if (result.size() > kMostFileText) return std::nullopt;
    bool matches = !done && text.size() - i >= rule.what.size();
    for (std::size_t k = 0; matches && k < rule.what.size(); ++k)
      matches = text[i + k].unknown < 0 && text[i + k].c == rule.what[k];
    if (matches) {
      result.insert(result.end(), rule.with.begin(), rule.with.end());
      i += rule.what.size();
      done = !rule.everywhere;
      continue;
    }
    if (text[i].unknown < 0 && text[i].c == '\n') done = false;
    result.push_back(text[i++]);
  }
  return result;
}

}  // namespace

std::string FileKeyOf(const ShellWord& path) {
  std::string key;
  for (const ShellChar& c : path)
    key += c.unknown < 0 ? std::string(1, c.c) : fmt::format("\n{}\n", c.unknown);
  return key.starts_with("./") ? key.substr(2) : key;
}

std::optional<ShellWord> ShellFiles::Read(const std::string& key, const std::string& path) const {
  if (const auto found = written_.find(key); found != written_.end()) return found->second;
  if (!beside_ || path.empty()) return std::nullopt;
  const auto text = beside_(path);
  return text ? std::optional(WordFromLaunch(*text)) : std::nullopt;
}

std::optional<ShellWord> ShellFiles::Counted(std::optional<ShellWord> text) {
  if (text) made_ += text->size();
  return made_ > kMostFileText ? std::nullopt : std::move(text);
}

void ShellFiles::Write(const ShellWord& path, std::optional<ShellWord> text, Writing how) {
  if (path.empty()) return;
  const std::string key = FileKeyOf(path);
  const auto before = written_.find(key);
  if (how.append && text) {
    const std::optional<ShellWord> old = Read(path);
    if (before != written_.end() && !old) return;  // it stays unknown
    if (old) text->insert(text->begin(), old->begin(), old->end());
    text = Counted(std::move(text));
  }
  // Of two texts that conditions choose from, none is known.
  if (how.perhaps && before != written_.end() && text && before->second &&
      TextOf(*text) != TextOf(*before->second))
    text = std::nullopt;
  written_[key] = std::move(text);
}

std::optional<ShellWord> ShellFiles::Concatenated(const std::vector<ShellWord>& paths,
                                                  const std::optional<ShellWord>& input) {
  if (paths.empty()) return input;
  ShellWord all;
  for (const ShellWord& path : paths) {
    const auto text = Counted(Read(path));
    if (!text) return std::nullopt;
    all.insert(all.end(), text->begin(), text->end());
  }
  return all;
}

std::optional<ShellWord> ShellFiles::OutputOf(const std::vector<ShellWord>& words,
                                              const std::optional<ShellWord>& input) {
  if (words.empty()) return std::nullopt;
  const std::string program = TextOf(words.front());
  if (program == "sed") return Edited(words, input);
  if (program == "cat") return Concatenated({words.begin() + 1, words.end()}, input);
  if (program != "echo") return std::nullopt;
  auto first = words.begin() + 1;
  while (first != words.end() && (TextOf(*first) == "-n" || TextOf(*first) == "-e")) ++first;
  ShellWord text = JoinedWords({first, words.end()});
  text.push_back({.c = '\n', .at = kNotInScript});
  return text;
}

// sed with rules alone: -e and -i, and no other option that changes what it does.
std::optional<ShellWord> ShellFiles::Edited(const std::vector<ShellWord>& words,
                                            const std::optional<ShellWord>& input) {
  std::vector<ShellWord> scripts, files;
  bool named = false, in_place = false, known = true;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string text = TextOf(words[i]);
    if (text == "-e" && i + 1 < words.size()) {
      scripts.push_back(words[++i]);
      named = true;
    } else if (text.starts_with("-i") || text == "--in-place") {
      in_place = true;
    } else if (text.starts_with("-") && text.size() > 1) {
      known = known && (text == "-E" || text == "-r");
    } else {
      files.push_back(words[i]);
    }
  }
  if (!named && !files.empty()) {
    scripts.push_back(files.front());
    files.erase(files.begin());
  }
  auto text = known ? Concatenated(files, input) : std::nullopt;
  for (const ShellWord& script : scripts) {
    const auto rule = RuleOf(script);
    text = text && rule ? Counted(Substituted(*text, *rule)) : std::nullopt;
  }
  if (!in_place) return text;
  for (const ShellWord& file : files) {
    if (text || Writes(FileKeyOf(file))) Write(file, files.size() == 1 ? text : std::nullopt, {});
  }
  return std::nullopt;
}

}  // namespace autocfg
