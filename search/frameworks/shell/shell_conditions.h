// Which commands of a bash script that is not run would run: `if` by tests of values that are known, && and
// ||, groups. Plain values; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

enum class ShellBranch : std::uint8_t { kTaken, kPerhaps, kSkipped };

// Returns whether `[ ... ]`, `[[ ... ]]`, `test ...`, `true` or `false` succeeds; nothing for another
// command, and where it asks for files or for what cannot be known.
std::optional<bool> ResultOfTest(const std::vector<ShellWord>& words);

class ShellConditions {
 public:
  // Returns whether the next command runs.
  ShellBranch Next() const;
  // Ends a command: whether it succeeded, if that is known.
  void EndCommand(std::optional<bool> success);

  // What stands between two commands.
  void And() { joint_ = Joint::kAnd; }
  void Or() { joint_ = Joint::kOr; }
  void Pipe();                          // the next command runs as the last one does
  void Not() { negates_ = !negates_; }  // `!` before a command

  // The words of an `if`; of one that did not begin, they do nothing.
  void If();
  void Then();
  void Elif();
  void Else();
  void Fi() { End(Kind::kIf); }
  // Loops and `case`: what is in them may run.
  void BeginLoop() {
    levels_.push_back({.kind = Kind::kLoop, .outer = Next(), .now = ShellBranch::kPerhaps});
  }
  void EndLoop() { End(Kind::kLoop); }
  void BeginGroup();
  void EndGroup() { End(Kind::kGroup); }
  int depth() const { return static_cast<int>(levels_.size()); }

 private:
  enum class Kind : std::uint8_t { kIf, kLoop, kGroup };
  enum class Joint : std::uint8_t { kNone, kAnd, kOr };
  struct Level {
    Kind kind = Kind::kGroup;
    ShellBranch outer = ShellBranch::kTaken;  // of the whole
    ShellBranch now = ShellBranch::kTaken;    // of the branch that is read
    bool taken = false;                       // a branch before, or this one, is the last that can run
    bool perhaps = false;                     // a branch before may have run
  };
  Level* InIf() { return levels_.empty() || levels_.back().kind != Kind::kIf ? nullptr : &levels_.back(); }
  void End(Kind kind);
  static ShellBranch AfterOthers(const Level& level);

  std::vector<Level> levels_;
  Joint joint_ = Joint::kNone;         // with the command before
  std::optional<bool> result_ = true;  // of the commands that are joined so far
  Joint joint_before_ = Joint::kNone;  // as they were before the last command
  std::optional<bool> result_before_ = true;
  bool negates_ = false, pipes_ = false;
};

}  // namespace autocfg
