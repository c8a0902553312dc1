// Tests that pieces of a ring never overlap and that room is found whenever there is some.
#include "kernels/cuda/device/ring_places.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <random>

namespace autocfg::cuda {
namespace {

constexpr std::int64_t kUnit = RingPlaces::kAlignment, kBytes = 16 * kUnit;

TEST(RingPlaces, WrapAround) {
  RingPlaces ring(kBytes);
  EXPECT_EQ(ring.Take(8 * kUnit), 0);
  EXPECT_EQ(ring.Take(6 * kUnit - 1), 8 * kUnit);
  EXPECT_EQ(ring.Take(3 * kUnit), std::nullopt) << "two are left at the end, none at the start";
  ring.GiveBackOldest();
  EXPECT_EQ(ring.Take(3 * kUnit), 0) << "in a row, so not at the end";
  EXPECT_EQ(ring.Take(5 * kUnit), 3 * kUnit);
  EXPECT_EQ(ring.Take(1), std::nullopt) << "full up to the oldest";
  ring.GiveBackOldest();
  EXPECT_EQ(ring.Take(1), 8 * kUnit);
}

TEST(RingPlaces, OnePieceMayUseTheWholeRing) {
  RingPlaces ring(kBytes);
  EXPECT_EQ(ring.Take(kBytes), 0);
  EXPECT_EQ(ring.Take(0), std::nullopt);
  ring.GiveBackOldest();
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.Take(0), 0) << "nothing has a place, too";
  EXPECT_EQ(ring.Take(0), kUnit);
  EXPECT_EQ(ring.Take(kBytes), std::nullopt);
  ring.GiveBackOldest();
  ring.GiveBackOldest();
  EXPECT_EQ(ring.Take(kBytes), 0);
}

TEST(RingPlaces, NeverOverlap) {
  struct Piece {
    std::int64_t begin, end;
  };
  std::mt19937 random(7);
  RingPlaces ring(kBytes);
  std::deque<Piece> taken;
  int full = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto bytes = static_cast<std::int64_t>(random() % (i % 3 == 0 ? kBytes : 2 * kUnit)) + 1;
    const auto at = ring.Take(bytes);
    if (at) {
      ASSERT_EQ(*at % kUnit, 0);
      ASSERT_GE(*at, 0);
      ASSERT_LE(*at + bytes, kBytes);
      for (const Piece& piece : taken) ASSERT_TRUE(*at + bytes <= piece.begin || piece.end <= *at);
      taken.push_back({*at, *at + bytes});
    } else {
      ++full;
      ASSERT_FALSE(taken.empty()) << "an empty ring has room for all that it may be asked for";
    }
    if (!at || random() % 4 == 0) {
      ring.GiveBackOldest();
      taken.pop_front();
    }
  }
  EXPECT_GT(full, 1000);
}

}  // namespace
}  // namespace autocfg::cuda
