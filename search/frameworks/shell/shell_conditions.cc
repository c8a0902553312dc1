#include "search/frameworks/shell/shell_conditions.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/numbers.h"

namespace autocfg {
namespace {

std::optional<bool> Compared(std::string_view left, std::string_view how, std::string_view right,
                             bool patterns) {
  if (how == "=" || how == "==" || how == "!=") {
    if (patterns && right.find_first_of("*?[") != std::string_view::npos) return std::nullopt;
    return (left == right) == (how != "!=");
  }
  const auto a = base::ParseNumber<std::int64_t>(left), b = base::ParseNumber<std::int64_t>(right);
  if (!a || !b) return std::nullopt;
  if (how == "-eq") return *a == *b;
  if (how == "-ne") return *a != *b;
  if (how == "-lt") return *a < *b;
  if (how == "-le") return *a <= *b;
  if (how == "-gt") return *a > *b;
  if (how == "-ge") return *a >= *b;
  return std::nullopt;
}

}  // namespace

std::optional<bool> ResultOfTest(const std::vector<ShellWord>& words) {
  std::vector<std::string> texts;
  for (const ShellWord& word : words) {
    const bool known = std::all_of(word.begin(), word.end(),
                                   [](const ShellChar& c) { return c.unknown < 0 && c.perhaps < 0; });
    if (!known) return std::nullopt;
    texts.push_back(TextOf(word));
  }
  if (texts.empty()) return std::nullopt;
  const std::string name = texts.front();
  if (texts.size() == 1 && (name == "true" || name == ":")) return true;
  if (texts.size() == 1 && name == "false") return false;
  const std::string_view end = name == "[" ? "]" : name == "[[" ? "]]" : "";
  if (end.empty() && name != "test") return std::nullopt;
  if (!end.empty() && texts.back() != end) return std::nullopt;
  texts.erase(texts.begin());
  if (!end.empty()) texts.pop_back();
  const bool negated = texts.size() > 1 && texts.front() == "!";
  if (negated) texts.erase(texts.begin());
  std::optional<bool> result;
  if (texts.empty()) result = false;
  if (texts.size() == 1) result = !texts[0].empty();
  if (texts.size() == 2 && texts[0] == "-z") result = texts[1].empty();
  if (texts.size() == 2 && texts[0] == "-n") result = !texts[1].empty();
  if (texts.size() == 3) result = Compared(texts[0], texts[1], texts[2], name == "[[");
  return result && negated ? !*result : result;
}

ShellBranch ShellConditions::Next() const {
  ShellBranch next = ShellBranch::kTaken;
  for (const Level& level : levels_) next = std::max({next, level.outer, level.now});
  if (joint_ == Joint::kNone) return next;
  if (!result_) return std::max(next, ShellBranch::kPerhaps);
  return *result_ == (joint_ == Joint::kAnd) ? next : ShellBranch::kSkipped;
}

void ShellConditions::EndCommand(std::optional<bool> success) {
  if (negates_ && success) success = !*success;
  if (pipes_) success = std::nullopt;
  joint_before_ = joint_;
  result_before_ = result_;
  const bool decided =
      joint_ != Joint::kNone && result_ && *result_ != (joint_ == Joint::kAnd);  // it is skipped
  if (joint_ == Joint::kNone || (result_ && !decided)) {
    result_ = success;
  } else if (!decided) {
    // Of two commands that are joined by &&, one that fails is enough to know.
    const bool enough = success && *success == (joint_ == Joint::kOr);
    result_ = enough ? success : std::nullopt;
  }
  joint_ = Joint::kNone;
  negates_ = pipes_ = false;
}

void ShellConditions::Pipe() {
  joint_ = joint_before_;
  result_ = result_before_;
  pipes_ = true;
}

void ShellConditions::If() {
  levels_.push_back({.kind = Kind::kIf, .outer = Next(), .now = ShellBranch::kTaken});
  joint_ = Joint::kNone;
  result_ = std::nullopt;
}

void ShellConditions::Then() {
  Level* level = InIf();
  if (level == nullptr) return;
  level->now = AfterOthers(*level);
  if (result_ && !*result_) {
    level->now = ShellBranch::kSkipped;
  } else if (result_) {
    level->taken = true;
  } else {
    level->now = std::max(level->now, ShellBranch::kPerhaps);
    level->perhaps = true;
  }
}

void ShellConditions::Elif() {
  Level* level = InIf();
  if (level == nullptr) return;
  level->now = AfterOthers(*level);
  joint_ = Joint::kNone;
  result_ = std::nullopt;
}

void ShellConditions::Else() {
  if (Level* level = InIf()) level->now = AfterOthers(*level);
}

void ShellConditions::BeginGroup() {
  levels_.push_back({.kind = Kind::kGroup, .outer = Next(), .now = ShellBranch::kTaken});
  joint_ = Joint::kNone;
}

void ShellConditions::End(Kind kind) {
  if (levels_.empty() || levels_.back().kind != kind) return;
  levels_.pop_back();
  joint_ = Joint::kNone;
  result_ = std::nullopt;
}

ShellBranch ShellConditions::AfterOthers(const Level& level) {
  if (level.taken) return ShellBranch::kSkipped;
  return level.perhaps ? ShellBranch::kPerhaps : ShellBranch::kTaken;
}

}  // namespace autocfg
