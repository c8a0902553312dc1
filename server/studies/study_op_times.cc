#include "server/studies/study_op_times.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/op_times/measured_on_links.h"
#include "search/cost/op_times/op_times.h"

namespace autocfg::server {

absl::StatusOr<std::optional<StudyOpTimes>> OpTimesOf(const SearchProblem& problem,
                                                      const std::optional<Store::Calibration>& calibration) {
  StudyOpTimes known;
  if (!NeedsCalibration(problem)) {
    AUTOCFG_ASSIGN_OR_RETURN(known.times,
                             ClusterOpTimes::Create(problem.cluster, problem.workload.precision));
    known.device_overhead_bytes = DeviceOverheadBytes(problem.cluster);
    return known;
  }
  if (!calibration) return std::nullopt;
  std::vector<OpTime> measured;
  for (const v1::OpTime& message : calibration->result.ops()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto time, FromProto(message));
    measured.push_back(std::move(time));
  }
  known.measured = calibration->result.ops_size();
  known.reused = calibration->reused_ops;
  known.device_overhead_bytes = calibration->result.device_overhead_bytes();
  // overhead was not measured: keep the estimate
  if (known.device_overhead_bytes == 0 && UsesGpus(problem.device))
    known.device_overhead_bytes = DeviceOverheadBytes(problem.cluster);
  OpTimes times(measured);
  if (problem.cluster.local) {
    known.times = std::make_shared<const OpTimes>(std::move(times));
    return known;
  }
  AUTOCFG_ASSIGN_OR_RETURN(known.times, MeasuredOnLinks::Create(std::move(times), problem.cluster));
  return known;
}

}  // namespace autocfg::server
