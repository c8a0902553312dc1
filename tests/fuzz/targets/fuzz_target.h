// What the fuzzers call: one function per parser of outside input, each with the properties that must hold
// for any input. Not thread-safe.
#pragma once

#include <cstddef>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>

#include "absl/status/status.h"

namespace autocfg::test {

struct FuzzTarget {
  std::string_view name;  // also of its seeds: tests/fuzz/corpus/NAME
  // Throws FuzzFailure if a property does not hold.
  void (*run)(std::string_view input);
  // Files of the product or of other tests that are seeds too, separated by commas.
  std::string_view shared_seeds = {};
  int mutations = 300;  // that the test tries of its seeds; fewer if one takes long
};

// For gtest.
inline std::ostream& operator<<(std::ostream& out, const FuzzTarget& target) { return out << target.name; }

// A property that does not hold. No parser throws it, so that a fuzzer takes it for a crash.
struct FuzzFailure : std::logic_error {
  using std::logic_error::logic_error;
};

std::span<const FuzzTarget> SearchTargets();   // base and search
std::span<const FuzzTarget> ServiceTargets();  // proto, worker, server and cli
std::span<const FuzzTarget> TrainerTargets();
std::span<const FuzzTarget> RpcTargets();  // all methods of a coordinator

// Limit of an error's message.
inline constexpr std::size_t kMostErrorBytes = 2000;

// Throws FuzzFailure unless `message` is one line that can be shown, is not empty and keeps the limit.
void CheckMessage(std::string_view message);
// Checks the message of a status that is not OK. Returns whether it is OK.
bool CheckStatus(const absl::Status& status);
// Throws FuzzFailure with `what` unless `holds`.
void CheckThat(bool holds, std::string_view what);

}  // namespace autocfg::test
