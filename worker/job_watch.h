// One job of ranks from start to end, in the calling thread: starts them, relays what they gather, passes on
// progress, finds the first failure, ends the rest, reaps all. Use from one thread; several may run at once
// in one program, since each looks after its own processes alone.
//
// Ranks are counted in two ways: by place, from 0, among those that run here, and by number in the whole job.
// They differ where the job spans workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/exchange.h"
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
    bool failed_first = false;                // before the ranks were being ended
    v1::RankMessage last;                     // result or error
    std::optional<v1::GatherRequest> gather;  // waits for the others
  };

  enum class Phase { kRunning, kFailing, kTerminating, kKilling };

  bool Start(const std::string& trainer_path);
  void PollOnce();
  void TakeMessages(std::size_t place);
  void Take(std::size_t place, v1::RankMessage& message);
  void CompleteGathering();
  void TakeExchange();
  void AnswerGathering(const std::string& name, std::vector<std::string> values);
  void CheckForgottenGathering();
  void JudgeEnds();
  void JudgeEnd(std::size_t place);
  int NumberOf(std::size_t place) const { return request_.ranks[place].rank(); }
  bool SpansWorkers() const {
    return static_cast<int>(states_.size()) != request_.ranks.front().world_size();
  }
  // By its own doing.
  void Fail(std::size_t place, std::string message) {
    Fail(place, RankFailure{.rank = NumberOf(place), .message = std::move(message)});
  }
  void Fail(std::size_t place, RankFailure failure);
  void Conclude(RankFailure failure);
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
  std::optional<Exchange> exchange_;  // under way
  std::int64_t gatherings_ = 0;       // that all here have joined
  FailureVerdict verdict_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point phase_end_ = Clock::time_point::max();
  std::optional<Clock::time_point> all_results_;  // since when every rank has sent its result
  bool stopped_ =
      false;  // by the time limit, by the caller, or for want of a process: not by a rank's failure
  JobResult result_;
};

}  // namespace autocfg
