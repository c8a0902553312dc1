// Manual pages in the format of man(7), made from the verbs and their options. Pure.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace autocfg::cli {

// Returns autocfg(1), or the page of a verb such as autocfg-search(1). `verb` is `app` itself for the first.
std::string ManualPage(const CLI::App& app, const CLI::App& verb);

}  // namespace autocfg::cli
