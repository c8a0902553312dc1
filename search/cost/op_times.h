// How long an op takes on a device: measured where it was measured, else estimated from measured ops of its
// kind. Build it, then share it between threads for reading.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/line_fit.h"
#include "search/cost/op_time_model.h"
#include "search/ops/op_desc.h"

namespace autocfg {

struct OpTime {
  OpDesc op;
  double seconds = 0;
};

class OpTimes final : public OpTimeModel {
 public:
  OpTimes() = default;
  // Measured times of one device, all from a calibration as loaded as the runs that are to be predicted. An
  // op that stands there more than once takes its mean. Times that are not positive are kept as they are but
  // inform no estimate.
  explicit OpTimes(const std::vector<OpTime>& measured);

  bool empty() const { return measured_.empty(); }
  std::vector<OpTime> measured() const;  // sorted by op

  // Seconds of one op. Measured: as measured.
  //
  // Compute ops not measured: the larger of overhead + work / rate and bytes / (the highest bandwidth seen),
  // times a correction. Work is FLOPs where the kind has any, else bytes; overhead and rate are fitted to the
  // measured ops of the kind and type. The correction is what the nearest measured ops (by the logarithms of
  // their dims; of a product's epilogue, where that was measured) deviate from that, weighted by nearness,
  // and fades to 1 far away from all of them. A type never measured takes another type's fit by bytes; a kind
  // never measured that of all kinds.
  //
  // Communication not measured: the link of its kind, group and size, fitted to the measured ops; a group
  // never measured at that size takes the other groups' link of that size, a size never measured the next
  // larger one's, or the next smaller one's. A sum stands in for a maximum, a send for a receive, and the
  // other way round; half a sum for a gather, since a ring's sum is a scatter of sums and then a gather. A
  // group of one takes no time.
  //
  // Infinite when nothing was measured that could tell.
  double Seconds(const OpDesc& op) const;
  double Seconds(const OpDesc& op, const ParallelPlan&) const override { return Seconds(op); }

 private:
  struct Point {
    OpDesc op;
    double work = 0;
    double log_residual = 0;  // of the measured time over the line
  };
  struct ComputeFit {
    LinkModel line;                                 // seconds over work
    std::map<Epilogue, std::vector<Point>> points;  // each ascending by work; all but products under kNone
  };
  double ComputeSeconds(const OpDesc& op) const;
  double CommunicationSeconds(const OpDesc& op) const;
  const LinkModel* FindLink(OpKind kind, CommGroup group, std::int32_t size) const;

  absl::flat_hash_map<OpDesc, double, OpDescHash> measured_;
  std::map<std::pair<OpKind, DType>, ComputeFit> compute_;
  LinkModel any_bytes_, any_flops_;  // over all kinds without and with FLOPs
  bool has_bytes_ = false, has_flops_ = false;
  double best_bytes_per_s_ = 0;
  std::map<std::tuple<OpKind, CommGroup, std::int32_t>, LinkModel> links_;
  std::map<std::pair<OpKind, std::int32_t>, LinkModel> group_size_links_;  // over all groups of a size
};

}  // namespace autocfg
