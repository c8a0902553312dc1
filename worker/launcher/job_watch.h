// Runs a job's ranks in the calling thread: starts them, relays their gathered values, forwards progress,
// finds the first failure, ends the remaining ranks and what they left behind. Not thread-safe, but several
// may run in one program, because each has a supervisor of its own, the parent of its processes.
//
// Ranks have two indexes: the place, from 0, among the ranks that run here, and the number in the whole job.
// They differ if the job spans workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/launcher/awake_clock.h"
#include "worker/launcher/exchange.h"
#include "worker/launcher/failure_verdict.h"
#include "worker/launcher/job_directory.h"
#include "worker/launcher/job_supervisor.h"
#include "worker/launcher/process_launcher.h"
#include "worker/launcher/rank_link.h"

namespace autocfg::worker {

class JobWatch {
 public:
  JobWatch(const JobRequest& request, const LaunchHooks& hooks);

  // Call once. Returns when every rank has ended, and every process that a rank left behind
  // (JobSupervisor::Finish).
  JobResult Run(const std::string& trainer_path, const std::string& supervisor_path);

 private:
  using Clock = std::chrono::steady_clock;

  // The launcher's state of a rank, beyond its link.
  struct RankState {
    explicit RankState(const v1::RunSpec& spec) : result(spec) {}

    bool judged = false;  // its end was examined
    bool failed = false;
    bool failed_first = false;  // before the launcher began to end the ranks
    ResultJoiner result;
    v1::RankMessage error;                    // if it sent one
    std::optional<v1::GatherRequest> gather;  // waits for the other ranks
  };

  enum class Phase { kRunning, kFailing, kTerminating, kKilling };

  bool Start(const std::string& trainer_path, const std::string& supervisor_path);
  void StopUnstarted(std::string message);
  void PollOnce();
  void TakeMessages(std::size_t place);
  void Take(std::size_t place, v1::RankMessage& message);
  void CompleteGathering();
  void TakeGather(std::size_t place, v1::GatherRequest& request);
  void TakeExchange();
  void AnswerGathering(const std::string& name, std::vector<std::string> values);
  void CheckForgottenGathering();
  void TakeExits();
  void JudgeEnds();
  void JudgeEnd(std::size_t place);
  int NumberOf(std::size_t place) const { return request_.ranks[place].rank(); }
  bool SpansWorkers() const {
    return static_cast<int>(states_.size()) != request_.ranks.front().world_size();
  }
  // Records a failure that the rank itself caused.
  void Fail(std::size_t place, std::string message) {
    Fail(place, RankFailure{.rank = NumberOf(place), .message = std::move(message)});
  }
  void Fail(std::size_t place, RankFailure failure);
  void Conclude(RankFailure failure);
  void Advance();
  void AskToFinish();
  void Stop(v1::Outcome outcome, std::string message);
  void SetPhase(Phase phase, std::chrono::milliseconds limit);
  bool AllEnded() const;
  void Finish();

  const JobRequest& request_;
  const LaunchHooks& hooks_;
  const JobDirectory directory_;  // must outlive the ranks
  const Clock::time_point start_ = Clock::now();
  AwakeClock clock_;  // of all limits
  // Where the limits count from. Moves on by what an exchange takes: it waits for other workers, or for a
  // coordinator that is away, and ends by itself (WorkerCalls::Rendezvous). The coordinator ends the lease
  // two minutes after the time limit, not counting the time in which it was away.
  Clock::time_point counted_from_ = start_;
  Clock::time_point progressed_ = start_;  // when the last progress came, moved on likewise
  JobSupervisor supervisor_;
  std::vector<RankLink> links_;
  std::vector<RankState> states_;
  std::optional<Exchange> exchange_;  // in-flight
  Clock::time_point exchange_began_;
  std::int64_t gatherings_ = 0;  // that all ranks here have joined
  FailureVerdict verdict_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point phase_end_ = Clock::time_point::max();
  std::optional<Clock::time_point> all_results_;  // when the last rank sent its result
  bool asked_to_finish_ = false;
  // by a limit, by the caller, or because a process could not start; not by a rank's failure
  bool stopped_ = false;
  JobResult result_;
};

}  // namespace autocfg::worker
