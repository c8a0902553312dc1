#include "trainer/parallel/rank_exchange.h"

#include <algorithm>
#include <cstddef>

#include "search/ops/memory_sizes.h"

namespace autocfg::trainer {

void RankExchange::Barrier() {
  if (run_.groups.world != nullptr) run_.groups.world->Barrier();
}

double RankExchange::Largest(double value) { return LargestIn(run_.groups.world, value); }

double RankExchange::LargestIn(const std::unique_ptr<Communicator>& group, double value) {
  if (group == nullptr) return value;
  const Tensor scalar = LossScalar(layout_.workspace());
  device_.CopyFromHost(scalar.data, &value, sizeof(value), run_.stream);
  group->AllReduce(scalar, ReduceOp::kMax, run_.stream)->Wait();
  device_.CopyToHost(&value, scalar.data, sizeof(value), run_.stream);
  run_.stream.Synchronize();
  return value;
}

std::vector<RankExchange::Record> RankExchange::GatherOnFirst(const Record& record) {
  std::vector<Record> all;
  if (shape_.rank == 0) all.push_back(record);
  if (run_.groups.world == nullptr) return all;
  constexpr std::int64_t kBytes = sizeof(Record);
  const Tensor message = {.data = layout_.staging().world.data,
                          .dtype = DType::kI32,
                          .rank = 1,
                          .shape = {kBytes / SizeOf(DType::kI32)}};
  Communicator& world = *run_.groups.world;
  if (shape_.rank != 0) {
    device_.CopyFromHost(message.data, record.data(), kBytes, run_.stream);
    run_.pending.Run(world.Send(message, 0, 0, run_.stream));
    run_.stream.Synchronize();
    return all;
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    run_.pending.Run(world.Recv(message, rank, 0, run_.stream));
    device_.CopyToHost(all.emplace_back().data(), message.data, kBytes, run_.stream);
    run_.stream.Synchronize();
  }
  return all;
}

std::vector<double> RankExchange::Swap(int peer, const std::vector<double>& values) {
  std::vector<double> theirs(values.size());
  constexpr std::size_t kAtOnce = kCollectiveStagingBytes / sizeof(double);
  Communicator& world = *run_.groups.world;
  for (std::size_t begin = 0; begin < values.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, values.size() - begin);
    const auto bytes = static_cast<std::int64_t>(count * sizeof(double));
    const Tensor message = {.data = layout_.staging().world.data,
                            .dtype = DType::kI32,
                            .rank = 1,
                            .shape = {bytes / SizeOf(DType::kI32)}};
    const auto send = [&] {
      device_.CopyFromHost(message.data, values.data() + begin, bytes, run_.stream);
      run_.pending.Run(world.Send(message, peer, 0, run_.stream));
      run_.stream.Synchronize();
    };
    const bool first = shape_.rank < peer;
    if (first) send();
    run_.pending.Run(world.Recv(message, peer, 0, run_.stream));
    device_.CopyToHost(theirs.data() + begin, message.data, bytes, run_.stream);
    run_.stream.Synchronize();
    if (!first) send();
  }
  return theirs;
}

}  // namespace autocfg::trainer
