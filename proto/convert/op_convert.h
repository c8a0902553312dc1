// Conversion between OpDesc, OpTime and their messages. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "search/cost/op_times/op_times.h"
#include "search/ops/op_desc.h"

namespace autocfg {

v1::OpDesc ToProto(const OpDesc& op);
absl::StatusOr<OpDesc> FromProto(const v1::OpDesc& message);  // InvalidArgument names the bad field.
v1::OpTime ToProto(const OpTime& time);
absl::StatusOr<OpTime> FromProto(const v1::OpTime& message);

}  // namespace autocfg
