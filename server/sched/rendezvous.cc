#include "server/sched/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/names/names.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr std::size_t kMaxName = 200;
constexpr double kToleratedLateness = 1;  // seconds

absl::Status Stopping() {
  return absl::AbortedError(
      "the job is being stopped: another of its workers has ended, or it was cancelled");
}

// A share ends well only after its last gathering, so it joins no further one.
absl::Status OthersEnded() {
  return absl::FailedPreconditionError(
      "another worker of the job has ended, so the gathering can never be complete");
}

std::size_t BytesOf(const std::vector<std::string>& values) {
  std::size_t bytes = 0;
  for (const std::string& value : values) bytes += value.size();
  return bytes;
}

std::string Ranks(std::int32_t first, std::size_t ranks) {
  const auto last = first + static_cast<std::int64_t>(ranks) - 1;
  return last == first ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last);
}

}  // namespace

Rendezvous::Rendezvous(Store& store, RendezvousOptions options)
    : store_(store), options_(std::move(options)), thread_([this] { Loop(); }) {}

Rendezvous::~Rendezvous() { Close(); }

absl::Status Rendezvous::Bring(Attempt& attempt, const ShareOfAttempt& share, const JoinRequest& request) {
  const auto found = attempt.gatherings.find(request.sequence);
  if (found == attempt.gatherings.end()) {
    // The coordinator before this one may have answered gatherings that it could not store, and an older
    // version stored none: the first one here has any sequence.
    if (attempt.restored && request.sequence > attempt.gatherings.begin()->first + 1)
      attempt.gatherings.clear();
    const bool begun = !attempt.gatherings.empty();
    const std::int64_t newest = begun ? attempt.gatherings.rbegin()->first : 0;
    if (begun && request.sequence > newest &&
        (request.sequence != newest + 1 || !attempt.gatherings.rbegin()->second.complete)) {
      return absl::FailedPreconditionError(
          fmt::format("gathering {} is out of order: {} is in flight or the last", request.sequence, newest));
    }
    // Its values were dropped, or never kept. Who is at a later gathering has its answer and will not join
    // again.
    if (begun && request.sequence < newest)
      return absl::FailedPreconditionError(fmt::format(
          "gathering {} is over, and its values are gone: {} is the last", request.sequence, newest));
    attempt.restored = false;
    Gathering& made = attempt.gatherings[request.sequence];
    made.name = request.name;
    made.deadline = SteadyIn(options_.barrier);
  }
  Gathering& gathering = attempt.gatherings[request.sequence];
  if (gathering.name != request.name) {
    return absl::InvalidArgumentError(fmt::format(
        "gathering {}: {} joined '{}', but {} joined '{}'", request.sequence,
        Ranks(share.first_rank, request.values.size()), request.name,
        Ranks(gathering.values.begin()->first, gathering.values.begin()->second.size()), gathering.name));
  }
  if (const auto before = gathering.values.find(share.first_rank); before != gathering.values.end()) {
    if (before->second == request.values) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("gathering {}: {} sent different values before",
                                                  request.sequence,
                                                  Ranks(share.first_rank, request.values.size())));
  }
  const std::size_t bytes = BytesOf(request.values);
  if (gathering.bytes + bytes > options_.gathering_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("gathering {}: the values of all ranks together exceed {} bytes", request.sequence,
                    options_.gathering_bytes));
  }
  gathering.values.emplace(share.first_rank, request.values);
  gathering.bytes += bytes;
  gathering.ranks += share.ranks;
  return absl::OkStatus();
}

Values Rendezvous::Gathered(const std::map<std::int32_t, std::vector<std::string>>& values) {
  Values all;
  for (const auto& [first, some] : values) all.insert(all.end(), some.begin(), some.end());
  return all;
}

void Rendezvous::DropOld(Attempt& attempt) const {
  std::size_t kept = 0;
  for (const auto& [sequence, gathering] : attempt.gatherings)
    kept += gathering.complete ? gathering.bytes : 0;
  for (auto at = attempt.gatherings.begin();
       at != attempt.gatherings.end() && std::next(at) != attempt.gatherings.end();) {
    if (!at->second.complete) {
      ++at;
      continue;
    }
    if (kept <= options_.kept_bytes) return;
    kept -= at->second.bytes;
    at = attempt.gatherings.erase(at);
  }
}

Rendezvous::Attempt Rendezvous::Restored(const KeptGathering& kept) {
  Gathering gathering{.name = kept.name, .deadline = {}, .values = kept.values, .complete = true};
  for (const auto& [first, values] : kept.values) {
    gathering.ranks += static_cast<std::int32_t>(values.size());
    gathering.bytes += BytesOf(values);
  }
  Attempt attempt;
  attempt.gatherings.emplace(kept.sequence, std::move(gathering));
  attempt.restored = true;
  return attempt;
}

absl::Status Rendezvous::Enter(const AttemptKey& key, const LeaseKey& lease, const ShareOfAttempt& share) {
  const std::pair ranks(share.first_rank, share.ranks);
  {
    absl::MutexLock lock(&mutex_);
    if (const auto known = attempts_.find(key); known != attempts_.end()) {
      known->second.shares[lease] = ranks;
      return absl::OkStatus();
    }
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto kept, store_.FindGathering(share));
  absl::MutexLock lock(&mutex_);
  if (kept) attempts_.try_emplace(key, Restored(*kept));
  Attempt& attempt = attempts_[key];
  attempt.ranks = share.job_ranks;
  attempt.shares[lease] = ranks;
  return absl::OkStatus();
}

std::vector<JoinAnswer> Rendezvous::TakeCalls(const AttemptKey& key, std::int64_t sequence) {
  std::vector<JoinAnswer> answers;
  for (Waiting& call : waiting_.TakeIf(
           [&](const Waiting&each, SteadyTime) { return each.attempt == key && each.sequence == sequence; }))
    answers.push_back(std::move(call.answer));
  return answers;
}

Rendezvous::Full Rendezvous::Fill(const AttemptKey& key, std::int64_t sequence, Gathering& gathering) {
  gathering.storing = true;
  gathering.deadline = SteadyIn(options_.barrier);  // for repeated calls
  return {.gathering = {.name = gathering.name, .sequence = sequence, .values = gathering.values},
          .answers = TakeCalls(key, sequence)};
}

void Rendezvous::Complete(const ShareOfAttempt& share, Full full) {
  const AttemptKey key(share.job, share.attempt);
  const std::int64_t sequence = full.gathering.sequence;
  if (const absl::Status stored = store_.KeepGathering(share, full.gathering); !stored.ok()) {
    spdlog::warn(
        "{}, attempt {}: gathering {} is not stored, so the attempt may begin again if this coordinator ends "
        "before the next one: {}",
        JobName(share.study, share.trial), share.attempt, sequence, std::string(stored.message()));
  }
  {
    absl::MutexLock lock(&mutex_);
    std::vector<JoinAnswer> repeated = TakeCalls(key, sequence);
    std::move(repeated.begin(), repeated.end(), std::back_inserter(full.answers));
    if (const auto attempt = attempts_.find(key); attempt != attempts_.end()) {
      if (const auto found = attempt->second.gatherings.find(sequence);
          found != attempt->second.gatherings.end()) {
        found->second.storing = false;
        found->second.complete = true;
      }
      DropOld(attempt->second);
    }
  }
  const Values all = Gathered(full.gathering.values);
  for (const JoinAnswer& answer : full.answers) answer(all);
}

CallId Rendezvous::Join(const JoinRequest& request, JoinAnswer answer) {
  const auto reject = [&](const absl::Status& status) {
    answer(status);
    return CallId{0};
  };
  if (request.name.empty() || request.name.size() > kMaxName)
    return reject(absl::InvalidArgumentError(fmt::format("name must have 1 to {} bytes", kMaxName)));
  if (request.sequence < 0)
    return reject(
        absl::InvalidArgumentError(fmt::format("sequence is {}; it counts from 0", request.sequence)));
  if (BytesOf(request.values) > options_.share_bytes)
    return reject(absl::InvalidArgumentError(
        fmt::format("values have more than {} bytes in total", options_.share_bytes)));
  const auto share = store_.FindShare(request.lease_id, request.fencing_token);
  if (!share.ok()) return reject(share.status());
  if (share->stopping) return reject(Stopping());
  if (request.values.size() != static_cast<std::size_t>(share->ranks)) {
    return reject(absl::InvalidArgumentError(
        fmt::format("{} values for the {} rank(s) of the lease; send one value per rank",
                    request.values.size(), share->ranks)));
  }

  const AttemptKey key(share->job, share->attempt);
  const LeaseKey lease{request.lease_id, request.fencing_token};
  if (absl::Status status = Enter(key, lease, *share); !status.ok()) return reject(status);
  std::optional<Full> full;
  CallId id = 0;
  {
    Answers answers;
    absl::MutexLock lock(&mutex_);
    const auto known = attempts_.find(key);
    if (closed_) {
      answers.Add(std::move(answer), CoordinatorClosing());
    } else if (known == attempts_.end()) {
      answers.Add(std::move(answer), absl::FailedPreconditionError(
                                         fmt::format("lease {} is not held any more", lease.lease_id)));
    } else if (absl::Status status = Bring(known->second, *share, request); !status.ok()) {
      answers.Add(std::move(answer), status);
    } else if (Gathering& gathering = known->second.gatherings[request.sequence]; gathering.complete) {
      answers.Add(std::move(answer), Gathered(gathering.values));
    } else if (share->others_ended) {
      answers.Add(std::move(answer), OthersEnded());
    } else {
      auto placed = waiting_.Put(lease, {key, request.sequence, std::move(answer)}, gathering.deadline);
      id = placed.id;
      if (placed.displaced)
        answers.Add(std::move(placed.displaced->answer), absl::AbortedError("the call was repeated"));
      if (gathering.values.size() == 1) wakeup_.Set();  // it has a deadline now
      if (gathering.ranks == known->second.ranks && !gathering.storing)
        full = Fill(key, request.sequence, gathering);
    }
  }
  if (full) Complete(*share, *std::move(full));
  return id;
}

void Rendezvous::CallerGone(CallId id) {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  if (auto call = waiting_.TakeById(id))
    answers.Add(std::move(call->answer), absl::CancelledError("the worker is gone"));
}

void Rendezvous::StoreChanged() {
  absl::MutexLock lock(&mutex_);
  if (!attempts_.empty()) wakeup_.Set();
}

std::size_t Rendezvous::bytes() {
  absl::MutexLock lock(&mutex_);
  std::size_t bytes = 0;
  for (const auto& [key, attempt] : attempts_) {
    for (const auto& [sequence, gathering] : attempt.gatherings) bytes += gathering.bytes;
  }
  return bytes;
}

void Rendezvous::Close() {
  {
    Answers answers;
    absl::MutexLock lock(&mutex_);
    if (std::exchange(closed_, true)) return;
    wakeup_.Set();
    for (Waiting& call : waiting_.TakeAll()) answers.Add(std::move(call.answer), CoordinatorClosing());
  }
  thread_.join();
}

void Rendezvous::Loop() {
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kForever{std::numeric_limits<double>::infinity()};
  Lateness lateness(kToleratedLateness);
  while (true) {
    Seconds wait = kForever;
    SteadyTime next;
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return;
      if (!attempts_.empty()) wait = Seconds(absl::ToDoubleSeconds(options_.look_period));
      next = waiting_.NextDeadline();
    }
    const double late_s = lateness.Check(options_.elapsing(), wait.count());
    if (late_s > 0) PutOff(late_s);
    EndLate();
    EndBroken();
    const SteadyTime now = SteadyNow();
    wakeup_.Wait(std::min<Seconds>(wait, std::max(next, now) - now));
  }
}

void Rendezvous::PutOff(double late_s) {
  absl::MutexLock lock(&mutex_);
  waiting_.Postpone(absl::Seconds(late_s));
  for (auto& [key, attempt] : attempts_) {
    for (auto& [sequence, gathering] : attempt.gatherings)
      gathering.deadline += absl::ToChronoNanoseconds(absl::Seconds(late_s));
  }
}

void Rendezvous::EndLate() {
  Answers answers;
  absl::MutexLock lock(&mutex_);
  const SteadyTime now = SteadyNow();
  for (Waiting& call : waiting_.TakeDue(now)) {
    std::string text = "not all ranks joined in time";
    if (const auto attempt = attempts_.find(call.attempt); attempt != attempts_.end()) {
      if (const auto gathering = attempt->second.gatherings.find(call.sequence);
          gathering != attempt->second.gatherings.end()) {
        text = fmt::format("gathering {} ('{}'): {} of {} ranks joined within {}", call.sequence,
                           gathering->second.name, gathering->second.ranks, attempt->second.ranks,
                           absl::FormatDuration(options_.barrier));
      }
    }
    answers.Add(std::move(call.answer), absl::DeadlineExceededError(text));
  }
  for (auto& [key, attempt] : attempts_) {
    std::erase_if(attempt.gatherings, [&](const auto& each) {
      const Gathering& gathering = each.second;
      return !gathering.complete && !gathering.storing && gathering.deadline <= now;
    });
  }
}

void Rendezvous::EndBroken() {
  std::vector<LeaseKey> leases;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, attempt] : attempts_) {
      for (const auto& [lease, ranks] : attempt.shares) leases.push_back(lease);
    }
  }
  std::map<LeaseKey, absl::Status> over;
  std::vector<LeaseKey> gone;
  for (const LeaseKey& lease : leases) {
    const auto share = store_.FindShare(lease.lease_id, lease.fencing_token);
    if (share.ok() && share->stopping) over.emplace(lease, Stopping());
    if (share.ok() && share->others_ended) over.emplace(lease, OthersEnded());
    if (absl::IsFailedPrecondition(share.status())) {
      over.emplace(lease, share.status());
      gone.push_back(lease);
    }
  }
  Answers answers;
  absl::MutexLock lock(&mutex_);
  for (const auto& [lease, status] : over) {
    if (auto call = waiting_.Take(lease)) answers.Add(std::move(call->answer), status);
  }
  for (const LeaseKey& lease : gone) {
    for (auto& [key, attempt] : attempts_) attempt.shares.erase(lease);
  }
  std::erase_if(attempts_, [](const auto& each) { return each.second.shares.empty(); });
}

}  // namespace autocfg::server
