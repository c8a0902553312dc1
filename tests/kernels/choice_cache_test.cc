// Tests that choices are made once per key and kept, and that the fastest candidate is chosen.
#include "kernels/cuda/matmul/choice_cache.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace autocfg::cuda {
namespace {

TEST(ChoiceCache, ChoosesOnceForEachKey) {
  ChoiceCache<int, std::string> cache;
  int asked = 0;
  const auto choose = [&] { return std::string("choice ") + std::to_string(++asked); };
  EXPECT_EQ(cache.Find(7, choose), "choice 1");
  EXPECT_EQ(cache.Find(7, choose), "choice 1");
  EXPECT_EQ(cache.Find(8, choose), "choice 2");
  EXPECT_EQ(cache.Find(7, choose), "choice 1");
  EXPECT_EQ(cache.size(), 2u);
}

TEST(ChoiceCache, RetriesAfterAFailedChoice) {
  ChoiceCache<int, int> cache;
  EXPECT_THROW(cache.Find(1, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.Find(1, [] { return 5; }), 5);
}

TEST(ChoiceCache, ReplacesWhatWasChosen) {
  ChoiceCache<int, int> cache;
  EXPECT_THROW(cache.Replace(1, 5), std::out_of_range);
  const int& first = cache.Find(1, [] { return 5; });
  cache.Replace(1, 6);
  EXPECT_EQ(first, 6);
  EXPECT_EQ(cache.Find(1, [] { return 7; }), 6);
}

TEST(ChoiceCache, ReferencesStayValid) {
  ChoiceCache<int, int> cache;
  const int& first = cache.Find(0, [] { return 42; });
  for (int i = 1; i < 1000; ++i) cache.Find(i, [i] { return i; });
  EXPECT_EQ(&first, &cache.Find(0, [] { return 0; }));
  EXPECT_EQ(first, 42);
}

TEST(Fastest, ReturnsTheFirstOfEquals) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto same = [](double s) { return s; };
  std::vector<double> none, never = {kNever, kNever}, some = {kNever, 3, 2, 2, 5};
  EXPECT_EQ(Fastest(none, same), -1);
  EXPECT_EQ(Fastest(never, same), -1);
  EXPECT_EQ(Fastest(some, same), 2);
}

}  // namespace
}  // namespace autocfg::cuda
