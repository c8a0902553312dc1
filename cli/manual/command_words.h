// The words of the command line, for completion scripts and manual pages: verbs, options, presets and plan
// options. All follow from the verbs themselves and from the tables that --help prints. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace autocfg::cli {

// A word with the line that --help says about it.
struct Word {
  std::string text;  // "search", "--model"
  std::string about;
  bool takes_value = false;  // an option with a value
};

// Returns the verbs below `app`, in its order.
std::vector<Word> VerbWords(const CLI::App& app);

// Returns the long options of a verb that --help shows; of a verb with verbs below it also their names, and
// the options of all of them. Each once.
std::vector<Word> WordsOf(const CLI::App& verb);

std::vector<std::string> ModelWords();    // presets
std::vector<std::string> ClusterWords();  // "local" and presets

// "tp=", "schedule=gpipe", "schedule=1f1b", ...: options of a plan, with each value if there are few.
std::vector<std::string> PlanWords();

}  // namespace autocfg::cli
