// What the command that starts the ranks says of their number: torchrun and its kin, srun, mpirun,
// accelerate, deepspeed, and the `#SBATCH` lines of a batch script. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "search/frameworks/settings/settings.h"
#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

// A word of a flag file or a script, with the part of the text that it is.
struct FlagWord {
  std::string text;
  std::string unknown;
  std::string perhaps = {};  // the condition that adds it; empty: it is there
  std::size_t at = 0;
  std::size_t begin = kNowhere, end = kNowhere;
  std::string key = {};  // of the file that it may name (FileKeyOf)
};

// Returns the words of the line that begins at `at`, up to its end; quotes around a word are left out.
std::vector<FlagWord> WordsOfLine(std::string_view text, std::size_t at);
// Returns the rest of the line at `at`.
std::string_view LineAt(std::string_view text, std::size_t at);

// A value of an `#SBATCH` line, by the option's name: --nodes, --ntasks, --ntasks-per-node, --gpus-per-node.
struct SlurmValue {
  std::string text;
  std::size_t at = 0;
  std::size_t value_at = 0;
};
using SlurmValues = std::map<std::string, SlurmValue>;

// Reads the sizes of the `#SBATCH` lines; the last of a name counts.
SlurmValues SlurmDirectives(std::string_view text);
// Returns the variables that Slurm sets in a script by its `#SBATCH` lines.
std::map<std::string, ShellWord> SlurmEnvironment(const SlurmValues& directives);

// Takes nodes and ranks of a node (kLaunchNodes, kLaunchRanks) from the words before the program: the options
// of the last launcher. `directives`: what srun takes for what it is not told.
void AddLaunch(const std::vector<FlagWord>& words, const SlurmValues& directives, SettingsText& settings);
// Takes them from the `#SBATCH` lines, unless the settings have one of them.
void AddSlurmDirectives(const SlurmValues& directives, SettingsText& settings);

}  // namespace autocfg
