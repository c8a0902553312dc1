// The typed errors of the training engine. They are thrown where they are found and caught once, in
// trainer/run/trainer_main, which turns each into the launcher's RankError. Plain values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace autocfg {

// What the user gave is wrong: a file, a plan, a size.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A feature that the engine does not have yet.
struct NotSupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The plan does not fit into the memory that the rank may use.
struct DoesNotFit : std::runtime_error {
  DoesNotFit(std::int64_t over, std::string largest_region, const std::string& what)
      : std::runtime_error(what), over_bytes(over), region(std::move(largest_region)) {}
  std::int64_t over_bytes;
  std::string region;
};

}  // namespace autocfg
