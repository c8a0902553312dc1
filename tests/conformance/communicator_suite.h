// The contract of CommWorld and Communicator, as tests for every implementation that moves data. Ranks are
// threads. Include in one file of a test program and instantiate:
//
//   INSTANTIATE_TEST_SUITE_P(Ucx, CommunicatorSuite, CommunicatorImplementations("ucx", CreateUcxWorld),
//   CommunicatorCaseName);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "search/ops/memory_sizes.h"
#include "tests/conformance/rank_threads.h"
#include "trainer/comm/group.h"

namespace autocfg::trainer {

// The contribution of rank `rank` at `i`. Its sums over few ranks are exact in every type.
inline std::int32_t Contribution(int rank, std::int64_t i) {
  return static_cast<std::int32_t>((i * 7 + rank * 1013 + (i % 5) * rank) % 4001) - 2000;
}

struct CommunicatorCase {
  std::string name;
  WorldFactory factory;
  int size = 1;
};

inline auto CommunicatorImplementations(const std::string& name, const WorldFactory& factory) {
  std::vector<CommunicatorCase> cases;
  for (int size : {1, 2, 3, 4, 8}) cases.push_back({name, factory, size});
  return testing::ValuesIn(cases);
}

inline std::string CommunicatorCaseName(const testing::TestParamInfo<CommunicatorCase>& info) {
  return info.param.name + "_" + std::to_string(info.param.size);
}

class CommunicatorSuite : public testing::TestWithParam<CommunicatorCase> {
 protected:
  int size() const { return GetParam().size; }
  void Run(const std::function<void(RankContext&)>& body) { RunRanks(size(), GetParam().factory, body); }

  template <typename T>
  static void CheckAllReduce(RankContext& context, Group& group, std::int64_t n, ReduceOp op) {
    Buffer<T> buffer(n);
    for (std::int64_t i = 0; i < n; ++i) buffer.values[i] = static_cast<T>(Contribution(context.rank, i));
    group->AllReduce(buffer.tensor(), op, context.stream)->Wait();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      std::int32_t expected = Contribution(0, i);
      for (int r = 1; r < context.size; ++r) {
        const std::int32_t other = Contribution(r, i);
        expected = op == ReduceOp::kSum ? expected + other : std::max(expected, other);
      }
      wrong += buffer.values[i] != static_cast<T>(expected);
    }
    EXPECT_EQ(wrong, 0) << "rank " << context.rank << ", " << n << " elements of " << sizeof(T) << " bytes";
  }
};

TEST_P(CommunicatorSuite, KnowsItsPlace) {
  Run([](RankContext& c) {
    Group all(c, CommGroup::kWorld, AllRanks(c.size));
    EXPECT_EQ(all->rank(), c.rank);
    EXPECT_EQ(all->size(), c.size);
    const std::vector<std::int64_t> mine = {c.rank};
    Group alone(c, CommGroup::kTensor, mine);
    EXPECT_EQ(alone->rank(), 0);
    EXPECT_EQ(alone->size(), 1);
  });
}

// Lengths: zero, one, fewer than ranks, odd, around the switch between algorithms, larger than the staging.
TEST_P(CommunicatorSuite, AllReduce) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kData, AllRanks(c.size));
    const std::int64_t beyond = kCollectiveStagingBytes / 4 + 12345;
    for (std::int64_t n :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, std::int64_t{1023},
          std::int64_t{2048}, std::int64_t{4097}, std::int64_t{100003}}) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        CheckAllReduce<float>(c, group, n, op);
        CheckAllReduce<double>(c, group, n, op);
        CheckAllReduce<std::int32_t>(c, group, n, op);
      }
    }
    CheckAllReduce<float>(c, group, beyond, ReduceOp::kSum);
    CheckAllReduce<double>(c, group, beyond, ReduceOp::kMax);
    CheckAllReduce<std::int32_t>(c, group, 3 * beyond, ReduceOp::kSum);
  });
}

// Uses inexact sums, including NaN and infinities, so that the order of additions is visible.
TEST_P(CommunicatorSuite, SameBitsOnEveryRank) {
  for (std::int64_t n : {std::int64_t{5}, std::int64_t{1000}, std::int64_t{70001}}) {
    std::vector<std::vector<double>> results(size());
    Run([&](RankContext& c) {
      Group group(c, CommGroup::kWorld, AllRanks(c.size));
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        Buffer<double> buffer(n);
        for (std::int64_t i = 0; i < n; ++i)
          buffer.values[i] = std::sin(1e3 * c.rank + i) * std::exp(i % 37 - 18);
        const std::uint64_t nan = 0x7ff8000000000000u + c.rank;  // each rank's own NaN
        buffer.values[0] = std::bit_cast<double>(nan);
        buffer.values[1] = c.rank % 2 == 0 ? std::numeric_limits<double>::infinity() : -1.0;
        buffer.values[2] = c.rank % 2 == 0 ? 0.0 : -0.0;
        buffer.values[3] = c.rank == c.size - 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
        group->AllReduce(buffer.tensor(), op, c.stream)->Wait();
        EXPECT_TRUE(std::isnan(buffer.values[0]));
        EXPECT_TRUE(std::isinf(buffer.values[1]));
        EXPECT_TRUE(std::isnan(buffer.values[3])) << "a NaN must not be lost";
        results[c.rank].insert(results[c.rank].end(), buffer.values.begin(), buffer.values.end());
      }
    });
    for (int rank = 1; rank < size(); ++rank) {
      EXPECT_EQ(0, std::memcmp(results[0].data(), results[rank].data(), results[0].size() * sizeof(double)))
          << "ranks 0 and " << rank << " differ, " << n << " elements";
    }
  }
}

// Whether the part of a rank lies in its whole. A group of one rank takes no other.
inline std::vector<bool> PlacesOfPart(int size) {
  return size == 1 ? std::vector<bool>{true} : std::vector<bool>{true, false};
}

// Parts of one element, odd ones, around the pieces of the staging, and larger than it.
TEST_P(CommunicatorSuite, ReduceScatterKeepsTheOwnPart) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kData, AllRanks(c.size));
    const auto check = [&]<typename T>(std::int64_t part, ReduceOp op, bool in_place, T) {
      Buffer<T> buffer(part * c.size), apart(part, T{-3});
      for (std::int64_t i = 0; i < part * c.size; ++i)
        buffer.values[i] = static_cast<T>(Contribution(c.rank, i));
      const Tensor own = in_place ? PartOf(buffer.tensor(), c.rank, c.size) : apart.tensor();
      group->ReduceScatter(buffer.tensor(), own, op, c.stream)->Wait();
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < part; ++i) {
        const std::int64_t at = c.rank * part + i;
        std::int32_t expected = Contribution(0, at);
        for (int r = 1; r < c.size; ++r) {
          const std::int32_t other = Contribution(r, at);
          expected = op == ReduceOp::kSum ? expected + other : std::max(expected, other);
        }
        wrong += own.As<T>()[i] != static_cast<T>(expected);
      }
      EXPECT_EQ(wrong, 0) << "rank " << c.rank << ", parts of " << part << " elements, in place " << in_place;
    };
    const std::int64_t beyond = kCollectiveStagingBytes / 4 + 12345;
    for (const bool in_place : PlacesOfPart(c.size)) {
      for (const std::int64_t part :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{777}, std::int64_t{40001}}) {
        check(part, ReduceOp::kSum, in_place, float{});
        check(part, ReduceOp::kMax, in_place, double{});
        check(part, ReduceOp::kSum, in_place, std::int32_t{});
      }
      check(beyond, ReduceOp::kSum, in_place, float{});
    }
  });
}

TEST_P(CommunicatorSuite, AllGatherBringsEveryPart) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kTensor, AllRanks(c.size));
    const std::int64_t beyond = kCollectiveStagingBytes / 4 + 12345;
    const auto value = [](int rank, std::int64_t i) { return static_cast<float>(Contribution(rank, i)); };
    for (const bool in_place : PlacesOfPart(c.size)) {
      for (const std::int64_t part :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{777}, std::int64_t{40001}, beyond}) {
        Buffer<float> buffer(part * c.size, -5000.0f), apart(part, -4000.0f);
        const Tensor own = in_place ? PartOf(buffer.tensor(), c.rank, c.size) : apart.tensor();
        for (std::int64_t i = 0; i < part; ++i) own.As<float>()[i] = value(c.rank, i);
        group->AllGather(own, buffer.tensor(), c.stream)->Wait();
        std::int64_t wrong = 0;
        for (int r = 0; r < c.size; ++r) {
          for (std::int64_t i = 0; i < part; ++i) wrong += buffer.values[r * part + i] != value(r, i);
        }
        for (std::int64_t i = 0; i < part; ++i) wrong += own.As<float>()[i] != value(c.rank, i);
        EXPECT_EQ(wrong, 0) << "rank " << c.rank << ", parts of " << part << " elements, in place "
                            << in_place;
      }
    }
  });
}

TEST_P(CommunicatorSuite, CollectivesOfPartsNeedEqualParts) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  Run([](RankContext& c) {
    Group group(c, CommGroup::kData, AllRanks(c.size));
    Buffer<float> whole(c.size + 1, 1.0f), part(1, 1.0f);
    Buffer<double> other_type(1, 1.0);
    const auto refused = [&](const Tensor& whole_tensor, const Tensor& own) {
      EXPECT_THROW(group->ReduceScatter(whole_tensor, own, ReduceOp::kSum, c.stream)->Wait(), CommError);
      EXPECT_THROW(group->AllGather(own, whole_tensor, c.stream)->Wait(), CommError);
    };
    refused(whole.tensor(), part.tensor());
    refused(whole.tensor().Reshape({c.size}), other_type.tensor());
    refused(whole.tensor().Reshape({c.size}), whole.tensor().Reshape({2}));
  });
}

TEST_P(CommunicatorSuite, GroupOfOneRankTakesPartsInPlaceOnly) {
  if (size() > 1) GTEST_SKIP() << "of one rank alone";
  Run([](RankContext& c) {
    Group group(c, CommGroup::kData, AllRanks(c.size));
    Buffer<float> whole(3, 1.0f), part(3, 2.0f);
    EXPECT_THROW(group->ReduceScatter(whole.tensor(), part.tensor(), ReduceOp::kSum, c.stream)->Wait(),
                 CommError);
    EXPECT_THROW(group->AllGather(part.tensor(), whole.tensor(), c.stream)->Wait(), CommError);
  });
}

// All kinds at once on one group, waited for in another order.
TEST_P(CommunicatorSuite, CollectivesOfAllKindsKeepTheirOrder) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(c.size));
    Buffer<float> gathered(50000 * c.size, static_cast<float>(c.rank)), scattered(30000 * c.size, 1.0f),
        sum(9000, 1.0f), again(7 * c.size, static_cast<float>(c.rank));
    std::vector<std::unique_ptr<Work>> works;
    const auto own = [&](Buffer<float>& buffer) { return PartOf(buffer.tensor(), c.rank, c.size); };
    works.push_back(group->AllGather(own(gathered), gathered.tensor(), c.stream));
    works.push_back(group->ReduceScatter(scattered.tensor(), own(scattered), ReduceOp::kSum, c.stream));
    works.push_back(group->AllReduce(sum.tensor(), ReduceOp::kSum, c.stream));
    works.push_back(group->AllGather(own(again), again.tensor(), c.stream));
    for (std::size_t i = works.size(); i-- > 0;) works[i]->Wait();
    for (std::int64_t i = 0; i < 50000 * c.size; ++i)
      ASSERT_EQ(gathered.values[i], static_cast<float>(i / 50000));
    for (std::int64_t i = 0; i < 30000; ++i)
      ASSERT_EQ(scattered.values[c.rank * 30000 + i], static_cast<float>(c.size));
    for (const float value : sum.values) ASSERT_EQ(value, static_cast<float>(c.size));
    for (std::int64_t i = 0; i < 7 * c.size; ++i) ASSERT_EQ(again.values[i], static_cast<float>(i / 7));
  });
}

// bf16 sums that are exact, and inexact ones, on which all ranks must agree.
TEST_P(CommunicatorSuite, AllReducesBf16) {
  for (std::int64_t n : {std::int64_t{1}, std::int64_t{9}, std::int64_t{3001}, std::int64_t{200003}}) {
    std::vector<std::vector<Bf16Bits>> inexact(size());
    Run([&](RankContext& c) {
      Group group(c, CommGroup::kTensor, AllRanks(c.size));
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        Buffer<Bf16Bits> buffer(n);
        const auto value = [](int rank, std::int64_t i) {
          return static_cast<float>((i * 5 + rank * 3) % 31 - 15);
        };
        for (std::int64_t i = 0; i < n; ++i) buffer.values[i] = ToBf16(value(c.rank, i));
        group->AllReduce(buffer.tensor(), op, c.stream)->Wait();
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          float expected = value(0, i);
          for (int r = 1; r < c.size; ++r)
            expected = op == ReduceOp::kSum ? expected + value(r, i) : std::max(expected, value(r, i));
          wrong += FromBf16(buffer.values[i]) != expected;
        }
        EXPECT_EQ(wrong, 0) << "rank " << c.rank << ", " << n << " elements";
      }
      Buffer<Bf16Bits> buffer(n);
      for (std::int64_t i = 0; i < n; ++i)
        buffer.values[i] = ToBf16(std::sin(1e3f * c.rank + i) * std::exp(i % 17 - 8.0f));
      group->AllReduce(buffer.tensor(), ReduceOp::kSum, c.stream)->Wait();
      inexact[c.rank] = buffer.values;
    });
    for (int rank = 1; rank < size(); ++rank)
      EXPECT_EQ(inexact[rank], inexact[0]) << "ranks 0 and " << rank << " differ";
  }
}

// Several at once on one group and on two groups, waited for in another order.
TEST_P(CommunicatorSuite, ConcurrentAllReduces) {
  Run([](RankContext& c) {
    Group first(c, CommGroup::kWorld, AllRanks(c.size));
    Group second(c, CommGroup::kData, AllRanks(c.size));
    std::vector<Buffer<float>> buffers;
    for (std::int64_t n : {3, 300000, 17, 50000, 1, 9000}) buffers.emplace_back(n, 1.0f);
    std::vector<std::unique_ptr<Work>> works;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      Group& group = i % 2 == 0 ? first : second;
      works.push_back(group->AllReduce(buffers[i].tensor(), ReduceOp::kSum, c.stream));
    }
    for (std::size_t i = works.size(); i-- > 0;) works[i]->Wait();
    works[0]->Wait();  // waiting again has no effect
    EXPECT_TRUE(works[1]->Test());
    for (const Buffer<float>& buffer : buffers) {
      for (float value : buffer.values) ASSERT_EQ(value, static_cast<float>(c.size));
    }
  });
}

// Groups of the same name that divide the world, and one that shares pairs of ranks with them.
TEST_P(CommunicatorSuite, GroupsDoNotMix) {
  if (size() < 4) GTEST_SKIP() << "needs four ranks";
  Run([](RankContext& c) {
    const std::int64_t half = c.size / 2;
    std::vector<std::int64_t> neighbours;
    for (std::int64_t i = 0; i < half; ++i) neighbours.push_back(c.rank / half * half + i);
    const std::vector<std::int64_t> across = {c.rank % half, c.rank % half + half};
    Group tensor(c, CommGroup::kTensor, neighbours);
    Group data(c, CommGroup::kData, across);
    Group world(c, CommGroup::kWorld, AllRanks(c.size));
    Buffer<double> a(1, c.rank), b(1, c.rank), d(1, c.rank);
    auto wa = tensor->AllReduce(a.tensor(), ReduceOp::kSum, c.stream);
    auto wb = data->AllReduce(b.tensor(), ReduceOp::kSum, c.stream);
    auto wd = world->AllReduce(d.tensor(), ReduceOp::kMax, c.stream);
    wd->Wait();
    wb->Wait();
    wa->Wait();
    EXPECT_EQ(a.values[0], std::accumulate(neighbours.begin(), neighbours.end(), 0.0));
    EXPECT_EQ(b.values[0], static_cast<double>(across[0] + across[1]));
    EXPECT_EQ(d.values[0], c.size - 1);
  });
}

// Every rank sends to every rank before any waits; the sizes cover every protocol.
TEST_P(CommunicatorSuite, CrossingMessages) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(c.size));
    for (std::int64_t n :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{777}, std::int64_t{40001}, std::int64_t{300000}}) {
      std::vector<Buffer<float>> out, in;
      std::vector<std::unique_ptr<Work>> works;
      for (int peer = 0; peer < c.size; ++peer) {
        out.emplace_back(n, static_cast<float>(100 * c.rank + peer));
        in.emplace_back(n, -1.0f);
      }
      for (int peer = 0; peer < c.size; ++peer) {
        if (peer == c.rank) continue;
        works.push_back(group->Send(out[peer].tensor(), peer, 0, c.stream));
        works.push_back(group->Recv(in[peer].tensor(), peer, 0, c.stream));
      }
      WaitForAll(works);
      for (int peer = 0; peer < c.size; ++peer) {
        if (peer == c.rank) continue;
        for (float value : in[peer].values) ASSERT_EQ(value, static_cast<float>(100 * peer + c.rank));
      }
    }
  });
}

// Many messages in flight in one direction; the last is polled first.
TEST_P(CommunicatorSuite, MessagesKeepTheirOrder) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  Run([](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(c.size));
    constexpr int kMessages = 200;
    const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
    std::vector<Buffer<std::int32_t>> out, in;
    for (int i = 0; i < kMessages; ++i) {
      const std::int64_t n = i % 10 == 0 ? 20000 : 1 + i;
      out.emplace_back(n, 1000 * c.rank + i);
      in.emplace_back(n, -1);
    }
    std::vector<std::unique_ptr<Work>> works;
    for (auto& buffer : out) works.push_back(group->Send(buffer.tensor(), right, 3, c.stream));
    for (auto& buffer : in) works.push_back(group->Recv(buffer.tensor(), left, 3, c.stream));
    std::reverse(works.begin(), works.end());
    WaitForAll(works);
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_EQ(in[i].values.front(), 1000 * left + i);
      ASSERT_EQ(in[i].values.back(), 1000 * left + i);
    }
  });
}

// A message sent on one channel is not received on another, in any order.
TEST_P(CommunicatorSuite, ChannelsDoNotMix) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  Run([](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(c.size));
    const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
    for (std::int64_t n : {std::int64_t{4}, std::int64_t{100000}}) {
      Buffer<float> activation(n, 1.0f), gradient(n, 2.0f), got_activation(n), got_gradient(n);
      std::vector<std::unique_ptr<Work>> works;
      works.push_back(group->Send(activation.tensor(), right, 0, c.stream));
      works.push_back(group->Send(gradient.tensor(), right, 1, c.stream));
      works.push_back(group->Recv(got_gradient.tensor(), left, 1, c.stream));
      works.push_back(group->Recv(got_activation.tensor(), left, 0, c.stream));
      WaitForAll(works);
      EXPECT_EQ(got_activation.values.back(), 1.0f);
      EXPECT_EQ(got_gradient.values.front(), 2.0f);
    }
  });
}

// Test alone makes progress.
TEST_P(CommunicatorSuite, TestCompletes) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(c.size));
    Buffer<float> buffer(200000, 1.0f);
    auto work = group->AllReduce(buffer.tensor(), ReduceOp::kSum, c.stream);
    while (!work->Test()) std::this_thread::yield();
    EXPECT_EQ(buffer.values.back(), static_cast<float>(c.size));
  });
}

// Destroying an operation completes it.
TEST_P(CommunicatorSuite, DestroyingWaits) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(c.size));
    Buffer<double> buffer(100000, 2.0);
    group->AllReduce(buffer.tensor(), ReduceOp::kSum, c.stream).reset();
    EXPECT_EQ(buffer.values.front(), 2.0 * c.size);
    EXPECT_EQ(buffer.values.back(), 2.0 * c.size);
  });
}

// No rank leaves the barrier before all have entered it.
TEST_P(CommunicatorSuite, Barrier) {
  std::atomic<int> came{0};
  Run([&](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(c.size));
    for (int round = 1; round <= 20; ++round) {
      ++came;
      group->Barrier();
      EXPECT_GE(came.load(), round * c.size);
      group->Barrier();
    }
  });
}

}  // namespace autocfg::trainer
