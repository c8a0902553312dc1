// The variables of a bash script that is not run, and what conditions do to them. Plain values; not
// thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

// A text, or the items of an array.
struct ShellVariable {
  bool array = false;
  std::vector<ShellWord> items;
};

// How a variable is assigned.
struct ShellAssignment {
  bool append = false;   // NAME+=VALUE
  bool item = false;     // NAME[INDEX]=VALUE
  bool perhaps = false;  // under a condition or in a loop
};

class ShellVariables {
 public:
  explicit ShellVariables(const std::map<std::string, ShellWord>& environment);

  // Sets $1, $@ and their kin. What is unknown without it is empty after it.
  void SetArguments(std::vector<ShellWord> arguments);
  bool HasArguments() const { return variables_.contains("#"); }
  // Drops the first arguments, if they are known; all if there are fewer.
  void Shift(std::size_t count);
  void ForgetArguments();

  // Returns null if the file does not set it.
  const ShellVariable* Find(const std::string& name) const;
  void Set(const std::string& name, ShellWord value) { variables_[name] = {false, {std::move(value)}}; }
  // `at`: where the assignment stands. What is set under a condition cannot be known. What was there stays
  // known if the value only adds to it; options that are added are marked (ShellChar::perhaps). Of options
  // that stand in place of others, all are kept, and marked.
  void Assign(const std::string& name, ShellVariable value, const ShellAssignment& how, std::size_t at);

  // Returns the words of all variables that hold options, in the order of the text, each once: those of a
  // script that another one sources.
  std::vector<ShellWord> OptionWords() const;

  // Returns a text that cannot be known, and why.
  ShellWord Unknown(std::size_t at, std::string why);
  // Why texts cannot be known, by ShellChar::unknown and perhaps.
  const std::vector<std::string>& unknowns() const { return unknowns_; }

 private:
  void AssignPerhaps(const std::string& name, const ShellVariable& value, bool append, std::size_t at,
                     ShellVariable& variable);
  void AddAlternative(ShellVariable value, std::string why, ShellVariable& variable);
  bool AddPerhaps(const std::string& name, const ShellVariable& value, bool append, ShellVariable& variable);

  std::map<std::string, ShellVariable> variables_;  // arguments too: "1", "@", "*", "#"
  std::vector<std::string> unknowns_;
};

}  // namespace autocfg
