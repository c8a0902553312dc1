#include "search/frameworks/shell/shell_arithmetic.h"

#include <string>

#include "base/numbers.h"

namespace autocfg {

std::optional<std::int64_t> ShellArithmetic::Read() {
  const std::optional<std::int64_t> value = Sum();
  SkipBlanks();
  return value;
}

void ShellArithmetic::SkipBlanks() {
  while (pos_ < text_.size() && (IsShellBlank(text_[pos_]) || text_[pos_] == '\n')) ++pos_;
}

std::optional<std::int64_t> ShellArithmetic::Sum() {
  std::optional<std::int64_t> value = Product();
  for (;;) {
    SkipBlanks();
    const char c = At(pos_);
    if (!value || (c != '+' && c != '-')) return value;
    ++pos_;
    const std::optional<std::int64_t> right = Product();
    std::int64_t result = 0;
    const bool wrong = !right || (c == '+' ? __builtin_add_overflow(*value, *right, &result)
                                           : __builtin_sub_overflow(*value, *right, &result));
    value = wrong ? std::nullopt : std::optional(result);
  }
}

std::optional<std::int64_t> ShellArithmetic::Product() {
  std::optional<std::int64_t> value = Factor();
  for (;;) {
    SkipBlanks();
    const char c = At(pos_);
    if (!value || (c != '*' && c != '/' && c != '%')) return value;
    ++pos_;
    const std::optional<std::int64_t> right = Factor();
    std::int64_t result = 0;
    if (!right || (c != '*' && *right <= 0)) return std::nullopt;
    if (c == '*' && __builtin_mul_overflow(*value, *right, &result)) return std::nullopt;
    if (c == '/') result = *value / *right;
    if (c == '%') result = *value % *right;
    value = result;
  }
}

std::optional<std::int64_t> ShellArithmetic::Factor() {
  SkipBlanks();
  if (At(pos_) == '(') {
    ++pos_;
    if (nested_ == kDeepestShell) return std::nullopt;
    ++nested_;
    const std::optional<std::int64_t> value = Sum();
    --nested_;
    SkipBlanks();
    if (At(pos_) != ')') return std::nullopt;
    ++pos_;
    return value;
  }
  if (At(pos_) == '-' || At(pos_) == '+') {
    const bool negative = text_[pos_++] == '-';
    if (nested_ == kDeepestShell) return std::nullopt;
    ++nested_;
    const std::optional<std::int64_t> value = Factor();
    --nested_;
    std::int64_t result = 0;
    if (!value || (negative && __builtin_sub_overflow(std::int64_t{0}, *value, &result))) return std::nullopt;
    return negative ? result : *value;
  }
  std::string digits;
  if (IsShellDigit(At(pos_))) {
    while (IsShellDigit(At(pos_))) digits += text_[pos_++];
  } else {
    for (const ShellChar& c : expand_()) {
      const int why = c.unknown >= 0 ? c.unknown : c.perhaps;
      if (why >= 0) {
        unknown_ = why;
        return std::nullopt;
      }
      digits += c.c;
    }
  }
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;  // octal
  return base::ParseNumber<std::int64_t>(digits);
}

}  // namespace autocfg
