#include "tests/support/covering_array.h"

#include <gtest/gtest.h>

#include <random>

namespace autocfg::test {
namespace {

const auto kAnything = [](const Case&) { return true; };
const auto kFree = [](const Case&) { return 0; };

std::vector<Case> LegalCases(const std::vector<int>& sizes, const std::function<bool(const Case&)>& legal) {
  std::vector<Case> cases;
  ForEachLegalCase(sizes, legal, [&](const Case& c) { cases.push_back(c); });
  return cases;
}

std::set<ChoicePair> PairsOfAll(const std::vector<Case>& cases) {
  std::set<ChoicePair> pairs;
  for (const Case& c : cases) pairs.merge(PairsOf(c));
  return pairs;
}

TEST(ForEachLegalCase, VisitsAllCombinationsInOrder) {
  EXPECT_EQ(LegalCases({2, 3}, kAnything),
            (std::vector<Case>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(LegalCases({2, 2}, [](const Case& c) { return c[0] != c[1]; }),
            (std::vector<Case>{{0, 1}, {1, 0}}));
}

TEST(PairwiseCases, CoverEveryPairWithFewCases) {
  const std::vector<int> sizes = {3, 4, 2, 3, 2};
  const std::vector<Case> cases = PairwiseCases(sizes, kAnything, kFree);
  // Written out instead of calling the function's helpers: 3*4 + 3*2 + 3*3 + 3*2 + 4*2 + 4*3 + 4*2 + 2*3 +
  // 2*2 + 3*2.
  EXPECT_EQ(PairsOfAll(cases).size(), 12u + 6 + 9 + 6 + 8 + 12 + 8 + 6 + 4 + 6);
  EXPECT_GE(cases.size(), 12u);  // two axes alone need as many
  EXPECT_LE(cases.size(), 18u);
}

TEST(PairwiseCases, AreLegalAndCoverEveryLegalPair) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> sizes;
    for (int axis = 0; axis < 5; ++axis) sizes.push_back(1 + static_cast<int>(random() % 4));
    std::set<Case> forbidden;
    for (const Case& c : LegalCases(sizes, kAnything)) {
      if (random() % 3 == 0) forbidden.insert(c);
    }
    const auto legal = [&](const Case& c) { return !forbidden.contains(c) && !(c[0] == 1 && c[1] == 0); };
    const std::vector<Case> cases = PairwiseCases(sizes, legal, kFree);
    for (const Case& c : cases) EXPECT_TRUE(legal(c));
    EXPECT_EQ(PairsOfAll(cases), PairsOfAll(LegalCases(sizes, legal)));
    EXPECT_EQ(std::set<Case>(cases.begin(), cases.end()).size(), cases.size()) << "a case comes twice";
  }
}

TEST(PairwiseCases, PreferTheCheaperOfEqualCases) {
  const std::vector<Case> cases =
      PairwiseCases({2, 2}, kAnything, [](const Case& c) { return -c[0] - c[1]; });
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases.front(), (Case{1, 1}));
}

TEST(PairwiseCases, AreEmptyIfNothingIsLegal) {
  EXPECT_TRUE(PairwiseCases(
                  {2, 2}, [](const Case&) { return false; }, kFree)
                  .empty());
}

}  // namespace
}  // namespace autocfg::test
