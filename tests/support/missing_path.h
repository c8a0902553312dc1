// Paths that do not exist, inside a directory of the test's own: nothing on the machine can make them exist.
#pragma once

#include <string>
#include <string_view>

#include "tests/support/temp_dir.h"

namespace autocfg {

// Returns `text` with the path of a directory that does not exist in place of each "/nonexistent".
// Missing("--db: /nonexistent/x.db") is "--db: /tmp/autocfg-test-Ab12Cd/missing/x.db".
inline std::string Missing(std::string_view text) {
  static const TempDir directory;
  constexpr std::string_view kName = "/nonexistent";
  std::string result;
  for (std::size_t at; (at = text.find(kName)) != text.npos; text.remove_prefix(at + kName.size()))
    result.append(text.substr(0, at)).append(directory.File("missing"));
  return result.append(text);
}

}  // namespace autocfg
