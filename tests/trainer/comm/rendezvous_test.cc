#include "trainer/comm/rendezvous.h"

#include <gtest/gtest.h>

#include <thread>

#include "trainer/comm/communicator.h"

namespace autocfg::trainer {
namespace {

TEST(LocalRendezvous, GathersFromAllRanks) {
  constexpr int kSize = 5;
  auto endpoints = CreateLocalRendezvous(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_EQ(endpoints[rank]->rank(), rank);
      EXPECT_EQ(endpoints[rank]->size(), kSize);
      for (int round = 0; round < 200; ++round) {
        const auto values = endpoints[rank]->AllGather("round", std::to_string(1000 * round + rank));
        ASSERT_EQ(values.size(), static_cast<std::size_t>(kSize));
        for (int r = 0; r < kSize; ++r) ASSERT_EQ(values[r], std::to_string(1000 * round + r));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(LocalRendezvous, TransfersArbitraryBytes) {
  auto endpoints = CreateLocalRendezvous(1);
  const std::string bytes("\0a\xff", 3);
  EXPECT_EQ(endpoints[0]->AllGather("x", bytes), std::vector<std::string>{bytes});
}

TEST(LocalRendezvous, LeavingRankReleasesTheOthers) {
  auto endpoints = CreateLocalRendezvous(2);
  std::thread waiting([&] { EXPECT_THROW(endpoints[0]->AllGather("x", ""), CommError); });
  endpoints[1].reset();
  waiting.join();
  EXPECT_THROW(endpoints[0]->AllGather("x", ""), CommError);
}

TEST(LocalRendezvous, DifferentNamesAreAnError) {
  auto endpoints = CreateLocalRendezvous(2);
  std::thread other([&] { EXPECT_THROW(endpoints[0]->AllGather("a", ""), CommError); });
  EXPECT_THROW(endpoints[1]->AllGather("b", ""), CommError);
  other.join();
}

}  // namespace
}  // namespace autocfg::trainer
