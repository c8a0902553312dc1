#include "server/studies/study_rejections.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/spec_convert.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/planner/rejected_plans.h"
#include "search/planner/search_loop.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_op_times.h"
#include "server/studies/study_states.h"

namespace autocfg::server {
namespace {

// A message is sent once it has so many plans, or so many bytes: splits may be long.
constexpr int kPlansAtOnce = 500;
constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;

}  // namespace

absl::Status ListRejected(Store& store, std::int64_t study, std::int64_t most, const PlanningWatch& watch,
                          const std::function<bool(const v1::RejectedPlans&)>& send) {
  if (most < 0 || most > kMostRejected) {
    return absl::InvalidArgumentError(
        fmt::format("most is {}; it must be a number from 0 to {}", most, kMostRejected));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto stored, store.GetStudy(study));
  if (stored.state() == v1::STUDY_STATE_CREATED) {
    return absl::FailedPreconditionError(
        fmt::format("{} has not been started; start it before asking what it rejected", stored.name()));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckHasPlans(stored));
  AUTOCFG_ASSIGN_OR_RETURN(const auto problem, ParseSearchSpec(stored.spec()));
  AUTOCFG_ASSIGN_OR_RETURN(const auto calibration, store.GetCalibration(study));
  AUTOCFG_ASSIGN_OR_RETURN(auto known, OpTimesOf(problem, calibration));
  if (!known.has_value()) {
    known = StudyOpTimes{.times = std::make_shared<const NominalTimes>(),
                         .device_overhead_bytes = DeviceOverheadBytes(problem.cluster)};
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto space, PlannedSpace(problem, problem.space, problem.options));
  CostModel costs(problem, known->times, known->device_overhead_bytes, problem.options.memory_margin);

  v1::RejectedPlans message;
  std::size_t bytes = 0;
  const auto visit = [&](const RejectedPlan& rejected) {
    v1::RejectedPlan& added = *message.add_plans();
    *added.mutable_plan() = ToProto(rejected.plan);
    added.set_reason(rejected.reason);
    added.set_detail(rejected.detail);
    bytes += added.ByteSizeLong();
    if (message.plans_size() < kPlansAtOnce && bytes < kBytesAtOnce) return true;
    const bool wanted = send(message);
    message.Clear();
    bytes = 0;
    return wanted;
  };
  AUTOCFG_ASSIGN_OR_RETURN(
      const auto left_out,
      ForEachRejected(space, costs, problem.options.budget, most == 0 ? kMostRejected : most, visit, watch));
  for (const auto& [reason, count] : left_out) (*message.mutable_left_out())[reason] = count;
  return send(message) ? absl::OkStatus() : absl::CancelledError("the caller is gone");
}

}  // namespace autocfg::server
