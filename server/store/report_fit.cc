#include "server/store/report_fit.h"

#include <cstdint>
#include <set>
#include <string>

#include "base/utf8.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

absl::Status CheckMeasurement(const v1::TrainSpec& asked, const v1::Measurement& measurement) {
  if (measurement.step_time_s().empty())
    return absl::InvalidArgumentError("measurement.step_time_s is empty, but the job is a trial");
  if (measurement.slice() != asked.has_slice()) {
    return absl::InvalidArgumentError(
        fmt::format("measurement.slice is {}, but the job runs {}", measurement.slice(),
                    asked.has_slice() ? "one rank of the plan alone" : "all ranks of the plan"));
  }
  // The trainer reports a time for each step after the warm-up.
  const std::int64_t timed = asked.steps() - asked.warmup_steps_untimed();
  if (measurement.step_time_s_size() != timed) {
    return absl::InvalidArgumentError(
        fmt::format("measurement.step_time_s has {} times, but the job times {} steps",
                    measurement.step_time_s_size(), timed));
  }
  return absl::OkStatus();
}

absl::Status CheckCalibration(const v1::CalibrateSpec& asked, const v1::CalibrateResult& result) {
  std::set<std::string> missing;
  for (const v1::OpDesc& op : asked.ops()) missing.insert(op.SerializeAsString());
  const std::size_t wanted = missing.size();
  for (const v1::OpTime& time : result.ops()) {
    if (missing.erase(time.op().SerializeAsString()) == 0) {
      return absl::InvalidArgumentError(
          fmt::format("calibration.ops: {} is a duplicate, or the job does not ask for it",
                      base::Printable(time.op().ShortDebugString())));
    }
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("calibration.ops lacks {} of the {} ops that the job asks for", missing.size(), wanted));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFits(const v1::Job& asked, const v1::ReportTrialRequest& report) {
  if (asked.has_calibrate()) {
    if (!report.has_calibration())
      return absl::InvalidArgumentError("calibration is missing, but the job is a calibration");
    return CheckCalibration(asked.calibrate(), report.calibration());
  }
  if (!report.has_measurement())
    return absl::InvalidArgumentError("measurement is missing, but the job is a trial");
  return CheckMeasurement(asked.train(), report.measurement());
}

}  // namespace autocfg::server
