#include "proto/convert/workload_convert.h"

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {

v1::Workload ToProto(const Workload& workload) {
  v1::Workload message;
  message.set_global_batch(workload.global_batch);
  message.set_seq_len(workload.seq_len);
  message.set_precision(std::string(Name(workload.precision)));
  return message;
}

absl::StatusOr<Workload> FromProto(const v1::Workload& message) {
  const auto precision = ParsePrecision(message.precision());
  if (!precision) return base::InvalidArgument("workload", UnknownPrecision(message.precision()));
  if (message.global_batch() < 1) {
    return base::InvalidArgument(
        "workload", fmt::format("global_batch is {}; it must be at least 1", message.global_batch()));
  }
  if (message.seq_len() < 1) {
    return base::InvalidArgument("workload",
                                 fmt::format("seq_len is {}; it must be at least 1", message.seq_len()));
  }
  return Workload{message.global_batch(), message.seq_len(), *precision};
}

}  // namespace autocfg
