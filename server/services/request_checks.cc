#include "server/services/request_checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/device_convert.h"
#include "proto/convert/step_timeline.h"
#include "proto/rpc/duration.h"
#include "search/plan/cluster/engine_profile.h"
#include "server/names/names.h"

namespace autocfg::server {
namespace {

constexpr double kLongestWait = 60;
constexpr double kShortestStep = 1e-9;  // seconds; valid times lie between the two limits
constexpr double kLongestStep = 1e6;
constexpr double kShortestOp = 1e-12;        // seconds; thousands of times below any device's
constexpr double kMostDeviceSeconds = 1e12;  // per attempt: a million devices for eleven days
constexpr std::size_t kMaxText = 200;        // for IDs
constexpr std::size_t kMaxDescription = 1000;
constexpr std::size_t kMaxLog = 64 << 10;  // per call
constexpr std::int64_t kMostSlots = 1024;
constexpr int kMostGpus = 1024;
constexpr int kMostEngines = 32;
constexpr int kMostEngineAxes = 32;
constexpr int kMostHeld = 1024;
constexpr int kMostSteps = 100'000;
constexpr int kMostOps = 200'000;
constexpr std::int64_t kMostCores = 1 << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

// Both comparisons are false for NaN.
bool IsStepTime(double seconds) { return seconds > kShortestStep && seconds < kLongestStep; }
bool IsOpTime(double seconds) { return seconds >= kShortestOp && seconds < kLongestStep; }

absl::Status Missing(const char* field) {
  return absl::InvalidArgumentError(fmt::format("{} is missing", field));
}

absl::Status CheckLength(const char* field, const std::string& text, std::size_t most) {
  if (text.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} is longer than {} bytes; shorten it", field, most));
}

absl::Status CheckText(const char* field, const std::string& text, std::size_t most = kMaxText) {
  return text.empty() ? Missing(field) : CheckLength(field, text, most);
}

absl::Status CheckRange(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; it must be from {} to {}", field, value, least, most));
}

absl::Status CheckCount(const char* field, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has {} entries; the limit is {}", field, count, most));
}

absl::Status CheckNotNegative(const char* field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} is negative or not a number", field));
}

absl::Status CheckSeconds(const char* field, double value, double most) {
  if (value >= 0 && value <= most) return absl::OkStatus();  // false for NaN
  return absl::InvalidArgumentError(fmt::format("{} is {} s; it must be from 0 to {}", field, value, most));
}

template <typename... Rest>
absl::Status First(absl::Status first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first.ok() ? First(std::move(rest)...) : first;
  }
}

absl::Status Check(const v1::Gpu& gpu) {
  return First(CheckRange("inventory.gpus.index", gpu.index(), 0, kMostGpus),
               CheckLength("inventory.gpus.name", gpu.name(), kMaxText),
               CheckLength("inventory.gpus.uuid", gpu.uuid(), kMaxText),
               CheckRange("inventory.gpus.memory_bytes", gpu.memory_bytes(), 0, kMostBytes),
               CheckRange("inventory.gpus.nvlinks", gpu.nvlinks(), 0, kMostGpus),
               CheckLength("inventory.gpus.farthest", gpu.farthest(), kMaxText),
               CheckLength("inventory.gpus.left_out", gpu.left_out(), kMaxDescription));
}

absl::Status Check(const v1::Engine& engine) {
  if (absl::Status status = CheckEngineName(engine.name()); !status.ok())
    return absl::InvalidArgumentError(
        fmt::format("inventory.engines.name: {}", std::string(status.message())));
  if (engine.name() == kOwnEngine)
    return absl::InvalidArgumentError(
        fmt::format("inventory.engines.name is {}, the built-in engine; give another", kOwnEngine));
  for (const std::string& text : engine.space()) {
    AUTOCFG_RETURN_IF_ERROR(CheckText("inventory.engines.space", text, kMaxDescription));
  }
  return First(CheckLength("inventory.engines.version", engine.version(), kMaxText),
               CheckLength("inventory.engines.format", engine.format(), kMaxText),
               CheckCount("inventory.engines.space", engine.space_size(), kMostEngineAxes));
}

absl::Status Check(const v1::Inventory& inventory) {
  AUTOCFG_RETURN_IF_ERROR(
      First(CheckRange("inventory.slots", inventory.slots(), 1, kMostSlots),
            CheckLength("inventory.hostname", inventory.hostname(), 255),
            CheckLength("inventory.device_kind", inventory.device_kind(), kMaxText),
            CheckLength("inventory.device_fingerprint", inventory.device_fingerprint(), kMaxDescription * 4),
            CheckRange("inventory.physical_cores", inventory.physical_cores(), 0, kMostCores),
            CheckRange("inventory.memory_bytes", inventory.memory_bytes(), 0, kMostBytes),
            CheckLength("inventory.build_id", inventory.build_id(), kMaxText),
            CheckLength("inventory.driver", inventory.driver(), kMaxText),
            CheckCount("inventory.gpus", inventory.gpus_size(), kMostGpus),
            CheckCount("inventory.engines", inventory.engines_size(), kMostEngines)));
  AUTOCFG_RETURN_IF_ERROR(CheckInventorySize(inventory));
  if (!WorkerKind(inventory)) return absl::InvalidArgumentError("inventory.device_kind must be cpu or cuda");
  for (const v1::Gpu& gpu : inventory.gpus()) {
    AUTOCFG_RETURN_IF_ERROR(Check(gpu));
  }
  std::set<std::string> names;
  for (const v1::Engine& engine : inventory.engines()) {
    AUTOCFG_RETURN_IF_ERROR(Check(engine));
    if (!names.insert(engine.name()).second)
      return absl::InvalidArgumentError(
          fmt::format("inventory.engines has {} twice; give each its own name", engine.name()));
  }
  return absl::OkStatus();
}

absl::Status Check(const v1::Breakdown& breakdown) {
  const Breakdown parts = FromProto(breakdown);
  for (const BreakdownPart& part : kBreakdownParts) {
    const std::string field = fmt::format("measurement.breakdown_s.{}", part.name);
    AUTOCFG_RETURN_IF_ERROR(CheckSeconds(field.c_str(), parts.*part.seconds, kLongestStep));
  }
  return CheckSeconds("measurement.breakdown_s.hidden_comm", breakdown.hidden_comm(), kMostDeviceSeconds);
}

absl::Status Check(const v1::Measurement& m) {
  for (const double step : m.step_time_s()) {
    if (!IsStepTime(step)) {
      return absl::InvalidArgumentError(fmt::format(
          "measurement.step_time_s: invalid step time {} s; it must be more than {} and less than {}", step,
          kShortestStep, kLongestStep));
    }
  }
  return First(m.has_breakdown_s() ? Check(m.breakdown_s()) : absl::OkStatus(),
               CheckCount("measurement.step_time_s", m.step_time_s_size(), kMostSteps),
               CheckNotNegative("measurement.ci95_s", m.ci95_s()),
               CheckSeconds("measurement.device_s", m.device_s(), kMostDeviceSeconds),
               CheckNotNegative("measurement.ranks_per_core", m.ranks_per_core()),
               CheckNotNegative("measurement.ranks_per_device", m.ranks_per_device()),
               CheckRange("measurement.planned_memory_bytes", m.planned_memory_bytes(), 0, kMostBytes),
               CheckRange("measurement.peak_memory_bytes", m.peak_memory_bytes(), 0, kMostBytes),
               CheckRange("measurement.device_overhead_bytes", m.device_overhead_bytes(), 0, kMostBytes),
               CheckLength("measurement.build_id", m.build_id(), kMaxText),
               CheckLength("measurement.engine", m.engine(), kMaxText),
               CheckLength("measurement.engine_version", m.engine_version(), kMaxText),
               CheckLength("measurement.device_fingerprint", m.device_fingerprint(), kMaxDescription * 4));
}

absl::Status Check(const v1::CalibrateResult& calibration) {
  AUTOCFG_RETURN_IF_ERROR(First(
      CheckRange("calibration.device_overhead_bytes", calibration.device_overhead_bytes(), 0, kMostBytes),
      CheckCount("calibration.ops", calibration.ops_size(), kMostOps)));
  for (const v1::OpTime& time : calibration.ops()) {
    if (!IsOpTime(time.seconds())) {
      return absl::InvalidArgumentError(
          fmt::format("calibration.ops: invalid time {} s of {}; it must be at least {} and less than {}",
                      time.seconds(), time.op().kind().substr(0, kMaxText), kShortestOp, kLongestStep));
    }
    AUTOCFG_RETURN_IF_ERROR(CheckSeconds("calibration.ops.host_s", time.host_s(), kLongestStep));
  }
  return absl::OkStatus();
}

absl::Status Check(const v1::MemoryBytes& memory) {
  for (const std::int64_t bytes :
       {memory.parameters(), memory.gradients(), memory.optimizer(), memory.activations(), memory.workspace(),
        memory.communication(), memory.device_overhead(), memory.total(), memory.capacity()}) {
    AUTOCFG_RETURN_IF_ERROR(CheckRange("out_of_memory", bytes, 0, kMostBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Check(const v1::RegisterWorkerRequest& request) {
  AUTOCFG_RETURN_IF_ERROR(First(CheckWorkerName(request.worker()), CheckText("boot_id", request.boot_id())));
  return request.has_inventory() ? Check(request.inventory()) : Missing("inventory");
}

absl::Status Check(const v1::LeaseWorkRequest& request) {
  AUTOCFG_RETURN_IF_ERROR(First(CheckWorkerName(request.worker()), WaitOf(request.wait_s()).status(),
                                CheckCount("held_leases", request.held_leases_size(), kMostHeld)));
  for (const std::string& lease : request.held_leases()) {
    AUTOCFG_RETURN_IF_ERROR(CheckText("held_leases", lease));
  }
  if (request.has_leaves_in_s() && !(request.leaves_in_s() >= 0 && request.leaves_in_s() <= kYearSeconds)) {
    return absl::InvalidArgumentError(fmt::format("leaves_in_s is {}; give seconds from 0 to {}, or nothing",
                                                  request.leaves_in_s(), kYearSeconds));
  }
  return absl::OkStatus();
}

absl::Status Check(const v1::RenewLeaseRequest& request) {
  return First(CheckWorkerName(request.worker()), CheckText("lease_id", request.lease_id()),
               WaitOf(request.wait_s()).status());
}

absl::Status Check(const v1::RendezvousRequest& request) {
  return First(CheckText("lease_id", request.lease_id()), CheckText("name", request.name()));
}

absl::Status Check(const v1::ReportProgressRequest& request) {
  AUTOCFG_RETURN_IF_ERROR(CheckText("lease_id", request.lease_id()));
  const v1::Progress& progress = request.progress();
  if (progress.ops_passed() < 0 || progress.ops_passed() > progress.ops_all()) {
    return absl::InvalidArgumentError(
        fmt::format("progress.ops_passed is {}; it must be from 0 to ops_all, {}", progress.ops_passed(),
                    progress.ops_all()));
  }
  if (!(progress.left_s() >= 0 && std::isfinite(progress.left_s()))) {
    return absl::InvalidArgumentError(
        fmt::format("progress.left_s is {}; it must be a number from 0 on", progress.left_s()));
  }
  return request.has_calibration() ? Check(request.calibration()) : absl::OkStatus();
}

absl::Status Check(const v1::AppendTrialLogRequest& request) {
  return First(CheckText("lease_id", request.lease_id()), CheckText("text", request.text(), kMaxLog));
}

absl::Status Check(const v1::ReportTrialRequest& request) {
  AUTOCFG_RETURN_IF_ERROR(First(CheckWorkerName(request.worker()), CheckText("lease_id", request.lease_id()),
                                CheckText("request_id", request.request_id())));
  if (request.outcome() == v1::OUTCOME_UNSPECIFIED) return Missing("outcome");
  if (!v1::Outcome_IsValid(request.outcome())) return absl::InvalidArgumentError("outcome is unknown");
  if (!v1::FailureKind_IsValid(request.failure())) return absl::InvalidArgumentError("failure is unknown");
  if (request.outcome() == v1::OUTCOME_MEASURED && !request.has_measurement() && !request.has_calibration())
    return absl::InvalidArgumentError("measurement and calibration are missing, but the outcome is MEASURED");
  return First(request.has_measurement() ? Check(request.measurement()) : absl::OkStatus(),
               request.has_calibration() ? Check(request.calibration()) : absl::OkStatus(),
               request.has_timeline() ? CheckTimeline(request.timeline()) : absl::OkStatus(),
               request.has_out_of_memory() ? Check(request.out_of_memory()) : absl::OkStatus());
}

absl::Status Check(const v1::DrainWorkerRequest& request) {
  return First(CheckWorkerName(request.worker()), CheckLength("request_id", request.request_id(), kMaxText));
}

absl::StatusOr<absl::Duration> WaitOf(double wait_s) {
  AUTOCFG_RETURN_IF_ERROR(CheckNotNegative("wait_s", wait_s));
  return absl::Seconds(std::min(wait_s, kLongestWait));
}

}  // namespace autocfg::server
