// Options that CONTRACT.md has and this version does not: known by name, so that they are refused by name.
// Not thread-safe.
#pragma once

#include <deque>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace autocfg {

class RefusedOptions {
 public:
  // `instead`: what to do without it.
  void AddFlag(CLI::App* app, const std::string& name, const std::string& instead);
  void AddValue(CLI::App* app, const std::string& name, const std::string& instead);

  // Unimplemented, naming the first one given.
  absl::Status Check() const;

 private:
  struct Refused {
    std::string name;
    std::string instead;
    std::string value;
    CLI::Option* option = nullptr;
  };
  std::deque<Refused> options_;  // their addresses are CLI11's
};

}  // namespace autocfg
