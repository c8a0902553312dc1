// Options that select a coordinator: a named one, or the one beside a database. Not thread-safe.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace autocfg::cli {

struct ServiceOptions {
  std::string coordinator;  // --coordinator; empty: not given
  std::string database;     // --db; empty: not given
  bool insecure = false;
  bool remote() const { return !coordinator.empty(); }
};

void AddServiceOptions(CLI::App* verb, ServiceOptions& options);

// InvalidArgument if the options exclude each other.
absl::Status CheckServiceOptions(const ServiceOptions& options);

// Returns " --coordinator ADDR", " --db FILE" or "": the options that another command needs for the same
// place.
std::string AsWritten(const ServiceOptions& options);

}  // namespace autocfg::cli
