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

// Chooses as few workers as possible. Empty if all of them together are not enough.
std::vector<PlacedShare> Shared(std::int64_t ranks, std::span<const PlacementWorker> workers,
                                std::vector<std::size_t> waiting) {
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](std::size_t a, std::size_t b) { return workers[a].free > workers[b].free; });
  std::vector<PlacedShare> shares;
  for (const std::size_t i : waiting) {
    if (ranks == 0 || workers[i].free <= 0) break;
    shares.push_back({i, std::min(ranks, workers[i].free)});
    ranks -= shares.back().ranks;
  }
  if (ranks > 0) shares.clear();
  return shares;
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

  std::vector<std::size_t> waiting;
  for (const std::size_t i : able) {
    if (workers[i].waiting && !workers[i].reserved) waiting.push_back(i);
  }
  const PlacementWorker* best = nullptr;
  for (const std::size_t i : waiting) {
    const PlacementWorker& worker = workers[i];
    if (worker.free < job.ranks || (best != nullptr && best->free <= worker.free)) continue;
    best = &worker;
    placement.shares = {{i, job.ranks}};
  }
  if (best == nullptr && job.fewer_ranks) {
    for (const std::size_t i : waiting) {
      const PlacementWorker& worker = workers[i];
      if (worker.free < worker.slots || (best != nullptr && best->slots >= worker.slots)) continue;
      best = &worker;
      placement.shares = {{i, std::min(job.ranks, worker.slots)}};
    }
  } else if (best == nullptr) {
    placement.shares = Shared(job.ranks, workers, std::move(waiting));
  }
  if (placement.shares.empty()) placement.reserves = std::move(able);
  return placement;
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
  return fmt::format("its next job waits its turn: the workers for it are kept for an older job of {}",
                     study);
}

}  // namespace autocfg::server
