#include "base/os/build_id.h"

#include "build_id_generated.h"

namespace autocfg::base {

std::string Version() { return AUTOCFG_VERSION; }

std::string BuildId() { return AUTOCFG_VERSION "+" AUTOCFG_REVISION; }

}  // namespace autocfg::base
