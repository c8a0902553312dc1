#include "server/store/placement.h"

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

// The store's suite tests each rule. This test checks them on random fleets against all subsets.
TEST(Placement, IsCompleteMinimalAndFairOnRandomFleets) {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int placed = 0;
  int shared = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<PlacementWorker> workers(static_cast<std::size_t>(pick(0, 6)));
    for (PlacementWorker& worker : workers) {
      worker.host = pick(0, 1) ? "one" : "two";
      worker.kind = pick(0, 3) ? DeviceKind::kCpu : DeviceKind::kCuda;
      worker.slots = pick(1, 5);
      worker.free = pick(0, static_cast<int>(worker.slots));
      worker.draining = pick(0, 5) == 0;
      worker.waiting = pick(0, 2) > 0;
      worker.closed = pick(0, 5) == 0;
    }
    PlacementJob job;
    job.ranks = pick(1, 8);
    if (pick(0, 2)) job.needs = DeviceKind::kCpu;
    if (pick(0, 3) == 0) job.avoid.insert("one");
    const Placement placement = Place(job, workers);

    std::int64_t all = 0;
    std::int64_t elsewhere = 0;
    const auto fit = [&](const PlacementWorker& w) {
      return !w.draining && (!job.needs || w.kind == DeviceKind::kCpu);
    };
    for (const PlacementWorker& w : workers) {
      if (!fit(w)) continue;
      all += w.slots;
      if (!job.avoid.contains(w.host)) elsewhere += w.slots;
    }
    const bool avoids = elsewhere >= job.ranks;
    const auto able = [&](const PlacementWorker& w) {
      return fit(w) && !(avoids && job.avoid.contains(w.host));
    };
    ASSERT_EQ(placement.nobody.empty(), all >= job.ranks);
    // The smallest number of workers, over all sets that can run it now.
    int fewest = 99;
    for (unsigned set = 1; set < (1u << workers.size()); ++set) {
      std::int64_t free = 0;
      bool can = true;
      for (std::size_t i = 0; i < workers.size(); ++i) {
        if ((set >> i & 1u) == 0) continue;
        can = can && able(workers[i]) && workers[i].waiting && !workers[i].closed;
        free += workers[i].free;
      }
      if (can && free >= job.ranks) fewest = std::min(fewest, std::popcount(set));
    }
    if (all < job.ranks) {
      ASSERT_TRUE(placement.shares.empty() && placement.able.empty());
      continue;
    }
    if (fewest == 99) {
      ASSERT_TRUE(placement.shares.empty());
      std::vector<std::size_t> expected;
      for (std::size_t i = 0; i < workers.size(); ++i) {
        if (able(workers[i])) expected.push_back(i);
      }
      ASSERT_EQ(placement.able, expected);
      continue;
    }
    ++placed;
    ASSERT_EQ(placement.shares.size(), static_cast<std::size_t>(fewest));
    ASSERT_TRUE(placement.able.empty());
    std::int64_t ranks = 0;
    for (const PlacedShare& share : placement.shares) {
      const PlacementWorker& worker = workers[share.worker];
      ASSERT_TRUE(able(worker) && worker.waiting && !worker.closed);
      ASSERT_GT(share.ranks, 0);
      ASSERT_LE(share.ranks, worker.free);
      ranks += share.ranks;
    }
    ASSERT_EQ(ranks, job.ranks);
    if (fewest > 1) {
      ++shared;
    } else {
      for (const PlacementWorker& w : workers) {
        if (able(w) && w.waiting && !w.closed && w.free >= job.ranks) {
          ASSERT_LE(workers[placement.shares[0].worker].free, w.free);
        }
      }
    }
  }
  EXPECT_GT(placed, 500);
  EXPECT_GT(shared, 50);
}

TEST(Placement, NeedsWorkersOfTheKind) {
  PlacementWorker worker;
  worker.kind = DeviceKind::kCpu;
  worker.slots = worker.free = 2;
  worker.waiting = true;
  EXPECT_EQ(
      Place({.ranks = 2, .needs = DeviceKind::kCpu, .fewer_ranks = false, .avoid = {}}, std::vector{worker})
          .shares.size(),
      1u);
  const Placement none =
      Place({.ranks = 2, .needs = DeviceKind::kCuda, .fewer_ranks = false, .avoid = {}}, std::vector{worker});
  EXPECT_TRUE(none.shares.empty());
  EXPECT_EQ(none.nobody, "no cuda worker is running; start one");
  worker.kind = std::nullopt;  // unknown: only for jobs that run on any worker
  EXPECT_TRUE(
      Place({.ranks = 2, .needs = DeviceKind::kCpu, .fewer_ranks = false, .avoid = {}}, std::vector{worker})
          .shares.empty());
  EXPECT_EQ(
      Place({.ranks = 2, .needs = {}, .fewer_ranks = false, .avoid = {}}, std::vector{worker}).shares.size(),
      1u);
}

TEST(Placement, SaysWhatAJobWaitsFor) {
  std::vector<PlacementWorker> workers(2);
  workers[0].slots = workers[1].slots = 4;
  workers[0].free = 1;
  const std::vector<std::size_t> able = {0, 1};
  const PlacementJob job{.ranks = 4, .needs = DeviceKind::kCpu, .fewer_ranks = false, .avoid = {}};
  EXPECT_EQ(WhyBusy(job, workers, able, std::vector<std::string>{"studies/3"}),
            "its next job needs 4 slots of cpu workers; 1 is free; it waits for the jobs of studies/3");
  EXPECT_EQ(
      WhyBusy({.ranks = 9, .needs = {}, .fewer_ranks = true, .avoid = {}}, workers, able,
              std::vector<std::string>{"studies/1", "studies/2", "studies/3", "studies/4"}),
      "its next job needs an idle worker; it waits for the jobs of studies/1, studies/2, studies/3 and 1 "
      "other study");
  workers[1].free = 3;
  EXPECT_EQ(WhyBusy(job, workers, able, std::vector<std::string>{"studies/3"}),
            "its next job needs 4 slots of cpu workers; 4 are free; it waits until they are offered");
  EXPECT_EQ(WhyKept("studies/7"),
            "its next job waits its turn: a job of studies/7 comes first on the workers for it");
}

TEST(Placement, JobsEndBeforeTheirWorkersLeave) {
  const PlacementWorker stays{.host = "stays", .slots = 2, .free = 2, .waiting = true};
  PlacementWorker leaves{.host = "leaves", .slots = 2, .free = 2, .waiting = true, .left_s = 100};
  const std::vector<PlacementWorker> both = {leaves, stays};
  const auto on = [&](const PlacementJob& job) {
    std::vector<std::size_t> workers;
    for (const PlacedShare& share : Place(job, both).shares) workers.push_back(share.worker);
    return workers;
  };
  EXPECT_EQ(on({.ranks = 2, .needs_s = 100}), std::vector<std::size_t>{0});
  EXPECT_EQ(on({.ranks = 2, .needs_s = 101}), std::vector<std::size_t>{1});
  EXPECT_EQ(on({.ranks = 4, .needs_s = 100}), (std::vector<std::size_t>{0, 1})) << "a gang of both";
  EXPECT_EQ(on({.ranks = 4, .needs_s = 101}), std::vector<std::size_t>());
  EXPECT_EQ(on({.ranks = 2, .needs_s = std::numeric_limits<double>::infinity()}),
            std::vector<std::size_t>{1});
  EXPECT_EQ(Place({.ranks = 4, .needs_s = 101}, both).nobody,
            "its next job needs 4 slots of workers, but those that take jobs have 2; start more workers");
  const std::vector<PlacementWorker> one = {leaves};
  EXPECT_EQ(Place({.ranks = 2, .needs_s = 101}, one).nobody,
            "every running worker leaves before its next job must have ended; start another");
  EXPECT_EQ(Place({.ranks = 2, .needs = DeviceKind::kCuda, .needs_s = 101}, one).nobody,
            "no cuda worker is running; start one");
  leaves.waiting = false;
  const std::vector<PlacementWorker> busy = {leaves};
  EXPECT_TRUE(Place({.ranks = 2, .needs_s = 101}, busy).able.empty()) << "it is not kept for the job";
}

// A job of an engine goes to workers that offer it, and says what is missing.
TEST(Placement, EnginesAreOffered) {
  PlacementWorker plain{.host = "plain", .slots = 4, .free = 4, .waiting = true};
  PlacementWorker offering = plain;
  offering.host = "offering";
  offering.engines = {"megatron", "nemo"};
  const PlacementJob job{.ranks = 2, .needs = DeviceKind::kCpu, .engine = "megatron"};
  const std::vector<PlacementWorker> both = {plain, offering};
  const Placement placed = Place(job, both);
  ASSERT_EQ(placed.shares.size(), 1u);
  EXPECT_EQ(placed.shares[0].worker, 1u);
  const std::vector<PlacementWorker> none = {plain};
  EXPECT_EQ(
      Place(job, none).nobody,
      "no running cpu worker offers engine megatron; start one with --engines DIR and a file of that engine "
      "in it");
  PlacementJob large = job;
  large.ranks = 6;
  EXPECT_EQ(
      Place(large, both).nobody,
      "its next job needs 6 slots of cpu workers with engine megatron, but those that take jobs have 4; "
      "start more workers");
  const std::vector<PlacementWorker> twice = {offering, offering};
  EXPECT_EQ(Place(large, twice).shares.size(), 2u);
  EXPECT_EQ(Place({.ranks = 2}, none).shares.size(), 1u) << "the built-in engine is everywhere";
  const std::vector<std::size_t> able = {1};
  EXPECT_THAT(WhyBusy(job, both, able, {}), testing::HasSubstr("workers with engine megatron; 4 are free"));
}

}  // namespace
}  // namespace autocfg::server
