#include "server/sched/lease_expiry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/os/process.h"
#include "base/status_macros.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

// A shorter pause costs no lease: workers renew three times in a lease duration.
constexpr double kToleratedShareOfLease = 0.5;
constexpr double kLoggedStepSeconds = 5;
constexpr double kOneMomentSeconds = 0.5;  // readings of two clocks further apart are not compared

}  // namespace

LeaseExpiry::LeaseExpiry(Dispatcher& dispatcher, LeaseExpiryOptions options)
    : dispatcher_(dispatcher),
      options_(std::move(options)),
      lateness_(kToleratedShareOfLease * options_.lease_duration_s),
      thread_([this] { Loop(); }) {}

LeaseExpiry::~LeaseExpiry() {
  stopping_.Set();
  thread_.join();
}

void LeaseExpiry::Loop() {
  bool failing = false;
  base::NameThread("lease-expiry");
  do {
    LogStep();
    if (const absl::Status status = Check(); status.ok()) {
      if (std::exchange(failing, false)) spdlog::info("lease expiry works again");
    } else if (!std::exchange(failing, true)) {
      spdlog::error("cannot expire leases; retrying: {}",
                    status.ToString(absl::StatusToStringMode::kWithNoExtraData));
    }
    ++rounds_;
  } while (!stopping_.Wait(options_.period));
}

absl::Status LeaseExpiry::Check() {
  // Read first: if the process is stopped from here on, nothing expires that was valid before.
  const double now_s = options_.clock();
  if (const double late_s = lateness_.Check(options_.elapsing(), options_.period.count()); late_s > 0) {
    spdlog::warn(
        "the coordinator was stopped, suspended or blocked for {:.1f} s; all leases last for {} s from now",
        late_s, options_.lease_duration_s);
    grant_ = true;
  }
  if (grant_) {
    AUTOCFG_ASSIGN_OR_RETURN(const double until, dispatcher_.GrantAnew());
    if (std::exchange(first_, false) || away_until_) away_until_ = until;
    grant_ = false;
    return absl::OkStatus();
  }
  if (away_until_) {
    AUTOCFG_RETURN_IF_ERROR(dispatcher_.ExpireLeases(std::min(now_s, *away_until_), /*away=*/true));
    if (now_s > *away_until_) away_until_.reset();
  }
  return dispatcher_.ExpireLeases(now_s, /*away=*/false);
}

void LeaseExpiry::LogStep() {
  const double before_s = options_.elapsing();
  const double system_s = options_.system();
  const double after_s = options_.elapsing();
  if (after_s - before_s > kOneMomentSeconds) return;  // stopped between the readings
  const double ahead_s = system_s - after_s;
  const double step_s = ahead_s - ahead_s_.value_or(ahead_s);
  ahead_s_ = ahead_s;
  if (std::abs(step_s) < kLoggedStepSeconds) return;
  spdlog::warn(
      "the system's clock was stepped by {:+.0f} s; leases and time budgets are not affected, and the "
      "coordinator's times follow the old setting until it is restarted",
      step_s);
}

}  // namespace autocfg::server
