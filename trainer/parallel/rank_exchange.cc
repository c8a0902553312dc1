#include "trainer/parallel/rank_exchange.h"

namespace autocfg::trainer {

void RankExchange::Barrier() {
  if (run_.groups.world != nullptr) run_.groups.world->Barrier();
}

double RankExchange::Largest(double value) {
  if (run_.groups.world == nullptr) return value;
  const Tensor scalar = LossScalar(layout_.workspace());
  device_.CopyFromHost(scalar.data, &value, sizeof(value), run_.stream);
  run_.groups.world->AllReduce(scalar, ReduceOp::kMax, run_.stream)->Wait();
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

}  // namespace autocfg::trainer
