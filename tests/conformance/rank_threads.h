// Runs ranks as threads of a test, each with its own world, and provides helpers for such tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/bf16.h"
#include "search/ops/memory_sizes.h"
#include "trainer/comm/comm_world.h"

namespace autocfg {

using WorldFactory = std::function<std::unique_ptr<trainer::CommWorld>(trainer::Rendezvous&)>;

class HostStream final : public Stream {
 public:
  void Synchronize() override {}
};

// The arguments of one rank's body.
struct RankContext {
  int rank = 0;
  int size = 0;
  trainer::CommWorld& world;
  Stream& stream;
};

// Runs `body` once per rank, each on its own thread. A rank that throws ends the program, because its peers
// would wait for it forever.
inline void RunRanks(int size, const WorldFactory& factory, const std::function<void(RankContext&)>& body) {
  auto endpoints = trainer::CreateLocalRendezvous(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        {
          HostStream stream;
          std::unique_ptr<trainer::CommWorld> world = factory(*endpoints[rank]);
          RankContext context{rank, size, *world, stream};
          body(context);
        }
        endpoints[rank].reset();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d of %d threw: %s\n", rank, size, error.what());
        std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Host memory with a one-dimensional tensor over it.
template <typename T>
struct Buffer {
  explicit Buffer(std::int64_t n, T value = T{}) : values(static_cast<std::size_t>(n), value) {}

  Tensor tensor() {
    Tensor result;
    result.data = values.data();
    result.dtype = std::is_same_v<T, float>      ? DType::kF32
                   : std::is_same_v<T, double>   ? DType::kF64
                   : std::is_same_v<T, Bf16Bits> ? DType::kBF16
                                                 : DType::kI32;
    result.rank = 1;
    result.shape[0] = static_cast<std::int64_t>(values.size());
    return result;
  }

  std::vector<T> values;
};

// A group of this rank and others, with its staging.
class Group {
 public:
  Group(RankContext& context, CommGroup name, const std::vector<std::int64_t>& ranks)
      : staging_(kCollectiveStagingBytes / 4),
        communicator_(context.world.CreateGroup(name, ranks, staging_.tensor())) {}
  trainer::Communicator* operator->() { return communicator_.get(); }
  trainer::Communicator& operator*() { return *communicator_; }

 private:
  Buffer<std::int32_t> staging_;
  std::unique_ptr<trainer::Communicator> communicator_;
};

inline std::vector<std::int64_t> AllRanks(int size) {
  std::vector<std::int64_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Completes operations that depend on each other. Waiting for one need not advance the rest, so this tests
// all in turn.
inline void WaitForAll(std::vector<std::unique_ptr<trainer::Work>>& works) {
  for (bool all = false; !all;) {
    all = true;
    for (auto& work : works) all = work->Test() && all;
  }
  for (auto& work : works) work->Wait();
}

}  // namespace autocfg
