// Helpers to edit a stored study.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "server/names/names.h"
#include "server/store/store.h"

namespace autocfg::server {

inline absl::Status SetStudyState(Store& store, std::int64_t study, v1::StudyState state) {
  return store
      .ModifyStudy(study,
                   [state](v1::Study& edited) {
                     edited.set_state(state);
                     return absl::OkStatus();
                   })
      .status();
}

// Replaces the stored study of the same name by `study`.
inline absl::Status ReplaceStudy(Store& store, const v1::Study& study) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(study.name()));
  return store
      .ModifyStudy(id,
                   [&study](v1::Study& edited) {
                     edited = study;
                     return absl::OkStatus();
                   })
      .status();
}

}  // namespace autocfg::server
