// Where the tests find what is built and what lies in the source tree. One file knows, and not every test's
// command line: so the compilations of two checkouts are the same, and a compiler cache serves both.
// Thread-safe.
#pragma once

#include <string>

namespace autocfg {

// The absolute path of `relative` ("tests/golden") in the source tree.
std::string SourcePath(const std::string& relative);

// The absolute path of `relative` ("bin/autocfg", "tests/fake_trainer") in the build that the test is of.
std::string BuildPath(const std::string& relative);

}  // namespace autocfg
