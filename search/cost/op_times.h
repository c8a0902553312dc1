// How long an op takes on a device: measured where it was measured, else estimated from measured ops of its kind. Build it, then share it
// between threads for reading.
#pragma once

#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/ops/op_desc.h"

namespace autocfg {

struct OpTime {
  OpDesc op;
  double seconds = 0;
};

// alpha + beta * bytes: latency in seconds, seconds per byte (Hockney 1994).
struct LinkModel {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

class OpTimes {
 public:
  OpTimes() = default;
  // Measured times of one device, all from a calibration as loaded as the runs that are to be predicted.
  explicit OpTimes(const std::vector<OpTime>& measured);

  bool empty() const { return measured_.empty(); }
  std::vector<OpTime> measured() const;  // sorted by op

  // Seconds of one op. Measured: as measured. Compute ops not measured: overhead + max(flops / rate, bytes / bandwidth), all from the ops of the
  // same kind and type nearest in size. Communication: the link of its group and size, fitted by least squares to the measured ops of that
  // group's size; a group size never measured takes the next larger one's, or the next smaller one's, link.
  double Seconds(const OpDesc& op) const;

 private:
  struct KindFit;
  absl::flat_hash_map<OpDesc, double, OpDescHash> measured_;
  std::map<std::pair<OpKind, int>, LinkModel> links_;       // by kind and group size
  std::map<OpKind, std::vector<OpTime>> by_kind_;           // compute kinds, ascending by work
};

}  // namespace autocfg
