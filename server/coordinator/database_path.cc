#include "server/coordinator/database_path.h"

#include "base/os/host.h"

namespace autocfg::server {

absl::StatusOr<std::string> DatabasePath(const std::string& option) {
  if (!option.empty()) return option;
  std::string state = base::Environment("XDG_STATE_HOME");
  if (state.empty() || state[0] != '/') {  // the XDG specification requires that relative paths are ignored
    const std::string home = base::Environment("HOME");
    if (home.empty()) {
      return absl::FailedPreconditionError(
          "no place for the database: neither XDG_STATE_HOME nor HOME is set; give --db FILE");
    }
    state = home + "/.local/state";
  }
  return state + "/autocfg/autocfg.db";
}

}  // namespace autocfg::server
