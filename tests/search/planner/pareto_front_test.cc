#include "search/planner/pareto_front.h"

#include <random>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

std::vector<std::size_t> Indices(const ParetoFront& front, std::size_t limit = 1000) {
  std::vector<std::size_t> indices;
  for (const ParetoFront::Point& point : front.Points(limit)) indices.push_back(point.index);
  return indices;
}

TEST(ParetoFront, KeepsWhatNoOtherBeats) {
  ParetoFront front;
  EXPECT_TRUE(front.Points(5).empty());
  front.Offer({2.0, 20, 0});
  front.Offer({3.0, 20, 1});  // slower
  front.Offer({2.0, 30, 2});  // takes more
  front.Offer({2.0, 20, 3});  // the same
  EXPECT_EQ(Indices(front), (std::vector<std::size_t>{0}));
  front.Offer({3.0, 10, 4});
  front.Offer({1.0, 90, 5});
  EXPECT_EQ(Indices(front), (std::vector<std::size_t>{5, 0, 4}));
  EXPECT_EQ(front.LeastMemory(), 10u);
  front.Offer({1.5, 15, 6});  // beats the first
  EXPECT_EQ(Indices(front), (std::vector<std::size_t>{5, 6, 4}));
  front.Offer({1.0, 10, 7});  // beats all
  EXPECT_EQ(Indices(front), (std::vector<std::size_t>{7}));
}

TEST(ParetoFront, EqualsAComparisonOfAllPairs) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<ParetoFront::Point> all;
    ParetoFront front;
    for (std::size_t i = 0; i < 60; ++i) {
      all.push_back({static_cast<double>(random() % 20), static_cast<std::uint32_t>(random() % 20), i});
      front.Offer(all.back());
    }
    std::vector<std::size_t> expected;
    for (const auto& a : all) {
      const bool beaten = std::any_of(all.begin(), all.end(), [&](const auto& b) {
        const bool same = a.seconds == b.seconds && a.memory == b.memory;
        return b.seconds <= a.seconds && b.memory <= a.memory && (!same || b.index < a.index);
      });
      if (!beaten) expected.push_back(a.index);
    }
    std::sort(expected.begin(), expected.end(),
              [&](std::size_t a, std::size_t b) { return all[a].seconds < all[b].seconds; });
    EXPECT_EQ(Indices(front), expected);
  }
}

TEST(ParetoFront, IsThinnedBetweenItsEnds) {
  ParetoFront front;
  for (std::size_t i = 0; i < 100; ++i)
    front.Offer({static_cast<double>(i), static_cast<std::uint32_t>(100 - i), i});
  EXPECT_EQ(Indices(front, 4), (std::vector<std::size_t>{0, 33, 66, 99}));
  EXPECT_EQ(Indices(front, 1), (std::vector<std::size_t>{0}));
  EXPECT_TRUE(Indices(front, 0).empty());
  EXPECT_EQ(Indices(front, 100).size(), 100u);
}

}  // namespace
}  // namespace autocfg
