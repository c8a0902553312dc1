#include "cli/input/service_options.h"

#include "cli/input/paths.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"

namespace autocfg::cli {

void AddServiceOptions(CLI::App* verb, ServiceOptions& options) {
  verb->add_option("--coordinator", options.coordinator, "an autocfg-server: HOST:PORT, or unix:PATH");
  verb->add_option("--db", options.database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_flag("--insecure", options.insecure, "use plain text with a --coordinator on another machine");
}

absl::Status CheckServiceOptions(const ServiceOptions& options) {
  if (options.remote() && !options.database.empty()) {
    return absl::InvalidArgumentError(
        "--coordinator and --db exclude each other: a coordinator has a database of its own");
  }
  if (options.remote()) return Where("--coordinator", CheckTarget(options.coordinator, options.insecure));
  if (options.insecure) {
    return absl::InvalidArgumentError(
        "--insecure is for a --coordinator on another machine; give that, or leave it out");
  }
  return absl::OkStatus();
}

std::string AsWritten(const ServiceOptions& options) {
  if (options.remote())
    return fmt::format(" --coordinator {}{}", ShellWord(options.coordinator),
                       options.insecure ? " --insecure" : "");
  return options.database.empty() ? "" : fmt::format(" --db {}", ShellWord(options.database));
}

}  // namespace autocfg::cli
