#include "trainer/run/build_id.h"

#include "build_id_generated.h"

namespace autocfg {

std::string TrainerBuildId() { return AUTOCFG_VERSION "+" AUTOCFG_REVISION; }

}  // namespace autocfg
