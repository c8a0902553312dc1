// Reads a bash script without running it: its commands, as words, with the variables and arrays that it sets
// put in. Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/frameworks/shell/shell_files.h"
#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

struct ShellCommand {
  std::size_t at = 0;
  std::vector<ShellWord> words;  // without redirections, and without assignments before the program
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<std::string> unknowns;  // "$(nproc) is not run", "$RANKS is not set in the file"
  std::vector<ShellWord> options;     // of all variables that hold some (ShellVariables::OptionWords)
  ShellFiles files;                   // that the script writes, and those beside it
};

// What a script expands to, at most, in characters.
inline constexpr std::size_t kMostShellText = std::size_t{4} << 20;

// How a script is started.
struct ShellStart {
  std::map<std::string, ShellWord> environment = {};  // variables that are set before
  std::vector<std::string> arguments = {};            // empty: they are not known
  FileReader files = {};                              // beside the script; none: there are none
};

// InvalidArgument names the line: a quote, a bracket or a here-document that does not end, expansions nested
// deeper than 64, or more text than kMostShellText. What is set in a loop, or under a condition of files or
// commands, cannot be known.
absl::StatusOr<ShellScript> ReadShellScript(std::string_view file, std::string_view text,
                                            const ShellStart& start = {});

}  // namespace autocfg
