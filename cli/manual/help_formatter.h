// The text of --help, in lines of at most kLineColumns columns: names on the left, what they are for on the
// right.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace autocfg::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  // One option, or positional argument.
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  // One verb in the list of verbs.
  std::string make_subcommand(const CLI::App* verb) const override;
  // What the verb does.
  std::string make_description(const CLI::App* verb) const override;
  // Details; lines of tables stay.
  std::string make_footer(const CLI::App* verb) const override;

 private:
  std::string Entry(const std::string& name, const std::string& about) const;
};

}  // namespace autocfg::cli
