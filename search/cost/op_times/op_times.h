// Op times of a device: measured values, and estimates from measured ops of the same kind. Thread-safe for
// reading once built.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/op_times/line_fit.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/ops/op_desc.h"

namespace autocfg {

class OpTimes final : public OpTimeModel {
 public:
  OpTimes() = default;
  // Takes measured times of one device, all from a calibration under the same load as the runs to predict. An
  // op that occurs several times gets the mean. Times that are not positive are kept but not used in
  // estimates.
  explicit OpTimes(const std::vector<OpTime>& measured);

  bool empty() const { return measured_.empty(); }
  std::vector<OpTime> measured() const;  // sorted by op, without the host's times

  // Returns the seconds of one op. A measured op has its measured time.
  //
  // Unmeasured compute ops: the larger of overhead + work / rate and bytes / (highest bandwidth seen), times
  // a correction. Work is FLOPs if the kind has any, else bytes. Overhead and rate are fitted to the measured
  // ops of the kind and type. The correction is the deviation of the nearest measured ops from that fit,
  // weighted by nearness, and fades to 1 far from all of them. Nearness is by the logarithms of the dims,
  // among ops with the same epilogue if measured. An unmeasured type uses another type's fit, scaled by
  // bytes. An unmeasured kind uses the fit of all kinds.
  //
  // Unmeasured communication: the link of its kind, group and size, fitted to the measured ops. A group not
  // measured at that size uses the other groups' link of that size. An unmeasured size uses the next larger
  // measured one, or else the next smaller one. Sum and maximum replace each other, as do send and receive. A
  // gather takes half a sum, since a ring's sum is a reduce-scatter followed by a gather. A group of one
  // takes no time.
  //
  // Infinite if no measurement allows an estimate.
  double Seconds(const OpDesc& op) const;
  double Seconds(const OpDesc& op, const ParallelPlan&) const override { return Seconds(op); }

  // Returns true if communication of this op's kind, or of one that stands in for it, was measured in groups
  // of its size.
  bool MeasuredInGroup(const OpDesc& op) const;

  // Returns the mean over the compute ops whose host time was measured; 0 if none was.
  double HostOpSeconds() const override { return host_op_s_; }

 private:
  struct Point {
    OpDesc op;
    double work = 0;
    double log_residual = 0;  // log of measured time over the line
  };
  struct ComputeFit {
    LinkModel line;                                 // seconds over work
    std::map<Epilogue, std::vector<Point>> points;  // each ascending by work; only matmuls have epilogues
  };
  double ComputeSeconds(const OpDesc& op) const;
  double CommunicationSeconds(const OpDesc& op) const;
  const LinkModel* FindLink(OpKind kind, CommGroup group, std::int32_t size) const;

  absl::flat_hash_map<OpDesc, double, OpDescHash> measured_;
  std::map<std::pair<OpKind, DType>, ComputeFit> compute_;
  LinkModel any_bytes_, any_flops_;  // over all kinds without and with FLOPs
  bool has_bytes_ = false, has_flops_ = false;
  double best_bytes_per_s_ = 0;
  double host_op_s_ = 0;
  std::map<std::tuple<OpKind, CommGroup, std::int32_t>, LinkModel> links_;
  std::map<std::pair<OpKind, std::int32_t>, LinkModel> group_size_links_;  // per size, over all groups
};

}  // namespace autocfg
