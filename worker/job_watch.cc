#include "worker/job_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

using std::chrono::milliseconds;

// How long the loop sleeps at most: what wakes nothing (an end that left descriptors open, a cancellation) is
// seen within this.
constexpr int kPollMs = 20;

// After the first failure, the others may still send errors of their own: shortly where the cause is known,
// longer where only consequences are.
constexpr milliseconds kGraceWithCause{200};
constexpr milliseconds kGraceWithoutCause{1000};
// Between the request to end and the end by force.
constexpr milliseconds kTerminateLimit{500};
// For a rank to end once every rank has sent its result.
constexpr std::chrono::seconds kEndLimit{30};

}  // namespace

JobWatch::JobWatch(const JobRequest& request, const LaunchHooks& hooks)
    : request_(request), hooks_(hooks), states_(request.ranks.size()) {}

JobResult JobWatch::Run(const std::string& trainer_path) {
  if (Start(trainer_path) && hooks_.started) {
    std::vector<int> pids;
    for (const RankLink& link : links_) pids.push_back(link.pid());
    hooks_.started(pids);
  }
  while (!AllEnded()) {
    PollOnce();
    JudgeEnds();
    CheckForgottenGathering();
    Advance();
  }
  Finish();
  return std::move(result_);
}

// False, with the job stopped, if a process cannot be started. Nobody is reaped before the end, so the first
// rank's process group lasts.
bool JobWatch::Start(const std::string& trainer_path) {
  for (std::size_t rank = 0; rank < request_.ranks.size(); ++rank) {
    static const std::vector<int> kAnyCore;
    std::vector<std::string> environment = directory_.Environment();
    if (!request_.gpus.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + request_.gpus[rank]);
    absl::StatusOr<SpawnedRank> spawned =
        SpawnRank(trainer_path, request_.cores.empty() ? kAnyCore : request_.cores[rank],
                  links_.empty() ? 0 : links_.front().pid(), environment);
    if (!spawned.ok()) {
      Stop(JobOutcome::kFailed, fmt::format("rank {}: {}", rank, std::string(spawned.status().message())));
      result_.first_failed_rank = static_cast<int>(rank);
      return false;
    }
    links_.emplace_back(*std::move(spawned));
  }
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    v1::LauncherMessage message;
    *message.mutable_run_spec() = request_.ranks[rank];
    if (absl::Status status = links_[rank].Queue(message); !status.ok()) {
      Stop(JobOutcome::kBadInput, fmt::format("rank {}: {}", rank, std::string(status.message())));
      return false;
    }
  }
  return true;
}

void JobWatch::PollOnce() {
  std::vector<pollfd> fds;
  for (const RankLink& link : links_) {
    const short events = link.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    fds.push_back({link.socket_fd(), events, 0});
    fds.push_back({link.log_fd(), POLLIN, 0});
  }
  ::poll(fds.data(), fds.size(),
         kPollMs);  // what it answers matters not: everything below is tried without blocking
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    links_[rank].Flush();
    links_[rank].DrainLog();
    TakeMessages(static_cast<int>(rank));
  }
}

void JobWatch::TakeMessages(int rank) {
  links_[rank].Receive();
  for (;;) {
    v1::RankMessage message;
    const absl::StatusOr<bool> next = links_[rank].Next(message);
    if (!next.ok()) {
      Fail(rank, fmt::format("its messages are broken: {}", std::string(next.status().message())));
      return;
    }
    if (!*next) return;
    Take(rank, message);
  }
}

void JobWatch::Take(int rank, v1::RankMessage& message) {
  RankState& state = states_[rank];
  switch (message.message_case()) {
    case v1::RankMessage::kGatherRequest:
      if (state.gather) return Fail(rank, "asks for two gatherings at once");
      state.gather = std::move(*message.mutable_gather_request());
      return AnswerGathering();
    case v1::RankMessage::kProgress:
      if (hooks_.progress && phase_ == Phase::kRunning) hooks_.progress(rank, message.progress());
      return;
    case v1::RankMessage::kError:
      state.last = message;
      return Fail({rank,
                   message.error().code() == "UNAVAILABLE" ? FailureWeight::kPeerGone : FailureWeight::kCause,
                   message.error().message(), message.error()});
    case v1::RankMessage::kTrainResult:
    case v1::RankMessage::kCalibrateResult:
      state.last = std::move(message);
      state.has_result = true;
      return;
    case v1::RankMessage::MESSAGE_NOT_SET:
      return Fail(rank, "sent an empty message");
  }
}

// Once all ranks have asked, under one name.
void JobWatch::AnswerGathering() {
  for (const RankState& state : states_) {
    if (!state.gather) return;
  }
  const std::string& name = states_.front().gather->name();
  v1::LauncherMessage message;
  message.mutable_gather_reply()->set_name(name);
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    v1::GatherRequest& request = *states_[rank].gather;
    if (request.name() != name) {
      return Fail(static_cast<int>(rank),
                  fmt::format("gathers '{}' where rank 0 gathers '{}'", request.name(), name));
    }
    message.mutable_gather_reply()->add_values(std::move(*request.mutable_value()));
  }
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    states_[rank].gather.reset();
    if (absl::Status status = links_[rank].Queue(message); !status.ok()) {
      return Fail(static_cast<int>(rank), std::string(status.message()));
    }
  }
}

// A rank that has ended well will not join a gathering, and the others would wait for it forever.
void JobWatch::CheckForgottenGathering() {
  if (phase_ != Phase::kRunning) return;
  for (std::size_t gone = 0; gone < states_.size(); ++gone) {
    if (!states_[gone].judged) continue;
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      if (!states_[rank].gather || states_[rank].failed) continue;
      Fail(static_cast<int>(rank),
           fmt::format("gathers '{}', but rank {} has ended without it", states_[rank].gather->name(), gone));
    }
  }
}

void JobWatch::JudgeEnds() {
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    if (states_[rank].judged || !links_[rank].PollEnded()) continue;
    links_[rank].DrainLog();
    TakeMessages(static_cast<int>(rank));  // what it sent last
    states_[rank].judged = true;
    JudgeEnd(static_cast<int>(rank));
  }
}

void JobWatch::JudgeEnd(int rank) {
  RankLink& link = links_[rank];
  const RankState& state = states_[rank];
  if (state.failed) return;
  if (state.has_result && link.exit_status() == 0) return;
  std::string message;
  if (link.reaped_elsewhere()) {
    message = "ended without a result, and how is not known: this program reaps its children elsewhere";
  } else if (link.exit_status() == 0) {
    message = "ended without a result";
  } else {
    message = DescribeExit(link.exit_status());
    if (state.has_result) message += " after its result";
  }
  if (const std::string line = link.LastLogLine(); !line.empty()) message += ": " + line;
  const bool aborted = WIFSIGNALED(link.exit_status()) && WTERMSIG(link.exit_status()) == SIGABRT;
  Fail({rank, aborted ? FailureWeight::kAborted : FailureWeight::kCause, std::move(message), {}});
}

// Once the ranks are being ended, their failures tell nothing.
void JobWatch::Fail(RankFailure failure) {
  RankState& state = states_[failure.rank];
  if (state.failed) return;
  state.failed = true;
  if (phase_ == Phase::kTerminating || phase_ == Phase::kKilling) return;
  verdict_.Add(std::move(failure));
  if (phase_ == Phase::kRunning) SetPhase(Phase::kFailing, kGraceWithoutCause);
  if (verdict_.cause_known()) phase_end_ = std::min(phase_end_, Clock::now() + kGraceWithCause);
}

void JobWatch::Advance() {
  const Clock::time_point now = Clock::now();
  if (phase_ == Phase::kRunning) {
    if (hooks_.cancel != nullptr && hooks_.cancel->load()) {
      return Stop(JobOutcome::kCancelled, "cancelled");
    }
    if (request_.time_limit.count() > 0 && now - start_ > request_.time_limit) {
      return Stop(JobOutcome::kTimedOut,
                  fmt::format("not finished within the time limit of {:g} s", request_.time_limit.count()));
    }
    const bool all = std::all_of(states_.begin(), states_.end(), [](const auto& s) { return s.has_result; });
    if (all && !all_results_) all_results_ = now;
    if (all_results_ && now - *all_results_ > kEndLimit) {
      for (std::size_t rank = 0; rank < links_.size(); ++rank) {
        if (!links_[rank].ended()) Fail(static_cast<int>(rank), "does not end after its result");
      }
    }
    return;
  }
  if (now < phase_end_) return;
  if (phase_ == Phase::kFailing) {
    Signal(SIGTERM);
    SetPhase(Phase::kTerminating, kTerminateLimit);
  } else {
    Signal(SIGKILL);
    SetPhase(Phase::kKilling, kTerminateLimit);
  }
}

void JobWatch::Stop(JobOutcome outcome, std::string message) {
  stopped_ = true;
  result_.outcome = outcome;
  result_.message = std::move(message);
  Signal(SIGTERM);
  SetPhase(Phase::kTerminating, kTerminateLimit);
}

void JobWatch::SetPhase(Phase phase, milliseconds limit) {
  phase_ = phase;
  phase_end_ = Clock::now() + limit;
}

// To the whole process group, what the ranks started included. Its number is taken as long as one rank is not
// reaped.
void JobWatch::Signal(int signal) {
  const bool ours = std::any_of(links_.begin(), links_.end(), [](RankLink& link) {
    link.PollEnded();
    return !link.reaped_elsewhere();
  });
  if (ours) ::kill(-links_.front().pid(), signal);
}

bool JobWatch::AllEnded() const {
  return std::all_of(links_.begin(), links_.end(), [](const RankLink& link) { return link.ended(); }) &&
         std::all_of(states_.begin(), states_.begin() + static_cast<std::ptrdiff_t>(links_.size()),
                     [](const RankState& state) { return state.judged; });
}

void JobWatch::Finish() {
  Signal(SIGKILL);  // the ranks have ended; what they have started and left has not
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    RankOutcome outcome;
    outcome.last = std::move(states_[rank].last);
    if (rank < links_.size()) {
      RankLink& link = links_[rank];
      link.DrainLog();
      link.Reap();
      outcome.exit_status = link.exit_status();
      outcome.log_tail = link.log_tail();
      outcome.finished = states_[rank].has_result && !states_[rank].failed && link.exit_status() == 0;
    }
    result_.ranks.push_back(std::move(outcome));
  }
  if (!stopped_) {
    if (verdict_.failed()) {
      verdict_.Tell(result_);
    } else {
      result_.outcome = JobOutcome::kDone;
    }
  }
  result_.wall_s = std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace autocfg
