#include "worker/jobs/job_runner.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>

#include "base/os/trace_parent.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "proto/merge_results.h"
#include "worker/jobs/engine_job.h"
#include "worker/jobs/slots.h"
#include "worker/machine/inventory.h"

namespace autocfg::worker {
namespace {

// Describes what is invalid in a lease's job. Empty if it is valid.
std::string WrongIn(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory) {
  const v1::Job& job = lease.job();
  if (job.ranks() <= 0) return fmt::format("{}: a job of {} ranks", job.name(), job.ranks());
  if (job.work_case() == v1::Job::WORK_NOT_SET)
    return fmt::format("{}: a job of a kind that this worker does not know", job.name());
  const v1::Share share = ShareOf(lease);
  if (share.ranks() <= 0 || share.first_rank() < 0 || share.ranks() > job.ranks() - share.first_rank()) {
    return fmt::format("{}: {} ranks from rank {} are not within its {}", job.name(), share.ranks(),
                       share.first_rank(), job.ranks());
  }
  if (SlotsToTake(lease, inventory) > inventory.slots()) {
    return fmt::format("{}: {} ranks, but this worker has {} slots", job.name(), share.ranks(),
                       inventory.slots());
  }
  return "";
}

// Maps slots to their places in `all`. Empty if `all` is empty.
template <typename Place>
std::vector<Place> PlacesOf(const std::vector<int>& slots, const std::vector<Place>& all) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < slots.size() && !all.empty(); ++i)
    places.push_back(all[static_cast<std::size_t>(slots[i]) % all.size()]);
  return places;
}

// Removes duplicates; keeps the order of first appearance.
template <typename Place>
std::vector<Place> Distinct(const std::vector<Place>& places) {
  std::vector<Place> distinct;
  std::set<Place> seen;
  for (const Place& place : places) {
    if (seen.insert(place).second) distinct.push_back(place);
  }
  return distinct;
}

// Says where and with what the share was measured. `places`: the cores of its slots; `gpus`: their GPUs.
void SetOrigin(const v1::Inventory& inventory, const v1::Job& job, const v1::Share& share,
               const std::vector<int>& places, const std::vector<std::string>& gpus,
               v1::Measurement& measurement) {
  measurement.set_build_id(inventory.build_id());
  // Emulated results do not depend on this machine's hardware.
  const std::optional<EngineDevice> device = EngineDeviceOf(job);
  measurement.set_device_fingerprint(device && IsEmulated(*device) ? std::string(Name(*device))
                                                                   : inventory.device_fingerprint());
  // If the slots' places are unknown, they are the machine's cores.
  const double core_count = std::max(1.0, places.empty() ? static_cast<double>(inventory.physical_cores())
                                                         : static_cast<double>(Distinct(places).size()));
  measurement.set_ranks_per_core(std::max(1.0, share.ranks() / core_count));
  if (NeededKind(job) == DeviceKind::kCuda)
    measurement.set_ranks_per_device(static_cast<double>(RanksPerGpu(share.ranks(), Distinct(gpus).size())));
}

// The first failing ranks share the space equally.
std::string LogOf(const JobResult& result, int first_rank) {
  constexpr std::size_t kMostRanks = 8;
  constexpr std::size_t kHeadingBytes = 32;
  std::vector<std::size_t> failing;
  for (std::size_t place = 0; place < result.ranks.size() && failing.size() < kMostRanks; ++place) {
    if (result.ranks[place].failed && !result.ranks[place].log_tail.empty()) failing.push_back(place);
  }
  std::string log;
  for (const std::size_t place : failing) {
    log += fmt::format(
        "rank {}:\n{}", first_rank + static_cast<int>(place),
        base::CleanUtf8(result.ranks[place].log_tail, kMaxLogBytes / failing.size() - kHeadingBytes));
    if (log.back() != '\n') log += '\n';
  }
  return log;
}

// Returns what a job's ranks time: without the ops of groups that are larger, if it may run fewer ranks than
// were asked for.
v1::CalibrateSpec CalibrationOf(const v1::Job& job) {
  v1::CalibrateSpec spec = job.calibrate();
  if (!job.fewer_ranks()) return spec;
  auto& ops = *spec.mutable_ops();
  ops.erase(std::remove_if(ops.begin(), ops.end(),
                           [&](const v1::OpDesc& op) { return op.group_size() > job.ranks(); }),
            ops.end());
  return spec;
}

}  // namespace

JobRequest MakeJobRequest(const v1::Job& job, const v1::Share& share, const std::vector<int>& cores,
                          const std::vector<std::string>& gpus) {
  JobRequest request;
  for (int place = 0; place < share.ranks(); ++place) {
    v1::RunSpec spec;
    spec.set_rank(share.first_rank() + place);
    spec.set_world_size(job.ranks());
    spec.set_device(job.device());
    if (job.has_train()) *spec.mutable_train() = job.train();
    if (job.has_calibrate()) *spec.mutable_calibrate() = CalibrationOf(job);
    request.ranks.push_back(std::move(spec));
  }
  request.time_limit = std::chrono::duration<double>(job.time_limit_s());
  request.stall_limit = std::chrono::duration<double>(job.stall_limit_s());
  if (const std::string span = base::NewSpanText(job.trace_parent()); !span.empty())
    request.environment.push_back("TRACEPARENT=" + span);
  if (NeededKind(job) == DeviceKind::kCuda) {
    request.gpus = PinToGpus(share.ranks(), gpus);
  } else {
    request.cores = PinRanks(share.ranks(), cores);
  }
  return request;
}

JobRequest MakeJobRequest(const v1::Job& job, const std::vector<int>& cores,
                          const std::vector<std::string>& gpus) {
  v1::Share all;
  all.set_ranks(job.ranks());
  return MakeJobRequest(job, all, cores, gpus);
}

absl::StatusOr<v1::TrainResult> TrainResultOf(const JobResult& result) {
  std::vector<v1::TrainResult> ranks;
  for (const RankEnd& rank : result.ranks) {
    if (!rank.last.has_train_result())
      return absl::InternalError(fmt::format("rank {} ended without a result", ranks.size()));
    ranks.push_back(rank.last.train_result());
  }
  if (ranks.empty()) return absl::InternalError("the job has no ranks");
  return MergeRanks(ranks);
}

JobReport MeasuredReport(const JobResult& result) {
  JobReport report;
  auto run = TrainResultOf(result);
  if (!run.ok()) return report;
  report.measurement = MeasurementOf(*run);
  if (!report.measurement) return report;
  report.outcome = v1::OUTCOME_MEASURED;
  report.measurement->set_device_s(static_cast<double>(result.ranks.size()) * result.wall_s);
  if (run->has_timeline()) report.timeline = std::move(*run->mutable_timeline());
  return report;
}

v1::CalibrateResult CalibrationOf(const JobResult& result) {
  std::vector<ShareCalibration> ranks;
  for (const auto& rank : result.ranks) ranks.push_back({rank.last.calibrate_result(), 1});
  return ranks.empty() ? v1::CalibrateResult() : MergeCalibrations(ranks);
}

JobReport RunJob(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory,
                 const JobFileRules& files, const std::vector<int>& cores, const std::vector<int>& slots,
                 ProcessLauncher& launcher, const LaunchHooks& hooks, std::chrono::duration<double> patience,
                 const EngineOffer* engines) {
  if (std::string wrong = WrongIn(lease, inventory); !wrong.empty()) return FailedReport(std::move(wrong));
  // Another worker may allow them.
  if (const absl::Status status = CheckJobFiles(lease.job(), files); !status.ok())
    return RefusedReport(fmt::format("{}: {}", lease.job().name(), std::string(status.message())));
  const std::string& engine_name = lease.job().engine();
  const EngineFile* engine = engines != nullptr ? engines->Find(engine_name) : nullptr;
  if (!engine_name.empty() && engine == nullptr)
    return RefusedReport(fmt::format("{}: this worker does not offer engine '{}'", lease.job().name(),
                                     base::Printable(engine_name)));
  v1::Job job = lease.job();
  v1::Share share = ShareOf(lease);
  const std::vector<int> used = lease.has_share() ? slots : SlotsToUse(job, inventory, slots);
  if (!lease.has_share()) {
    job.set_ranks(static_cast<std::int32_t>(used.size()));
    share.set_ranks(job.ranks());
  }
  const std::vector<std::string> gpus = PlacesOf(used, UsableGpus(inventory));
  const std::optional<DeviceKind> needed = NeededKind(job);
  if (needed == DeviceKind::kCuda) {
    if (gpus.empty())
      return RefusedReport(fmt::format("{}: it needs GPUs, but this worker offers none", job.name()));
    if (const std::string shortage = WaitForFreeGpus(Distinct(gpus), patience, hooks.cancel);
        !shortage.empty())
      return RefusedReport(fmt::format("{}: {}", job.name(), shortage));
  } else if (needed == DeviceKind::kCpu && WorkerKind(inventory) == DeviceKind::kCuda) {
    return RefusedReport(fmt::format("{}: it needs CPUs, but this worker offers GPUs", job.name()));
  }
  const std::vector<int> places = PlacesOf(used, cores);
  const JobLimits limits = LimitsOf(launcher.allowance(), share.ranks());
  if (engine != nullptr) {
    const EngineSetting setting{
        .engine = *engine,
        .address = engines->address,
        .host = inventory.hostname(),
        .gpus = needed == DeviceKind::kCuda ? Distinct(gpus) : std::vector<std::string>(),
        .supervisor_path = FindSupervisor(),
        .limits = limits};
    JobReport report = RunEngineJob(job, share, setting, hooks);
    if (report.measurement) SetOrigin(inventory, job, share, places, gpus, *report.measurement);
    return report;
  }
  JobRequest request = MakeJobRequest(job, share, places, gpus);
  request.limits = limits;
  const JobResult result = launcher.Run(request, hooks);
  JobReport report;
  report.outcome = result.outcome;
  report.message = base::CleanUtf8(result.message, kMaxMessageBytes);
  if (report.outcome == v1::OUTCOME_FAILED) report.failure = result.failure;
  if (result.outcome != v1::OUTCOME_MEASURED) {
    report.log = LogOf(result, share.first_rank());
    return report;
  }
  if (job.has_calibrate()) {
    report.calibration = CalibrationOf(result);
    if (report.calibration->ops().empty() && !job.calibrate().ops().empty()) {
      return FailedReport(fmt::format("{}: the ranks ended without a calibration", job.name()));
    }
    return report;
  }
  JobReport measured = MeasuredReport(result);
  if (!measured.measurement) {
    return FailedReport(fmt::format("{}: the ranks' results do not match, or no step was timed", job.name()));
  }
  SetOrigin(inventory, job, share, places, gpus, *measured.measurement);
  measured.message = std::move(report.message);
  return measured;
}

}  // namespace autocfg::worker
