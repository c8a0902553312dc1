// One job of ranks from start to end, in the calling thread: starts them, relays what they gather, passes on
// progress, finds the first failure, ends the rest, reaps all. Use from one thread; several may run at once
// in one program, since each looks after its own processes alone.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/failure_verdict.h"
#include "worker/job_directory.h"
#include "worker/process_launcher.h"
#include "worker/rank_link.h"

namespace autocfg {

class JobWatch {
 public:
  JobWatch(const JobRequest& request, const LaunchHooks& hooks);

  // Once. Returns when every process has ended and has been reaped.
  JobResult Run(const std::string& trainer_path);

 private:
  using Clock = std::chrono::steady_clock;

  // What the launcher knows of a rank beyond its link.
  struct RankState {
    bool judged = false;  // its end has been looked at
    bool has_result = false;
    bool failed = false;
    v1::RankMessage last;                     // result or error
    std::optional<v1::GatherRequest> gather;  // waits for the others
  };

  enum class Phase { kRunning, kFailing, kTerminating, kKilling };

  bool Start(const std::string& trainer_path);
  void PollOnce();
  void TakeMessages(int rank);
  void Take(int rank, v1::RankMessage& message);
  void AnswerGathering();
  void CheckForgottenGathering();
  void JudgeEnds();
  void JudgeEnd(int rank);
  void Fail(int rank, std::string message) { Fail({rank, FailureWeight::kCause, std::move(message), {}}); }
  void Fail(RankFailure failure);
  void Advance();
  void Stop(JobOutcome outcome, std::string message);
  void SetPhase(Phase phase, std::chrono::milliseconds limit);
  void Signal(int signal);
  bool AllEnded() const;
  void Finish();

  const JobRequest& request_;
  const LaunchHooks& hooks_;
  const JobDirectory directory_;  // outlives the ranks
  const Clock::time_point start_ = Clock::now();
  std::vector<RankLink> links_;
  std::vector<RankState> states_;
  FailureVerdict verdict_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point phase_end_ = Clock::time_point::max();
  std::optional<Clock::time_point> all_results_;  // since when every rank has sent its result
  bool stopped_ =
      false;  // by the time limit, by the caller, or for want of a process: not by a rank's failure
  JobResult result_;
};

}  // namespace autocfg
