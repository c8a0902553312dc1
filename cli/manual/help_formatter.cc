#include "cli/manual/help_formatter.h"

#include <algorithm>

#include "cli/terminal/layout.h"
#include "fmt/format.h"

namespace autocfg::cli {

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return Entry(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  return Entry(verb->get_display_name(true), verb->get_description());
}

std::string HelpFormatter::make_description(const CLI::App* verb) const {
  return Hung(Formatter::make_description(verb), 0);
}

std::string HelpFormatter::make_footer(const CLI::App* verb) const {
  const std::string footer = verb->get_footer();
  return footer.empty() ? "" : "\n" + Wrapped(footer);
}

// A name that leaves no room has a line of its own.
std::string HelpFormatter::Entry(const std::string& name, const std::string& about) const {
  const std::size_t width = get_column_width();
  const std::string entry = "  " + name;
  if (about.empty()) return entry + "\n";
  if (ColumnsOf(entry) >= width) return entry + "\n" + Hung(std::string(width, ' ') + about, width);
  return Hung(fmt::format("{:<{}}{}", entry, width, about), width);
}

}  // namespace autocfg::cli
