#include "worker/jobs/timed_ops.h"

#include <algorithm>
#include <utility>

#include "proto/merge_results.h"

namespace autocfg::worker {
namespace {

bool SameOps(const v1::CalibrateResult& one, const v1::CalibrateResult& other) {
  return std::equal(one.ops().begin(), one.ops().end(), other.ops().begin(), other.ops().end(),
                    [](const v1::OpTime& a, const v1::OpTime& b) {
                      return a.op().SerializeAsString() == b.op().SerializeAsString();
                    });
}

}  // namespace

v1::CalibrateResult TimedOps::Add(std::size_t rank, const v1::Progress& progress) {
  v1::CalibrateResult timed;
  if (disagree_ || rank >= ranks_.size()) return timed;
  ranks_[rank].waiting.insert(ranks_[rank].waiting.end(), progress.op_times().begin(),
                              progress.op_times().end());
  if (progress.device_overhead_bytes() > 0)
    ranks_[rank].device_overhead_bytes = progress.device_overhead_bytes();
  std::size_t complete = ranks_.front().waiting.size();
  for (const Rank& each : ranks_) complete = std::min(complete, each.waiting.size());
  if (complete == 0) return timed;
  std::vector<ShareCalibration> parts;
  for (Rank& each : ranks_) {
    ShareCalibration& part = parts.emplace_back(ShareCalibration{{}, 1});
    part.result.set_device_overhead_bytes(each.device_overhead_bytes);
    for (std::size_t i = 0; i < complete; ++i) {
      *part.result.add_ops() = std::move(each.waiting.front());
      each.waiting.pop_front();
    }
    disagree_ = disagree_ || !SameOps(part.result, parts.front().result);
  }
  return disagree_ ? timed : MergeCalibrations(parts);
}

}  // namespace autocfg::worker
