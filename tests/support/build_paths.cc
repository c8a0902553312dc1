#include "tests/support/build_paths.h"

namespace autocfg {

std::string SourcePath(const std::string& relative) { return AUTOCFG_SOURCE_DIR "/" + relative; }
std::string BuildPath(const std::string& relative) { return AUTOCFG_BUILD_DIR "/" + relative; }

}  // namespace autocfg
