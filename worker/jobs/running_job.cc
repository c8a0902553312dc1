#include "worker/jobs/running_job.h"

#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "spdlog/spdlog.h"
#include "worker/jobs/job_report.h"

namespace autocfg::worker {
namespace {

// Returns "ranks 2 to 3 of 4", or "4 ranks".
std::string RanksText(const v1::LeaseWorkResponse& lease) {
  const int ranks = lease.job().ranks();
  if (!lease.has_share()) return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
  const int first = lease.share().first_rank();
  return fmt::format("ranks {} to {} of {}", first, first + lease.share().ranks() - 1, ranks);
}

// Returns "MEASURED", or "FAILED: rank 1: ...".
std::string EndText(const JobReport& report) {
  std::string text = v1::Outcome_Name(report.outcome);
  if (text.starts_with("OUTCOME_")) text.erase(0, std::string("OUTCOME_").size());
  return report.message.empty() ? text : fmt::format("{}: {}", text, report.message);
}

}  // namespace

RunningJob::RunningJob(const JobSetting& setting, const Registration& session, v1::LeaseWorkResponse lease)
    : setting_(setting),
      session_(session),
      lease_(std::move(lease)),
      keeper_(LeaseKeeper::Clock::now(), session.lease_s,
              {.renew =
                   [this](double wait_s, double limit_s) {
                     return setting_.calls.RenewLease(session_, lease_, wait_s, limit_s, renewals_);
                   },
               .cancel = [this] { renewals_.Cancel(); },
               .drain = setting.drain},
              &stop_),
      thread_([this] { Run(); }) {}

RunningJob::~RunningJob() { Wait(); }

void RunningJob::Wait() {
  if (thread_.joinable()) thread_.join();
}

void RunningJob::Run() {
  const std::string what = fmt::format("{}, attempt {}", lease_.job().name(), lease_.job().attempt());
  const std::vector<int> slots = setting_.slots.Take(SlotsToTake(lease_, setting_.inventory), stop_);
  spdlog::info("{}: starts with {}", what, RanksText(lease_));
  LaunchHooks hooks;
  hooks.cancel = &stop_;
  if (lease_.has_share()) hooks.exchange = ExchangeWithOthers();
  JobReport report;
  report.outcome = v1::OUTCOME_CANCELLED;
  const auto start = LeaseKeeper::Clock::now();
  if (!stop_) report = RunJob(lease_, setting_.inventory, setting_.cores, slots, setting_.launcher, hooks);
  setting_.slots.Give(slots);
  const double seconds = std::chrono::duration<double>(LeaseKeeper::Clock::now() - start).count();
  spdlog::info("{}: ended after {:.1f} s, {}", what, seconds, EndText(report));
  // A job cut short by this worker's own stop is not reported: deregistering returns it to the queue.
  const bool cut_short = report.outcome == v1::OUTCOME_CANCELLED && !keeper_.cancelled();
  if (keeper_.lost()) {
    spdlog::warn("{}: its lease is lost; it is not reported", what);
  } else if (!cut_short) {
    SendReport(setting_.calls, session_, lease_, report, setting_.stopping,
               [this] { return keeper_.lost(); });
  }
  over_ = true;
  keeper_.End();
}

ExchangeHook RunningJob::ExchangeWithOthers() {
  return {.run =
              [this](const std::string& name, std::int64_t sequence, const std::vector<std::string>& values) {
                return setting_.calls.Rendezvous(lease_, name, sequence, values, exchanges_);
              },
          .cancel = [this] { exchanges_.Cancel(); }};
}

}  // namespace autocfg::worker
