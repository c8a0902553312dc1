// ModelSpec <-> message. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/model_spec.h"

namespace autocfg {

v1::ModelSpec ToProto(const ModelSpec& model);
// Fills unset fields by the message's stated defaults. InvalidArgument names the field. Does not call
// FillDefaults.
absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message);

}  // namespace autocfg
