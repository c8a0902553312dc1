// What each role may call. Pure functions, thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "autocfg/v1/access_service.pb.h"

namespace autocfg::server {

// Groups of methods.
enum class Right {
  kPublic,      // needs no token: health checks
  kRead,        // changes nothing
  kSubmit,      // creates or changes studies
  kWork,        // joins as a worker
  kAdminister,  // everything else, and each method that the table does not know
};

// `method` has the form "/package.Service/Method".
Right RightOf(std::string_view method);

// Returns whether the audit log has the method's calls: those that change something, without the traffic of
// running jobs.
bool IsAudited(std::string_view method);

// PermissionDenied if the role does not include the method's right.
absl::Status CheckRight(v1::Role role, std::string_view method);

// Returns the name of the role as options give it: "read", "submit", "worker" or "admin".
std::string_view RoleName(v1::Role role);

}  // namespace autocfg::server
