// What computes do not hide of the collectives of units: small cases by hand, and random ones against a
// simulation that is written another way.
#include "search/cost/unit_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace autocfg {
namespace {

double StreamedSeconds(const std::vector<UnitSeconds>& blocks, UnitOverlap overlap) {
  return TimeOfStream(blocks, overlap).seconds;
}
double ReductionsAfter(double earlier_s, const std::vector<UnitSeconds>& blocks, double contention = 0) {
  return TimeAfterComputes(earlier_s, blocks, contention).seconds;
}
double WaitForGathers(const std::vector<GatheredUnit>& units, double contention = 0) {
  return TimeOfGathers(units, contention).seconds;
}

constexpr UnitOverlap kNeither = {}, kGathers{.gathers = true}, kReduces{.reduces = true},
                      kBoth{.gathers = true, .reduces = true};

TEST(StreamedSeconds, WithoutOverlapIsTheSum) {
  EXPECT_EQ(StreamedSeconds({}, kNeither), 0);
  EXPECT_EQ(StreamedSeconds({}, kBoth), 0);
  EXPECT_EQ(StreamedSeconds({{1, 2, 4, 8}, {16, 32, 64, 128}, {256, 512, 1024, 2048}}, kNeither), 4095);
}

// Nothing hides the collectives of a single block.
TEST(StreamedSeconds, OneBlockIsTheSum) {
  for (const UnitOverlap overlap : {kNeither, kGathers, kReduces, kBoth})
    EXPECT_EQ(StreamedSeconds({{1, 2, 4, 8}}, overlap), 15);
}

// A unit is gathered while the block before it runs, never earlier.
TEST(StreamedSeconds, GathersOneUnitAhead) {
  EXPECT_EQ(StreamedSeconds({{2, 5}, {3, 5}, {3, 5}}, kGathers), 2 + 5 + 5 + 5) << "hidden";
  EXPECT_EQ(StreamedSeconds({{2, 5}, {9, 5}, {3, 5}}, kGathers), 2 + 9 + 5 + 5) << "longer than the block";
  EXPECT_EQ(StreamedSeconds({{2, 50}, {3, 5}, {9, 5}}, kGathers), 2 + 50 + 9 + 5)
      << "the third is not gathered in the first block";
}

// A block whose unit is there already issues no gather. The next gather is issued in the block before it that
// waits for one.
TEST(StreamedSeconds, GathersPassBlocksWithout) {
  EXPECT_EQ(StreamedSeconds({{0, 5}, {3, 5}}, kGathers), 5 + 5) << "the first gather runs from the begin on";
  EXPECT_EQ(StreamedSeconds({{0, 5}, {9, 5}}, kGathers), 9 + 5);
  EXPECT_EQ(StreamedSeconds({{2, 5}, {0, 7}, {12, 5}}, kGathers), 2 + 5 + 7 + 5);
  EXPECT_EQ(StreamedSeconds({{2, 5}, {0, 7}, {13, 5}}, kGathers), 2 + 13 + 5);
  EXPECT_EQ(StreamedSeconds({{2, 5}, {0, 7}, {13, 5}}, kNeither), 2 + 5 + 7 + 13 + 5);
}

// Reductions run one after the other behind the computes. The action ends with the last of them.
TEST(StreamedSeconds, ReducesBehindComputes) {
  EXPECT_EQ(StreamedSeconds({{0, 5, 3}, {0, 5, 3}}, kReduces), 5 + 5 + 3);
  EXPECT_EQ(StreamedSeconds({{0, 5, 9}, {0, 5, 3}}, kReduces), 5 + 9 + 3) << "the second waits for the first";
  EXPECT_EQ(StreamedSeconds({{0, 5, 9}, {0, 5, 3}}, kGathers), 5 + 9 + 5 + 3);
}

TEST(StreamedSeconds, ThirdBlockWaitsForTheBufferOfTheFirst) {
  EXPECT_EQ(StreamedSeconds({{0, 5, 20}, {0, 5, 1}, {0, 5, 1}}, kReduces), 5 + 20 + 5 + 1)
      << "the reduction of the second runs in the third";
  EXPECT_EQ(StreamedSeconds({{0, 5, 10}, {0, 5, 20}, {0, 5, 1}}, kReduces), 5 + 10 + 20 + 1)
      << "it does not wait for that of the second";
  EXPECT_EQ(StreamedSeconds({{0, 5, 20}, {0, 5, 1}, {0, 5}}, kReduces), 5 + 20 + 1)
      << "a block that reduces nothing needs no buffer";
}

// Sums are added when their buffer is needed, and at the end.
TEST(StreamedSeconds, AddsWhereBuffersAreNeeded) {
  EXPECT_EQ(StreamedSeconds({{0, 5, 2, 1}, {0, 5, 2, 1}, {0, 5, 2, 1}}, kReduces),
            5 + 5 + 1 + 5 + (1 + 1) + 1)
      << "the add of the second runs beside the last reduction";
  EXPECT_EQ(StreamedSeconds({{0, 5, 8, 1}, {0, 5, 2, 1}, {0, 5, 2, 1}}, kReduces), 5 + 8 + 1 + 5 + 2 + 1);
  EXPECT_EQ(StreamedSeconds({{0, 5, 8, 1}, {0, 5, 2, 1}}, kReduces), 5 + 8 + 2 + 1)
      << "the first add runs in the second reduction";
}

// Collectives run in the order in which they are issued: a gather waits for a reduction before it.
TEST(StreamedSeconds, GathersAndReductionsShareALane) {
  EXPECT_EQ(StreamedSeconds({{1, 5, 7}, {1, 5, 7}, {4, 5, 7}}, kBoth), 1 + 5 + 7 + 4 + 7 + 7)
      << "the third gather follows the first reduction, and the second reduction that gather";
  EXPECT_EQ(StreamedSeconds({{1, 5, 7}, {1, 5, 7}}, kReduces), 1 + 5 + 7 + 1 + 5 + 7)
      << "a gather that is not issued ahead waits for the reduction";
}

// A step of one rank as a list of instructions, and the tasks that they become on two lanes. Tasks depend on
// tasks; their times are the least that satisfy all dependencies, found by iteration.
class TwoLanes {
 public:
  enum Lane : std::size_t { kCompute, kCollective };

  std::size_t Add(Lane lane, double seconds, std::vector<std::size_t> after) {
    const std::size_t task = tasks_.size();
    if (!in_lane_[lane].empty()) after.push_back(in_lane_[lane].back());  // lanes run in order
    tasks_.push_back({seconds, std::move(after), 0});
    in_lane_[lane].push_back(task);
    return task;
  }
  // What has been given to the computes so far: a collective is issued once it has run.
  std::vector<std::size_t> Issued() const {
    if (in_lane_[kCompute].empty()) return {};
    return {in_lane_[kCompute].back()};
  }

  double End() {
    // Backwards through the list, so that one pass does not suffice.
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = tasks_.size(); i-- > 0;) {
        Task& task = tasks_[i];
        double start_s = 0;
        for (const std::size_t before : task.after)
          start_s = std::max(start_s, tasks_[before].start_s + tasks_[before].seconds);
        changed = changed || start_s != task.start_s;
        task.start_s = start_s;
      }
    }
    if (in_lane_[kCompute].empty()) return 0;
    const Task& last = tasks_[in_lane_[kCompute].back()];
    return last.start_s + last.seconds;
  }

 private:
  struct Task {
    double seconds;
    std::vector<std::size_t> after;
    double start_s;
  };
  std::vector<Task> tasks_;
  std::vector<std::size_t> in_lane_[2];
};

double SimulatedSeconds(const std::vector<UnitSeconds>& blocks, UnitOverlap overlap) {
  TwoLanes lanes;
  std::vector<std::size_t> gathering;  // the blocks that gather
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].gather_s > 0) gathering.push_back(i);
  }
  std::vector<std::size_t> gathers(blocks.size()), reductions(blocks.size());  // tasks
  std::vector<bool> open(blocks.size());                                       // reduced, not added
  const auto gather = [&](std::size_t block) {
    gathers[block] = lanes.Add(TwoLanes::kCollective, blocks[block].gather_s, lanes.Issued());
  };
  const auto add = [&](std::size_t block) {
    lanes.Add(TwoLanes::kCompute, blocks[block].add_s, {reductions[block]});
    open[block] = false;
  };
  if (overlap.gathers && !gathering.empty()) gather(gathering.front());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (const auto own = std::find(gathering.begin(), gathering.end(), i); own != gathering.end()) {
      if (!overlap.gathers) gather(i);
      lanes.Add(TwoLanes::kCompute, 0, {gathers[i]});
      if (overlap.gathers && own + 1 != gathering.end()) gather(*(own + 1));
    }
    const bool reduces = blocks[i].reduce_s > 0;
    for (std::size_t earlier = 0; earlier < i && reduces; ++earlier) {
      if (open[earlier] && (i - earlier) % 2 == 0) add(earlier);
    }
    lanes.Add(TwoLanes::kCompute, blocks[i].compute_s, {});
    if (!reduces) continue;
    reductions[i] = lanes.Add(TwoLanes::kCollective, blocks[i].reduce_s, lanes.Issued());
    open[i] = true;
    if (!overlap.reduces) add(i);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (open[i]) add(i);
  }
  return lanes.End();
}

double AllSeconds(const std::vector<UnitSeconds>& blocks) {
  double seconds = 0;
  for (const UnitSeconds& b : blocks) seconds += b.gather_s + b.compute_s + b.reduce_s + b.add_s;
  return seconds;
}

// As in the actions of a plan, the last block reduces if any does.
std::vector<UnitSeconds> RandomBlocks(std::mt19937_64& random) {
  const auto seconds = [&](double most) { return most * static_cast<double>(1 + random() % 1000) / 1000; };
  const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
  const double messages = one_in(2) ? 0.3 : 3;  // that hide, and hardly
  const bool gathers = !one_in(4), reduces = !one_in(4);
  std::vector<UnitSeconds> blocks(1 + random() % 9);
  for (UnitSeconds& block : blocks) {
    block.compute_s = seconds(1);
    if (gathers && !one_in(4)) block.gather_s = seconds(messages);
    if (reduces && (!one_in(4) || &block == &blocks.back())) {
      block.reduce_s = seconds(messages);
      block.add_s = one_in(2) ? seconds(0.2) : 0;
    }
  }
  return blocks;
}

TEST(StreamedSeconds, EqualsASimulation) {
  std::mt19937_64 random(31);
  int hidden = 0;
  for (int i = 0; i < 600; ++i) {
    const std::vector<UnitSeconds> blocks = RandomBlocks(random);
    const double sum_s = AllSeconds(blocks);
    EXPECT_NEAR(StreamedSeconds(blocks, kNeither), sum_s, 1e-12 * sum_s);
    for (const UnitOverlap overlap : {kNeither, kGathers, kReduces, kBoth}) {
      const double want_s = SimulatedSeconds(blocks, overlap);
      ASSERT_NEAR(StreamedSeconds(blocks, overlap), want_s, 1e-12 * want_s)
          << "list " << i << ", gathers " << overlap.gathers << ", reduces " << overlap.reduces;
      hidden += want_s < sum_s * 0.99;
    }
  }
  EXPECT_GT(hidden, 1000) << "of 1800 with overlap";
}

TEST(ReductionsAfter, WhatFollowsTheComputes) {
  EXPECT_EQ(ReductionsAfter(0, {}), 0);
  EXPECT_EQ(ReductionsAfter(7, {}), 7);
  EXPECT_EQ(ReductionsAfter(0, {{0, 5, 2}, {0, 5, 2}, {0, 5, 2}}), 2) << "the last one follows its block";
  EXPECT_EQ(ReductionsAfter(0, {{0, 5, 2}, {0, 5, 2}, {0, 5}}), 0);
  EXPECT_EQ(ReductionsAfter(0, {{0, 5, 9}, {0, 5, 9}, {0, 5, 9}}), 5 + 3 * 9 - 15);
  EXPECT_EQ(ReductionsAfter(14, {{0, 5, 2}, {0, 5, 2}, {0, 5, 2}}), 14 + 3 * 2 - 15)
      << "earlier ones come first";
  EXPECT_EQ(ReductionsAfter(4, {{0, 5, 2}, {0, 5, 2}, {0, 5, 2}}), 2)
      << "earlier ones run in the first block";
  EXPECT_EQ(ReductionsAfter(16, {{0, 5}, {0, 5}}), 6);
  EXPECT_EQ(ReductionsAfter(8, {{0, 5}, {0, 5}}), 0);
}

// The reductions need no buffers: any number of them may be in flight.
TEST(ReductionsAfter, EqualsASimulation) {
  std::mt19937_64 random(32);
  for (int i = 0; i < 300; ++i) {
    const std::vector<UnitSeconds> blocks = RandomBlocks(random);
    const double earlier_s = random() % 2 == 0 ? 0 : static_cast<double>(random() % 1000) / 300;
    TwoLanes lanes;
    lanes.Add(TwoLanes::kCollective, earlier_s, {});
    double compute_s = 0;
    for (const UnitSeconds& block : blocks) {
      lanes.Add(TwoLanes::kCompute, block.compute_s, {});
      compute_s += block.compute_s;
      if (block.reduce_s > 0) lanes.Add(TwoLanes::kCollective, block.reduce_s, lanes.Issued());
    }
    lanes.Add(TwoLanes::kCompute, 0, {lanes.Add(TwoLanes::kCollective, 0, {})});
    const double end_s = lanes.End();
    ASSERT_NEAR(ReductionsAfter(earlier_s, blocks), end_s - compute_s, 1e-12 * end_s) << "list " << i;
  }
}

// A compute of 10 s beside collectives of 4 s loses 2 s to them if they take half of their time.
TEST(SecondsBeside, TakesItsShareOfHiddenTime) {
  EXPECT_EQ(SecondsBeside(10, 4, 0.5), 12);
  EXPECT_EQ(SecondsBeside(10, 0, 0.5), 10);
  EXPECT_EQ(SecondsBeside(10, -3, 0.5), 10) << "they ended before";
  EXPECT_EQ(SecondsBeside(10, 50, 0.5), 20) << "at half its speed to its end";
  EXPECT_EQ(SecondsBeside(10, 20, 0.5), 20);
  EXPECT_EQ(SecondsBeside(10, 50, 0), 10);
  EXPECT_EQ(SecondsBeside(10, 50, 1), 60) << "no overlap at all";
  EXPECT_EQ(SecondsBeside(0, 50, 1), 50);
}

UnitOverlap Contended(UnitOverlap overlap, double contention) {
  overlap.contention = contention;
  return overlap;
}

TEST(StreamedSeconds, HiddenCollectivesTakeFromComputes) {
  // The gathers of the last two blocks, 3 s each, and nothing else is hidden.
  EXPECT_EQ(StreamedSeconds({{2, 5}, {3, 5}, {3, 5}}, Contended(kGathers, 0.5)),
            2 + (5 + 1.5) + (5 + 1.5) + 5);
  // The gather of 9 s ends 2 + 9 s after the begin. The compute beside it runs at half its speed for those
  // 9 s, and would need 10 s at that speed.
  EXPECT_EQ(StreamedSeconds({{2, 5}, {9, 5}}, Contended(kGathers, 0.5)), 2 + (5 + 4.5) + 5);
  EXPECT_EQ(StreamedSeconds({{2, 4}, {9, 5}}, Contended(kGathers, 0.5)), 2 + 9 + 5) << "exposed in part";
  EXPECT_EQ(StreamedSeconds({{0, 5, 3}, {0, 5, 3}}, Contended(kReduces, 0.5)), 5 + (5 + 1.5) + 3);
}

// Between all hidden and nothing hidden, and the more the larger the share.
TEST(StreamedSeconds, ContentionIsBetweenOverlapAndNone) {
  std::mt19937_64 random(33);
  int slower = 0;
  for (int i = 0; i < 600; ++i) {
    const std::vector<UnitSeconds> blocks = RandomBlocks(random);
    const double sum_s = AllSeconds(blocks);
    for (const UnitOverlap overlap : {kNeither, kGathers, kReduces, kBoth}) {
      double before_s = StreamedSeconds(blocks, overlap);
      for (const double contention : {0.25, 0.5, 0.75, 1.0}) {
        const double seconds = StreamedSeconds(blocks, Contended(overlap, contention));
        EXPECT_GE(seconds, before_s * (1 - 1e-12)) << "list " << i << ", " << contention;
        EXPECT_LE(seconds, sum_s * (1 + 1e-12)) << "list " << i << ", " << contention;
        slower += seconds > before_s * 1.001;
        before_s = seconds;
      }
    }
  }
  EXPECT_GT(slower, 1000);
}

TEST(ReductionsAfter, HiddenReductionsTakeFromComputes) {
  // Two of three reductions of 2 s run beside computes, which end 2 s later; the last one follows.
  EXPECT_EQ(ReductionsAfter(0, {{0, 5, 2}, {0, 5, 2}, {0, 5, 2}}, 0.5), 2 * 1 + 2);
  EXPECT_EQ(ReductionsAfter(8, {{0, 5}, {0, 5}}, 0.5), 4) << "all of them hidden";
  EXPECT_EQ(ReductionsAfter(30, {{0, 5}, {0, 5}}, 0.5), 20) << "computes at half their speed end first";
  std::mt19937_64 random(34);
  for (int i = 0; i < 300; ++i) {
    const std::vector<UnitSeconds> blocks = RandomBlocks(random);
    double reduced_s = 0;
    for (const UnitSeconds& block : blocks) reduced_s += block.reduce_s;
    const double none_s = ReductionsAfter(0, blocks), half_s = ReductionsAfter(0, blocks, 0.5);
    EXPECT_GE(half_s, none_s * (1 - 1e-12));
    EXPECT_LE(half_s, ReductionsAfter(0, blocks, 1) + 1e-12);
    EXPECT_NEAR(ReductionsAfter(0, blocks, 1), reduced_s, 1e-9) << "as if nothing were hidden";
  }
}

// What is waited for is part of what is added; the rest of that is taken from the computes beside the others.
TEST(OverlapTime, WhatIsAddedIsWaitedForOrTakenFromComputes) {
  std::mt19937_64 random(20261127);
  for (int i = 0; i < 300; ++i) {
    const std::vector<UnitSeconds> blocks = RandomBlocks(random);
    double alone_s = 0, total_s = 0;
    for (const UnitSeconds& block : blocks) {
      alone_s += block.compute_s + (block.reduce_s > 0 ? block.add_s : 0);
      total_s += block.gather_s + block.reduce_s;
    }
    for (const double contention : {0.0, 0.3}) {
      const OverlapTime time =
          TimeOfStream(blocks, {.gathers = true, .reduces = true, .contention = contention});
      const double added_s = time.seconds - alone_s, hidden_s = total_s - time.waited_s;
      EXPECT_GE(time.waited_s, 0);
      EXPECT_GE(hidden_s, -1e-9);
      EXPECT_GE(added_s, time.waited_s - 1e-9);
      EXPECT_LE(added_s, time.waited_s + contention * hidden_s + 1e-9) << "sums of gradients lose nothing";
    }
    EXPECT_NEAR(TimeOfStream(blocks, kNeither).waited_s, total_s, 1e-9);
  }
}

TEST(OverlapTime, OfReductionsAndGathers) {
  EXPECT_EQ(TimeOfGathers({{3, 0}, {2, 4}, {2, 8}}, 0.5).waited_s, 3);
  // The first compute ends at 4; the second takes 5 / (1 - 0.2) beside the reduction of 10.
  const OverlapTime after = TimeAfterComputes(0, {{0, 4, 10}, {0, 5, 0}}, 0.2);
  EXPECT_DOUBLE_EQ(after.waited_s, 10 - 6.25);
  EXPECT_DOUBLE_EQ(after.seconds, 4 + 10 - 9);
}

TEST(WaitForGathers, HiddenGathersTakeFromForwards) {
  EXPECT_EQ(WaitForGathers({{3, 0}, {2, 4}, {2, 8}}, 0.5), 3 + 0.5 * 4) << "3 s of 7 are waited for";
  EXPECT_EQ(WaitForGathers({{3, 0}}, 0.5), 3) << "none is hidden";
}

TEST(WaitForGathers, NoForwardWaits) {
  EXPECT_EQ(WaitForGathers({}), 0);
  EXPECT_EQ(WaitForGathers({{3, 0}}), 3);
  EXPECT_EQ(WaitForGathers({{3, 4}}), 0);
  EXPECT_EQ(WaitForGathers({{3, 0}, {2, 4}, {2, 8}}), 3) << "the later ones arrive in time";
  EXPECT_EQ(WaitForGathers({{3, 0}, {7, 4}, {2, 8}}), 6) << "the second is the latest";
  EXPECT_EQ(WaitForGathers({{3, 0}, {7, 4}, {20, 8}, {1, 90}}), 22) << "they run one after the other";
}

// It is the least delay with which no unit is late.
TEST(WaitForGathers, IsTheLeastThatSuffices) {
  std::mt19937_64 random(33);
  for (int i = 0; i < 300; ++i) {
    std::vector<GatheredUnit> units(random() % 8);
    double needed_s = 0;
    for (GatheredUnit& unit : units) {
      unit = {.gather_s = static_cast<double>(random() % 100), .needed_s = needed_s};
      needed_s += static_cast<double>(random() % 100);
    }
    const auto suffices = [&](double wait_s) {
      double end_s = 0;
      return std::all_of(units.begin(), units.end(), [&](const GatheredUnit& unit) {
        end_s += unit.gather_s;
        return end_s <= wait_s + unit.needed_s;
      });
    };
    double wait_s = 0;  // in whole seconds, as all times are
    while (!suffices(wait_s)) ++wait_s;
    EXPECT_EQ(WaitForGathers(units), wait_s) << "list " << i;
  }
}

}  // namespace
}  // namespace autocfg
