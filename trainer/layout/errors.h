// Typed errors of the training engine. Errors are thrown where they are found and caught once, in
// trainer/program/trainer_main, which maps each to the launcher's RankError. Plain values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace autocfg::trainer {

// The user's input is invalid: a file, a plan or a size.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A file cannot be written, though its path is right: no space is left, or the disk fails.
struct WriteFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The engine does not have the requested feature yet.
struct NotSupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The plan does not fit into the memory available to the rank.
struct DoesNotFit : std::runtime_error {
  DoesNotFit(std::int64_t over, std::string largest_region, const std::string& what)
      : std::runtime_error(what), over_bytes(over), region(std::move(largest_region)) {}
  std::int64_t over_bytes;
  std::string region;
};

}  // namespace autocfg::trainer
