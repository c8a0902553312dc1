// Paths of build outputs and source files for tests. Only one file contains the paths, not every test's
// command line, so that two checkouts compile identically and can share a compiler cache. Thread-safe.
#pragma once

#include <string>

namespace autocfg {

// Returns the absolute path of `relative` ("tests/golden") in the source tree.
std::string SourcePath(const std::string& relative);

// Returns the absolute path of `relative` ("bin/autocfg", "tests/fake_trainer") in the test's build
// directory.
std::string BuildPath(const std::string& relative);

}  // namespace autocfg
