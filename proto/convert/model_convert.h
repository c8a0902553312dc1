// Conversion between ModelSpec and its message. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/model_spec.h"

namespace autocfg {

v1::ModelSpec ToProto(const ModelSpec& model);
// Fills unset fields with the defaults that the message states. Does not call FillDefaults. InvalidArgument
// names the bad field.
absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message);

}  // namespace autocfg
