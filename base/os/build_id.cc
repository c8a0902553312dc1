// Version and BuildId of process.h: a file of its own, because it is compiled again at every commit.
#include "base/os/process.h"
#include "build_id_generated.h"

namespace autocfg::base {

std::string Version() { return AUTOCFG_VERSION; }

std::string BuildId() { return AUTOCFG_VERSION "+" AUTOCFG_REVISION; }

}  // namespace autocfg::base
