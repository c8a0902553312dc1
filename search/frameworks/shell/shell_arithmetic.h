// The $((...)) of a bash script that is not run: whole numbers, variables, + - * / % and parentheses. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

class ShellArithmetic {
 public:
  // Reads `text` from `pos` on, and moves it. `nested`: how deep the script's reader is nested, which counts
  // along. `expand` reads the name or the expansion that begins at `pos`; empty: there is none.
  ShellArithmetic(std::string_view text, std::size_t& pos, int& nested, std::function<ShellWord()> expand)
      : text_(text), pos_(pos), nested_(nested), expand_(std::move(expand)) {}

  // Returns the value of the expression, and ends behind it and the blanks that follow. What has anything
  // else, or leaves 64 bits, cannot be known: then it ends anywhere.
  std::optional<std::int64_t> Read();

  // The unknown that it met (ShellChar::unknown); -1: none.
  int unknown() const { return unknown_; }

 private:
  char At(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  void SkipBlanks();
  std::optional<std::int64_t> Sum();
  std::optional<std::int64_t> Product();
  std::optional<std::int64_t> Factor();

  std::string_view text_;
  std::size_t& pos_;
  int& nested_;
  std::function<ShellWord()> expand_;
  int unknown_ = -1;
};

}  // namespace autocfg
