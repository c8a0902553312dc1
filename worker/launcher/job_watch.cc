#include "worker/launcher/job_watch.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "fmt/format.h"

namespace autocfg::worker {
namespace {

using std::chrono::milliseconds;

// Longest sleep of the loop. Bounds the delay for cancellation, which does not wake it.
constexpr int kPollMs = 20;
// Bytes that are read of one rank before the others get their turn.
constexpr std::size_t kTurnBytes = 1 << 20;

// Grace period after the first failure, in which other ranks may still send errors. Short if the cause is
// known, longer if only consequences are known.
constexpr milliseconds kGraceWithCause{200};
constexpr milliseconds kGraceWithoutCause{1000};
// Time between SIGTERM and SIGKILL.
constexpr milliseconds kTerminateLimit{500};
// Time for a rank to exit after every rank has sent its result.
constexpr std::chrono::seconds kEndLimit{30};

}  // namespace

JobWatch::JobWatch(const JobRequest& request, const LaunchHooks& hooks)
    : request_(request), hooks_(hooks), states_(request.ranks.begin(), request.ranks.end()) {}

JobResult JobWatch::Run(const std::string& trainer_path, const std::string& supervisor_path) {
  if (Start(trainer_path, supervisor_path) && hooks_.started) {
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

// Stops the job because a process cannot start.
void JobWatch::StopUnstarted(std::string message) {
  Stop(v1::OUTCOME_FAILED, std::move(message));
  result_.failure = v1::FAILURE_KIND_PROCESS;
}

// Returns false, with the job stopped, if a process cannot start.
bool JobWatch::Start(const std::string& trainer_path, const std::string& supervisor_path) {
  if (const absl::Status status = supervisor_.Start(supervisor_path, request_.limits); !status.ok()) {
    StopUnstarted(std::string(status.message()));
    return false;
  }
  for (std::size_t rank = 0; rank < request_.ranks.size(); ++rank) {
    static const std::vector<int> kAnyCore;
    std::vector<std::string> environment = directory_.Environment();
    environment.insert(environment.end(), request_.environment.begin(), request_.environment.end());
    if (!request_.gpus.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + request_.gpus[rank]);
    absl::StatusOr<SpawnedRank> spawned = SpawnRank(
        supervisor_, trainer_path, request_.cores.empty() ? kAnyCore : request_.cores[rank], environment);
    if (!spawned.ok()) {
      StopUnstarted(fmt::format("rank {}: {}", NumberOf(rank), std::string(spawned.status().message())));
      result_.first_failed_rank = NumberOf(rank);
      return false;
    }
    links_.emplace_back(*std::move(spawned));
  }
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    v1::LauncherMessage message;
    *message.mutable_run_spec() = request_.ranks[rank];
    auto frame = RankLink::MakeFrame(message);
    if (!frame.ok()) {
      Stop(v1::OUTCOME_FAILED,
           fmt::format("rank {}: {}", NumberOf(rank), std::string(frame.status().message())));
      result_.failure = v1::FAILURE_KIND_OWN;
      result_.error.set_code("INVALID_ARGUMENT");
      return false;
    }
    links_[rank].Queue(*std::move(frame));
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
  fds.push_back({supervisor_.fd(), POLLIN, 0});
  if (exchange_) fds.push_back({exchange_->ready_fd(), POLLIN, 0});
  // The result does not matter: everything below is tried without blocking.
  ::poll(fds.data(), fds.size(), kPollMs);
  clock_.Tick();
  for (std::size_t place = 0; place < links_.size(); ++place) {
    links_[place].Flush();
    links_[place].DrainLog();
    TakeMessages(place);
  }
  TakeExits();
  TakeExchange();
}

// Takes the messages that have arrived, in turns that do not starve the other ranks; of an ended rank all
// that are there. A process that it left behind may go on writing.
void JobWatch::TakeMessages(std::size_t place) {
  RankLink& link = links_[place];
  std::size_t left = link.ended() ? link.UnreadBytes() : kTurnBytes;
  while (!states_[place].failed && left > 0) {
    const std::size_t received = link.Receive(left);
    if (received == 0) return;
    left -= received;
    v1::RankMessage message;
    absl::StatusOr<bool> next = false;
    while (!states_[place].failed && (next = link.Next(message)).ok() && *next) Take(place, message);
    if (!next.ok())
      Fail(place, fmt::format("its messages are invalid: {}", std::string(next.status().message())));
  }
}

void JobWatch::Take(std::size_t place, v1::RankMessage& message) {
  RankState& state = states_[place];
  switch (message.message_case()) {
    case v1::RankMessage::kGatherRequest: return TakeGather(place, *message.mutable_gather_request());
    case v1::RankMessage::kProgress:
      progressed_ = clock_.now();
      if (hooks_.progress && phase_ == Phase::kRunning) hooks_.progress(NumberOf(place), message.progress());
      return;
    case v1::RankMessage::kError: {
      state.error = message;
      return Fail(place, RankFailure{.rank = NumberOf(place),
                                     .kind = FailureKindOf(message.error()),
                                     .message = message.error().message(),
                                     .error = message.error()});
    }
    case v1::RankMessage::kTrainResult:
    case v1::RankMessage::kCalibrateResult:
      if (const absl::Status status = state.result.Add(std::move(message)); !status.ok())
        Fail(place, std::string(status.message()));
      return;
    case v1::RankMessage::MESSAGE_NOT_SET: return Fail(place, "sent an empty message");
  }
}

void JobWatch::TakeGather(std::size_t place, v1::GatherRequest& request) {
  RankState& state = states_[place];
  // A rank reads the values of a gathering before it asks for the next.
  if (state.gather || links_[place].wants_to_write()) return Fail(place, "asks for two gatherings at once");
  state.gather = std::move(request);
  CompleteGathering();
}

// Acts once all ranks here have joined a gathering under one name: answers them, or starts the exchange with
// the other workers.
void JobWatch::CompleteGathering() {
  for (const RankState& state : states_) {
    if (!state.gather) return;
  }
  const std::string& name = states_.front().gather->name();
  std::vector<std::string> values;
  for (std::size_t place = 0; place < states_.size(); ++place) {
    v1::GatherRequest& request = *states_[place].gather;
    if (request.name() != name) {
      return Fail(place,
                  fmt::format("gathers '{}' where rank {} gathers '{}'", request.name(), NumberOf(0), name));
    }
    values.push_back(std::move(*request.mutable_value()));
  }
  const std::int64_t sequence = gatherings_++;
  if (!SpansWorkers()) return AnswerGathering(std::string(name), std::move(values));
  exchange_began_ = clock_.now();
  exchange_.emplace(hooks_.exchange, name, sequence, std::move(values));
}

void JobWatch::TakeExchange() {
  if (!exchange_ || !exchange_->over()) return;
  auto answer = exchange_->Take();
  const std::string name = exchange_->name();
  const Clock::duration took = clock_.now() - exchange_began_;
  exchange_.reset();
  counted_from_ += took;
  progressed_ += took;
  if (answer.ok() && answer->size() == static_cast<std::size_t>(request_.ranks.front().world_size()))
    return AnswerGathering(name, *std::move(answer));
  const absl::Status status =
      answer.ok() ? absl::InternalError(fmt::format("{} values came back", answer->size())) : answer.status();
  RankFailure failure;
  failure.message = fmt::format("the gathering of '{}' with the job's other workers: {}", name,
                                std::string(status.message()));
  if (!absl::IsInvalidArgument(status)) failure.kind = v1::FAILURE_KIND_PEER;
  Conclude(std::move(failure));
}

void JobWatch::AnswerGathering(const std::string& name, std::vector<std::string> values) {
  v1::LauncherMessage message;
  message.mutable_gather_reply()->set_name(name);
  for (std::string& value : values) message.mutable_gather_reply()->add_values(std::move(value));
  const auto frame = RankLink::MakeFrame(message);
  if (!frame.ok()) return Conclude({.message = std::string(frame.status().message())});
  for (std::size_t place = 0; place < states_.size(); ++place) {
    states_[place].gather.reset();
    links_[place].Queue(*frame);
  }
}

// A rank that exited normally never joins a gathering, so the others would wait forever. During an exchange,
// all ranks here have joined.
void JobWatch::CheckForgottenGathering() {
  if (phase_ != Phase::kRunning || exchange_) return;
  for (std::size_t gone = 0; gone < states_.size(); ++gone) {
    if (!states_[gone].judged) continue;
    for (std::size_t place = 0; place < states_.size(); ++place) {
      if (!states_[place].gather || states_[place].failed) continue;
      Fail(place, fmt::format("gathers '{}', but rank {} has ended without it", states_[place].gather->name(),
                              NumberOf(gone)));
    }
  }
}

void JobWatch::TakeExits() {
  for (const JobSupervisor::RankExit& exit : supervisor_.TakeExits())
    links_[exit.place].SetEnded(exit.wait_status);
  const bool may_stop = phase_ == Phase::kRunning || phase_ == Phase::kFailing;
  if (may_stop && !supervisor_.over_limit().empty()) {
    Stop(v1::OUTCOME_FAILED, supervisor_.over_limit());
    result_.failure = v1::FAILURE_KIND_OWN;
  }
  if (!supervisor_.lost()) return;
  for (RankLink& link : links_) {
    if (!link.ended()) link.SetEnded(std::nullopt);
  }
}

void JobWatch::JudgeEnds() {
  for (std::size_t place = 0; place < links_.size(); ++place) {
    if (states_[place].judged || !links_[place].ended()) continue;
    links_[place].DrainLog();
    TakeMessages(place);  // its last messages
    links_[place].StopReceiving();
    states_[place].judged = true;
    JudgeEnd(place);
  }
}

void JobWatch::JudgeEnd(std::size_t place) {
  RankLink& link = links_[place];
  const RankState& state = states_[place];
  if (state.failed) return;
  const std::optional<int> status = link.exit_status();
  if (state.result.complete() && status == 0) return;
  std::string message;
  if (!status) {
    message = "killed, because the supervisor of its job ended";
  } else if (status == 0) {
    message = "ended without a result";
  } else {
    message = DescribeExit(*status);
    if (state.result.complete()) message += " after its result";
  }
  if (const std::string line = link.LastLogLine(); !line.empty()) message += ": " + line;
  const bool aborted = status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGABRT;
  Fail(place, RankFailure{.rank = NumberOf(place),
                          .kind = v1::FAILURE_KIND_PROCESS,
                          .aborted = aborted,
                          .message = std::move(message)});
}

void JobWatch::Fail(std::size_t place, RankFailure failure) {
  RankState& state = states_[place];
  if (state.failed) return;
  state.failed = true;
  links_[place].StopReceiving();
  state.failed_first = phase_ == Phase::kRunning || phase_ == Phase::kFailing;
  Conclude(std::move(failure));
}

// Ignores failures of ranks that the launcher is already ending.
void JobWatch::Conclude(RankFailure failure) {
  if (phase_ == Phase::kTerminating || phase_ == Phase::kKilling) return;
  verdict_.Add(std::move(failure));
  if (phase_ == Phase::kRunning) SetPhase(Phase::kFailing, kGraceWithoutCause);
  if (verdict_.cause_known()) phase_end_ = std::min(phase_end_, clock_.now() + kGraceWithCause);
}

void JobWatch::Advance() {
  const Clock::time_point now = clock_.now();
  if (phase_ == Phase::kRunning) {
    if (hooks_.cancel != nullptr && hooks_.cancel->load()) {
      return Stop(v1::OUTCOME_CANCELLED, "cancelled");
    }
    AskToFinish();
    if (!exchange_ && request_.time_limit.count() > 0 && now - counted_from_ > request_.time_limit) {
      return Stop(v1::OUTCOME_TIMED_OUT,
                  fmt::format("not finished within the time limit of {:g} s", request_.time_limit.count()));
    }
    if (!exchange_ && request_.stall_limit.count() > 0 && request_.ranks.front().rank() == 0 &&
        now - progressed_ > request_.stall_limit) {
      return Stop(v1::OUTCOME_TIMED_OUT, fmt::format("no progress for {:g} s", request_.stall_limit.count()));
    }
    const bool all =
        std::all_of(states_.begin(), states_.end(), [](const auto& s) { return s.result.complete(); });
    if (all && !all_results_) all_results_ = now;
    if (all_results_ && now - *all_results_ > kEndLimit) {
      for (std::size_t place = 0; place < links_.size(); ++place) {
        if (links_[place].ended()) continue;
        Fail(place, RankFailure{.rank = NumberOf(place),
                                .kind = v1::FAILURE_KIND_PROCESS,
                                .message = "does not end after its result"});
      }
    }
    return;
  }
  if (now < phase_end_) return;
  if (phase_ == Phase::kFailing) {
    supervisor_.Terminate();
    SetPhase(Phase::kTerminating, kTerminateLimit);
  } else {
    supervisor_.Kill();
    SetPhase(Phase::kKilling, kTerminateLimit);
  }
}

void JobWatch::AskToFinish() {
  if (asked_to_finish_ || !hooks_.finish || !hooks_.finish()) return;
  asked_to_finish_ = true;
  v1::LauncherMessage message;
  message.mutable_stop();
  const auto frame = RankLink::MakeFrame(message);
  if (!frame.ok()) return Conclude({.message = std::string(frame.status().message())});
  for (RankLink& link : links_) link.Queue(*frame);
}

void JobWatch::Stop(v1::Outcome outcome, std::string message) {
  stopped_ = true;
  result_.outcome = outcome;
  result_.message = std::move(message);
  supervisor_.Terminate();
  SetPhase(Phase::kTerminating, kTerminateLimit);
}

void JobWatch::SetPhase(Phase phase, milliseconds limit) {
  phase_ = phase;
  phase_end_ = clock_.now() + limit;
}

bool JobWatch::AllEnded() const {
  return std::all_of(links_.begin(), links_.end(), [](const RankLink& link) { return link.ended(); }) &&
         std::all_of(states_.begin(), states_.begin() + static_cast<std::ptrdiff_t>(links_.size()),
                     [](const RankState& state) { return state.judged; });
}

void JobWatch::Finish() {
  exchange_.reset();
  supervisor_.Finish();
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    RankState& state = states_[rank];
    RankEnd end;
    if (state.error.has_error()) {
      end.last = std::move(state.error);
    } else if (state.result.complete()) {
      end.last = state.result.Take();
    }
    if (rank < links_.size()) {
      RankLink& link = links_[rank];
      link.DrainLog();
      end.exit_status = link.exit_status().value_or(0);
      end.log_tail = link.log_tail();
      end.failed = state.failed_first;
      end.finished = state.result.complete() && !state.failed && link.exit_status() == 0;
    }
    result_.ranks.push_back(std::move(end));
  }
  if (!stopped_) {
    if (verdict_.failed()) {
      verdict_.Tell(result_);
    } else {
      result_.outcome = v1::OUTCOME_MEASURED;
    }
  }
  result_.wall_s = std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace autocfg::worker
