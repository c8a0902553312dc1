#include "server/store/placement.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg::server {
namespace {

// Returns whether the worker could run the job if it stayed for long.
bool IsFor(const PlacementWorker& worker, const PlacementJob& job) {
  return (!job.needs || worker.kind == job.needs) &&
         (job.engine.empty() || worker.engines.contains(job.engine));
}

bool CanRun(const PlacementWorker& worker, const PlacementJob& job) {
  return IsFor(worker, job) && job.needs_s <= worker.left_s;
}

std::string WorkerOf(const PlacementJob& job) {
  return job.needs ? fmt::format("{} worker", Name(*job.needs)) : "worker";
}

// Returns " with engine NAME" if the job needs one.
std::string EngineOf(const PlacementJob& job) {
  return job.engine.empty() ? "" : fmt::format(" with engine {}", job.engine);
}

std::string SlotsNeeded(const PlacementJob& job) {
  return fmt::format("its next job needs {} slot{} of {}s{}", job.ranks, job.ranks == 1 ? "" : "s",
                     WorkerOf(job), EngineOf(job));
}

std::int64_t SlotsOf(std::span<const PlacementWorker> workers, const std::vector<std::size_t>& which) {
  std::int64_t slots = 0;
  for (const std::size_t i : which) slots += workers[i].slots;
  return slots;
}

bool Suffice(const PlacementJob& job, std::int64_t slots) {
  return slots >= (job.fewer_ranks ? 1 : job.ranks);
}

std::string WhyNobody(const PlacementJob& job, std::span<const PlacementWorker> workers,
                      const std::vector<std::size_t>& able) {
  const std::string worker = WorkerOf(job);
  if (!able.empty()) {
    return fmt::format("{}, but those that take jobs have {}; start more workers", SlotsNeeded(job),
                       SlotsOf(workers, able));
  }
  const bool draining = std::any_of(workers.begin(), workers.end(),
                                    [&](const PlacementWorker& w) { return w.draining && CanRun(w, job); });
  const bool leaving = std::any_of(workers.begin(), workers.end(),
                                   [&](const PlacementWorker& w) { return !w.draining && IsFor(w, job); });
  const std::string engine = EngineOf(job);
  if (leaving && !draining) {
    return fmt::format("every running {}{} leaves before its next job must have ended; start another", worker,
                       engine);
  }
  if (draining) return fmt::format("every running {}{} is draining; start another", worker, engine);
  if (engine.empty()) return fmt::format("no {} is running; start one", worker);
  return fmt::format(
      "no running {} offers engine {}; start one with --engines DIR and a file of that engine in it", worker,
      job.engine);
}

// A worker among those that a job may run on, and how many of its slots the job may have.
struct Offer {
  std::size_t worker = 0;
  std::int64_t free = 0;
  std::int64_t slots = 0;
  bool idle = false;
};

// Chooses as few workers as possible. Empty if all of them together are not enough.
std::vector<PlacedShare> Shared(std::int64_t ranks, std::vector<Offer> offers) {
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer& a, const Offer& b) { return a.free > b.free; });
  std::vector<PlacedShare> shares;
  for (const Offer& offer : offers) {
    if (ranks == 0 || offer.free <= 0) break;
    shares.push_back({offer.worker, std::min(ranks, offer.free)});
    ranks -= shares.back().ranks;
  }
  if (ranks > 0) shares.clear();
  return shares;
}

// Chooses among the offers by the rules of LeaseJobs. Empty if they are not enough.
std::vector<PlacedShare> Choose(const PlacementJob& job, const std::vector<Offer>& offers) {
  const Offer* best = nullptr;
  for (const Offer& offer : offers) {
    if (offer.free < job.ranks || (best != nullptr && best->free <= offer.free)) continue;
    best = &offer;
  }
  if (best != nullptr) return {{best->worker, job.ranks}};
  if (!job.fewer_ranks) return Shared(job.ranks, offers);
  for (const Offer& offer : offers) {
    const bool whole = offer.idle && offer.free >= std::min(job.ranks, offer.slots);
    if (!whole || (best != nullptr && best->slots >= offer.slots)) continue;
    best = &offer;
  }
  if (best == nullptr) return {};
  return {{best->worker, std::min(job.ranks, best->slots)}};
}

// Returns the slots that are free at `time_s`, if nothing else starts.
std::int64_t FreeAt(const PlacementWorker& worker, double time_s) {
  std::int64_t free = worker.slots;
  for (const auto& [end_s, ranks] : worker.ends) {
    if (end_s > time_s) free -= ranks;
  }
  return free;
}

std::int64_t FreeFor(const PlacementJob& job, const PlacementWorker& worker) {
  if (worker.kept == 0 || job.ends_s <= worker.kept_from_s) return worker.free;
  return std::clamp<std::int64_t>(FreeAt(worker, worker.kept_from_s) - worker.kept, 0, worker.free);
}

// Returns "studies/1, studies/2 and 3 other studies".
std::string Listed(std::span<const std::string> studies) {
  constexpr std::size_t kMostNamed = 3;
  const std::size_t named = std::min(studies.size(), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(studies.first(named), ", "));
  if (const std::size_t more = studies.size() - named; more > 0)
    text += fmt::format(" and {} other stud{}", more, more == 1 ? "y" : "ies");
  return text;
}

}  // namespace

Placement Place(const PlacementJob& job, std::span<const PlacementWorker> workers) {
  Placement placement;
  std::vector<std::size_t> able;
  std::vector<std::size_t> elsewhere;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].draining || !CanRun(workers[i], job)) continue;
    able.push_back(i);
    if (!job.avoid.contains(workers[i].host)) elsewhere.push_back(i);
  }
  if (Suffice(job, SlotsOf(workers, elsewhere))) able = std::move(elsewhere);
  if (!Suffice(job, SlotsOf(workers, able))) {
    placement.nobody = WhyNobody(job, workers, able);
    return placement;
  }

  std::vector<Offer> offers;
  for (const std::size_t i : able) {
    const PlacementWorker& worker = workers[i];
    if (!worker.waiting || worker.closed) continue;
    offers.push_back({i, FreeFor(job, worker), worker.slots, worker.free >= worker.slots});
  }
  placement.shares = Choose(job, offers);
  if (placement.shares.empty()) placement.able = std::move(able);
  return placement;
}

void Take(const PlacementJob& job, const std::vector<PlacedShare>& shares,
          std::span<PlacementWorker> workers) {
  for (const PlacedShare& share : shares) {
    PlacementWorker& worker = workers[share.worker];
    worker.waiting = false;
    worker.free -= share.ranks;
    worker.ends.emplace_back(std::min(job.ends_s, std::numeric_limits<double>::max()), share.ranks);
  }
}

bool KeepSlots(const PlacementJob& job, const std::vector<std::size_t>& able, double now_s,
               std::span<PlacementWorker> workers) {
  std::vector<double> times = {now_s};
  for (const std::size_t i : able) {
    if (workers[i].kept_from_s < std::numeric_limits<double>::infinity()) return false;
    for (const auto& [end_s, ranks] : workers[i].ends) times.push_back(std::max(now_s, end_s));
  }
  std::sort(times.begin(), times.end());
  const auto shares_at = [&](double time_s) {
    std::vector<Offer> offers;
    for (const std::size_t i : able) {
      const std::int64_t free = FreeAt(workers[i], time_s);
      offers.push_back({i, free, workers[i].slots, free >= workers[i].slots});
    }
    return Choose(job, offers);
  };
  // The later, the more is free; in the end everything.
  const auto first = std::partition_point(times.begin(), times.end(),
                                          [&](double time_s) { return shares_at(time_s).empty(); });
  const double from_s = first == times.end() ? times.back() : *first;
  for (const std::size_t i : able) workers[i].kept_from_s = from_s;
  for (const PlacedShare& share : shares_at(from_s)) workers[share.worker].kept = share.ranks;
  return true;
}

std::string WhyBusy(const PlacementJob& job, std::span<const PlacementWorker> workers,
                    std::span<const std::size_t> able, std::span<const std::string> studies) {
  std::int64_t free = 0;
  for (const std::size_t i : able) free += workers[i].free;
  const bool enough = studies.empty() || (!job.fewer_ranks && free >= job.ranks);
  const std::string until = enough ? "it waits until they are offered"
                                   : fmt::format("it waits for the jobs of {}", Listed(studies));
  if (job.fewer_ranks)
    return fmt::format("its next job needs an idle {}{}; {}", WorkerOf(job), EngineOf(job), until);
  return fmt::format("{}; {} {} free; {}", SlotsNeeded(job), free, free == 1 ? "is" : "are", until);
}

std::string WhyKept(const std::string& study) {
  return fmt::format("its next job waits its turn: a job of {} comes first on the workers for it", study);
}

}  // namespace autocfg::server
