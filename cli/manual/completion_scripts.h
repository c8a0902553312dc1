// Scripts that complete the command line of autocfg in a shell. Pure functions.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace autocfg::cli {

std::string BashCompletion(const CLI::App& app);  // to be sourced
std::string ZshCompletion(const CLI::App& app);   // to be sourced, or a file _autocfg in $fpath
std::string FishCompletion(const CLI::App& app);  // to be sourced, or a file in fish's completions

}  // namespace autocfg::cli
