// Whether a study that was read from a file can be: every field within the bounds that the services set for
// clients and workers. Pure, thread-safe.
#pragma once

#include "absl/status/status.h"
#include "server/store/store.h"

namespace autocfg::server {

// Also replaces the study's fingerprint by that of its specification. InvalidArgument names the field.
absl::Status CheckStudyHead(Store::StudyCopy& copy);
absl::Status CheckImportedTrial(const v1::Trial& trial);

}  // namespace autocfg::server
