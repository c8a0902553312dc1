#include "server/sched/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/os/log_fields.h"
#include "base/os/process.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/log_fields.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

// A worker that holds leases has a call parked nearly always. Without any for kQuietS, the wait is shown; the
// number changes every kQuietStepS, so that watchers are not told each second.
constexpr double kQuietS = 5;
constexpr double kQuietStepS = 10;

absl::Status Superseded(const WorkerSession& session) {
  return absl::FailedPreconditionError(
      fmt::format("session {} of {} has ended: a newer one has begun", session.epoch, session.worker));
}

// What lines about a lost lease are about.
base::LogFields FieldsOf(const EndedLease& lease) {
  base::LogFields fields = FieldsOfJob(lease.job);
  fields.worker = lease.session.worker;
  return fields;
}

// Describes the state of the job of a lost lease, for the log.
std::string WhatBecame(const EndedLease& lease) {
  if (lease.state == v1::TRIAL_STATE_QUEUED) return "the job is queued again";
  if (lease.state == v1::TRIAL_STATE_RUNNING) return "the job's other workers are told to stop";
  return fmt::format("the job has ended {}", ShortName(lease.state));
}

std::chrono::duration<double> ToSeconds(absl::Duration duration) {
  return std::chrono::duration<double>(absl::ToDoubleSeconds(duration));
}

std::string TextOf(const absl::Status& status) {
  return status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

}  // namespace

Dispatcher::Dispatcher(Store& store, base::Clock clock, DispatcherOptions options)
    : store_(store),
      clock_(std::move(clock)),
      options_(std::move(options)),
      presence_(options_.lease_duration_s, options_.broken_grace),
      lateness_(options_.lease_duration_s / 2) {
  NoteRegistered();
  thread_ = std::thread([this] { Loop(); });
}

Dispatcher::~Dispatcher() { Close(); }

void Dispatcher::LookSoon() {
  changed_ = true;
  wakeup_.Set();
}

void Dispatcher::StoreChanged() {
  absl::MutexLock lock(&mutex_);
  LookSoon();
  ++changes_;
}

void Dispatcher::Ended(const WorkerSession& session, bool broke) {
  presence_.Unparked(session, broke, clock_(), SteadyNow());
}

CallId Dispatcher::Poll(const PollRequest& request, PollAnswer answer) {
  const auto reject = [&](const absl::Status& status) {
    answer(status);
    return CallId{0};
  };
  if (absl::Status status = store_.CheckSession(request.session); !status.ok()) return reject(status);
  if (request.held) {
    if (absl::Status status = store_.KeepOnly(request.session, *request.held, clock_()); !status.ok())
      return reject(status);
  }
  const auto worker = store_.GetWorker(request.session.worker);
  if (!worker.ok()) return reject(worker.status());
  const Work nothing{.lease = std::nullopt, .drain = worker->draining};
  Answers answers;
  absl::MutexLock lock(&mutex_);
  const double now_s = clock_();
  if (closed_) {
    answers.Add(std::move(answer), CoordinatorClosing());
  } else if (!presence_.Heard(request.session, now_s)) {
    answers.Add(std::move(answer), Superseded(request.session));
  } else if (worker->draining && presence_.TellDrainToPoll(request.session)) {
    answers.Add(std::move(answer), nothing);
  } else {
    presence_.Works(request.session, now_s);
    presence_.Parked(request.session);
    const auto [id, displaced] = polls_.Put(
        request.session.worker, {request.session, nothing, std::move(answer)}, SteadyIn(request.wait));
    if (displaced) End(*displaced, nothing, answers);
    LookSoon();
    return id;
  }
  return 0;
}

CallId Dispatcher::Renew(const RenewRequest& request, const RenewAnswer& answer) {
  std::uint64_t changes = 0;
  {
    absl::MutexLock lock(&mutex_);
    changes = changes_;
  }
  const auto command = store_.RenewLease(request.session.worker, request.session.epoch, request.lease_id,
                                         request.fencing_token, clock_(), options_.lease_duration_s);
  if (!command.ok()) {
    answer(command.status());
    return 0;
  }
  Answers answers;
  absl::MutexLock lock(&mutex_);
  if (closed_) {
    answers.Add(answer, CoordinatorClosing());
    return 0;
  }
  const double now_s = clock_();
  if (!presence_.Heard(request.session, now_s)) {
    answers.Add(answer, Superseded(request.session));
    return 0;
  }
  presence_.Works(request.session, now_s);
  if (request.wait <= absl::ZeroDuration() || *command == v1::LEASE_COMMAND_CANCEL ||
      (*command == v1::LEASE_COMMAND_DRAIN && presence_.TellDrainToRenewal(request.session))) {
    answers.Add(answer, *command);
    return 0;
  }
  presence_.Parked(request.session);
  const auto [id, displaced] =
      renewals_.Put(request.lease_id, {request.session, *command, answer}, SteadyIn(request.wait));
  if (displaced) End(*displaced, displaced->otherwise, answers);
  if (changes_ != changes) LookSoon();  // the renewal's answer may be outdated
  return id;
}

template <typename Calls>
void Dispatcher::CallerGone(Calls& calls, CallId id, bool broke) {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  const auto call = calls.TakeById(id);
  if (!call) return;
  End(*call, absl::CancelledError("the worker is gone"), answers, broke);
  LookSoon();
}

void Dispatcher::PollerGone(CallId id, bool broke) { CallerGone(polls_, id, broke); }

void Dispatcher::RenewerGone(CallId id, bool broke) { CallerGone(renewals_, id, broke); }

void Dispatcher::Undelivered(const Lease& lease) {
  base::LogFields fields = FieldsOfJob(lease.job.name());
  fields.worker = lease.session.worker;
  fields.lease = lease.lease_id;
  const base::LogScope scope(std::move(fields));
  spdlog::info("{}: lease {} did not reach {}; its job is queued again", lease.job.name(), lease.lease_id,
               lease.session.worker);
  if (absl::Status status = store_.ReturnLease(lease.lease_id, lease.fencing_token, clock_()); !status.ok())
    spdlog::error("lease {} cannot be returned; it will expire: {}", lease.lease_id, TextOf(status));
}

template <typename Which>
void Dispatcher::EndCalls(Which which, const absl::StatusOr<Work>& polls,
                          const absl::StatusOr<v1::LeaseCommand>& renewals, Answers& answers) {
  const auto selected = [&which](const auto& call, SteadyTime) { return which(call.session); };
  for (const ParkedPoll& poll : polls_.TakeIf(selected)) End(poll, polls, answers);
  for (const ParkedRenewal& renewal : renewals_.TakeIf(selected)) End(renewal, renewals, answers);
}

void Dispatcher::Registered(const WorkerSession& session) {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  presence_.Heard(session, clock_());
  const absl::Status over = Superseded({session.worker, session.epoch - 1});
  EndCalls(
      [&](const WorkerSession& each) { return each.worker == session.worker && each.epoch < session.epoch; },
      over, over, answers);
  LookSoon();
}

void Dispatcher::Deregistered(const WorkerSession& session) {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  EndCalls([&](const WorkerSession& each) { return each == session; }, Work{},
           absl::FailedPreconditionError(fmt::format("{} has deregistered", session.worker)), answers);
  presence_.Forget(session);
  LookSoon();
}

void Dispatcher::Drains(const std::string& worker) {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  polls_.ForEach([&](const std::string&, const ParkedPoll& poll) {
    if (poll.session.worker == worker) presence_.TellDrainToPoll(poll.session);
  });
  renewals_.ForEach([&](const std::string&, const ParkedRenewal& renewal) {
    if (renewal.session.worker == worker) presence_.TellDrainToRenewal(renewal.session);
  });
  EndCalls([&](const WorkerSession& each) { return each.worker == worker; },
           Work{.lease = std::nullopt, .drain = true}, v1::LEASE_COMMAND_DRAIN, answers);
}

void Dispatcher::Heard(const WorkerSession& session) {
  absl::MutexLock lock(&mutex_);
  presence_.Heard(session, clock_());
}

Presence::Seen Dispatcher::Seen(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  return presence_.Find(worker, clock_());
}

std::string Dispatcher::Waiting(std::int64_t study) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::string known = reasons_.Find(study); !known.empty()) return known;
  }
  const auto workers = store_.WorkersOn(study);
  return workers.ok() ? QuietText(*workers) : "";
}

std::string Dispatcher::QuietText(const std::vector<std::string>& workers) {
  if (workers.empty()) return "";
  double quiet_s = std::numeric_limits<double>::infinity();
  {
    absl::MutexLock lock(&mutex_);
    const double now_s = clock_();
    for (const std::string& worker : workers) quiet_s = std::min(quiet_s, presence_.QuietFor(worker, now_s));
  }
  if (quiet_s < kQuietS) return "";
  const double shown_s = quiet_s < kQuietStepS ? kQuietS : std::floor(quiet_s / kQuietStepS) * kQuietStepS;
  const std::string who = workers.size() == 1
                              ? fmt::format("{} has", workers.front())
                              : fmt::format("{} and {} other{} have", workers.front(), workers.size() - 1,
                                            workers.size() == 2 ? "" : "s");
  return fmt::format(
      "{} not been heard of for {:.0f} s; the job is given out again once the lease has run out", who,
      shown_s);
}

std::size_t Dispatcher::parked() {
  absl::MutexLock lock(&mutex_);
  return polls_.size() + renewals_.size();
}

void Dispatcher::Close() {
  {
    Answers answers;
    absl::MutexLock lock(&mutex_);
    if (std::exchange(closed_, true)) return;
    wakeup_.Set();
    closing_.Set();
    EndCalls([](const WorkerSession&) { return true; }, CoordinatorClosing(), CoordinatorClosing(), answers);
  }
  thread_.join();
}

void Dispatcher::NoteRegistered() {
  const auto workers = store_.ListWorkers("", std::numeric_limits<int>::max(), /*gone=*/false);
  if (!workers.ok()) {
    spdlog::warn("cannot read the registered workers: {}", std::string(workers.status().message()));
    return;
  }
  absl::MutexLock lock(&mutex_);
  for (const WorkerRecord& worker : *workers) presence_.Note(worker.session, clock_());
}

void Dispatcher::Loop() {
  const auto closed = [this] {
    absl::MutexLock lock(&mutex_);
    return closed_;
  };
  const std::chrono::duration<double> period = ToSeconds(options_.look_period);
  base::NameThread("dispatcher");
  while (!closed()) {
    Look();
    ++rounds_;
    // A failing store signals changes too; this pause prevents a busy loop.
    if (!last_error_.ok() && closing_.Wait(period)) return;
    SteadyTime next;
    {
      absl::MutexLock lock(&mutex_);
      next = std::min({polls_.NextDeadline(), renewals_.NextDeadline(), presence_.NextLoss()});
    }
    const SteadyTime now = SteadyNow();
    wakeup_.Wait(std::min<std::chrono::duration<double>>(period, std::max(next, now) - now));
  }
}

void Dispatcher::ExcuseWorkers() {
  // Two periods: a failing store makes a pause of one more.
  const double late_s = lateness_.Check(options_.elapsing(), 2 * absl::ToDoubleSeconds(options_.look_period));
  if (late_s <= 0) return;
  absl::MutexLock lock(&mutex_);
  presence_.Excuse(late_s, clock_(), SteadyNow());
}

void Dispatcher::Look() {
  ExcuseWorkers();
  std::vector<WorkerSession> lost;
  std::vector<WorkerSession> silent;
  std::vector<WorkerSession> abandoned;
  bool renewing = false;
  const SteadyTime now = SteadyNow();
  {
    absl::MutexLock lock(&mutex_);
    lost = presence_.TakeLost(now);
    silent = presence_.TakeSilent(clock_());
    abandoned = presence_.TakeAbandoned(clock_(), options_.abandoned_s);
    renewing = !renewals_.empty();
  }
  for (const WorkerSession& session : silent) {
    const base::LogScope scope({.worker = session.worker});
    spdlog::warn("{} is silent: it has not called for more than {} s", session.worker,
                 options_.lease_duration_s);
  }
  DeregisterAbandoned(abandoned);
  LoseBroken(lost);
  HandOut();
  if (renewing) StopLeases();
  EndDue(now);
}

void Dispatcher::DeregisterAbandoned(const std::vector<WorkerSession>& abandoned) {
  for (const auto& [worker, epoch] : abandoned) {
    const base::LogScope scope({.worker = worker});
    if (absl::Status status = store_.DeregisterWorker(worker, epoch, clock_()); status.ok()) {
      spdlog::warn("{} is gone: it has not called for {} s", worker, options_.abandoned_s);
    } else {
      spdlog::warn("{} is silent but cannot be deregistered: {}", worker, std::string(status.message()));
      if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status))
        continue;  // it is not that session's
      absl::MutexLock lock(&mutex_);
      presence_.Note({worker, epoch}, clock_());  // is tried again after as long
    }
  }
}

void Dispatcher::EndDue(SteadyTime now) {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  for (const ParkedPoll& poll : polls_.TakeDue(now)) End(poll, poll.otherwise, answers);
  for (const ParkedRenewal& renewal : renewals_.TakeDue(now)) End(renewal, renewal.otherwise, answers);
}

void Dispatcher::DismissPolls(const std::vector<EndedLease>& lost, Answers& answers) {
  absl::MutexLock lock(&mutex_);
  for (const EndedLease& lease : lost) {
    const ParkedPoll* parked = polls_.Find(lease.session.worker);
    if (parked == nullptr || parked->session != lease.session) continue;
    presence_.Dismissed(lease.session);
    answers.Add(parked->answer, parked->otherwise);
    polls_.Take(lease.session.worker);
  }
}

absl::Status Dispatcher::ExpireLeases(double now_s, bool away) {
  absl::StatusOr<std::vector<EndedLease>> ended;
  Answers answers;
  {
    absl::MutexLock handing_out(&hand_out_mutex_);
    ended = away ? store_.WithdrawExpired(now_s) : store_.ExpireLeases(now_s);
    if (!ended.ok()) return ended.status();
    DismissPolls(*ended, answers);
  }
  for (const EndedLease& lease : *ended) {
    const base::LogScope scope(FieldsOf(lease));
    spdlog::warn("{}: its lease on {} expired{}; {}", lease.session.worker, lease.job,
                 away ? " while no coordinator was running" : "", WhatBecame(lease));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Dispatcher::GrantAnew() {
  const double now_s = clock_();
  AUTOCFG_ASSIGN_OR_RETURN(const auto leases, store_.GrantAnew(now_s, options_.lease_duration_s));
  if (leases > 0) spdlog::info("{} held leases are granted anew", leases);
  return now_s + options_.lease_duration_s;
}

void Dispatcher::LoseBroken(const std::vector<WorkerSession>& lost) {
  for (const WorkerSession& session : lost) {
    absl::StatusOr<std::vector<EndedLease>> shares;
    Answers answers;
    {
      absl::MutexLock handing_out(&hand_out_mutex_);
      shares =
          store_.LoseGangShares(session, fmt::format("the connection to {} broke", session.worker), clock_());
      if (shares.ok()) DismissPolls(*shares, answers);
    }
    const base::LogScope of_worker({.worker = session.worker});
    if (!shares.ok()) {
      spdlog::error("{}: cannot end its leases early; they will expire: {}", session.worker,
                    TextOf(shares.status()));
      continue;
    }
    for (const EndedLease& share : *shares) {
      const base::LogScope scope(FieldsOf(share));
      spdlog::warn("{}: its connection broke, and its share of {} is lost; {}", session.worker, share.job,
                   WhatBecame(share));
    }
  }
}

void Dispatcher::Give(const std::optional<ParkedPoll>& poll, const Lease& lease) {
  if (!poll || !poll->answer(Work{.lease = lease, .drain = false})) Undelivered(lease);
}

Dispatcher::HandedOut Dispatcher::Assign(Answers& failed) {
  absl::MutexLock handing_out(&hand_out_mutex_);
  const double now_s = clock_();
  const bool keeps = turns_.Keeps(now_s);
  bool changed = std::exchange(keeps_, keeps) != keeps;
  std::vector<WorkerSession> waiting;
  {
    absl::MutexLock lock(&mutex_);
    changed = std::exchange(changed_, false) || changed;
    std::vector<WorkerSession> at_work = presence_.AtWork(now_s);
    if (at_work != at_work_) {
      at_work_ = std::move(at_work);
      changed = true;
    }
    polls_.ForEach([&](const std::string&, const ParkedPoll& poll) { waiting.push_back(poll.session); });
  }
  HandedOut handed_out;
  if (!changed) return handed_out;
  unexplained_ = true;
  if (waiting.empty()) return handed_out;
  auto assigned = store_.LeaseJobs(waiting, at_work_, now_s, options_.lease_duration_s, keeps);
  if (assigned.ok()) {
    turns_.Assigned(*assigned, now_s);
    // If the process was stopped meanwhile, these leases are old before they reach their workers.
    if (!assigned->leases.empty() && clock_() - now_s > options_.lease_duration_s / 2) {
      if (const auto granted = GrantAnew(); !granted.ok())
        spdlog::error("cannot grant leases anew; they may expire early: {}", TextOf(granted.status()));
    }
  }
  absl::MutexLock lock(&mutex_);
  if (!assigned.ok()) {
    if (assigned.status() != last_error_) spdlog::error("cannot assign work: {}", TextOf(assigned.status()));
    last_error_ = assigned.status();
    for (const WorkerSession& session : waiting) {
      if (const auto poll = polls_.Take(session.worker)) End(*poll, assigned.status(), failed);
    }
    return handed_out;
  }
  last_error_ = absl::OkStatus();
  for (Lease& lease : assigned->leases) {
    const ParkedPoll* waits = polls_.Find(lease.session.worker);
    auto poll = waits != nullptr && waits->session == lease.session ? polls_.Take(lease.session.worker)
                                                                    : std::nullopt;
    if (poll) Ended(poll->session);
    handed_out.polls.push_back(std::move(poll));
    handed_out.leases.push_back(std::move(lease));
  }
  return handed_out;
}

void Dispatcher::HandOut() {
  Answers failed;
  const HandedOut handed_out = Assign(failed);
  std::vector<std::int64_t> started;
  {
    absl::MutexLock lock(&mutex_);
    for (const Lease& lease : handed_out.leases) {
      if (reasons_.Started(lease.key.study)) started.push_back(lease.key.study);
    }
  }
  for (std::size_t i = 0; i < handed_out.leases.size(); ++i) Give(handed_out.polls[i], handed_out.leases[i]);
  Explain(std::move(started));
}

void Dispatcher::Explain(std::vector<std::int64_t> changed) {
  const SteadyTime now = SteadyNow();
  std::vector<WorkerSession> polling;
  bool due = now >= next_explanation_;
  {
    absl::MutexLock lock(&mutex_);
    due = due && (unexplained_ || reasons_.unsettled());
    if (due)
      polls_.ForEach([&](const std::string&, const ParkedPoll& poll) { polling.push_back(poll.session); });
  }
  if (due) {
    next_explanation_ = SteadyIn(options_.look_period);
    const auto waiting = store_.WaitingStudies(polling, at_work_, clock_(), keeps_);
    if (!waiting.ok() && waiting.status() != last_explain_error_)
      spdlog::error("cannot read why studies wait: {}", TextOf(waiting.status()));
    last_explain_error_ = waiting.status();
    if (waiting.ok()) {
      unexplained_ = false;
      absl::MutexLock lock(&mutex_);
      const std::vector<std::int64_t> others = reasons_.Update(*waiting, now);
      changed.insert(changed.end(), others.begin(), others.end());
    }
  }
  if (!changed.empty()) options_.on_waiting(changed);
}

void Dispatcher::StopLeases() {
  const auto stopping = store_.LeasesToStop();
  if (!stopping.ok()) {
    spdlog::error("cannot read the leases to stop; their workers learn of it at the next renewal: {}",
                  TextOf(stopping.status()));
    return;
  }
  Answers answers;
  absl::MutexLock lock(&mutex_);
  for (const std::string& lease : *stopping) {
    if (const auto renewal = renewals_.Take(lease)) End(*renewal, v1::LEASE_COMMAND_CANCEL, answers);
  }
}

}  // namespace autocfg::server
