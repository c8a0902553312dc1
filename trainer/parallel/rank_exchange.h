// What the ranks of a run tell each other between steps: small numbers that every rank needs to decide alike,
// records for rank 0, and numbers for one other rank. Works on devices that compute. One rank, one thread;
// every method is collective over the world unless it says otherwise. Throws CommError.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class RankExchange {
 public:
  // Uses the loss scalar and the world group's staging of the layout, which no step in progress may use. The
  // arguments must outlive the object.
  RankExchange(const RankShape& shape, const MemoryLayout& layout, const Execution& run, Device& device)
      : shape_(shape), layout_(layout), run_(run), device_(device) {}

  // Returns when every rank has called it.
  void Barrier();

  // Returns the largest of the ranks' values.
  double Largest(double value);
  // Returns the largest value in the group, or `value` if the group is null. Collective over the group.
  double LargestIn(const std::unique_ptr<Communicator>& group, double value);

  // Returns on rank 0 the records of all ranks, in their order; on any other rank, nothing.
  using Record = std::array<std::int64_t, 2>;
  std::vector<Record> GatherOnFirst(const Record& record);

  // Returns the values of rank `peer`, and gives it `values`. Both ranks call it with as many values. Where
  // ranks swap with several peers, all go through their pairs in one order, such as that of (lower rank,
  // higher rank).
  std::vector<double> Swap(int peer, const std::vector<double>& values);

 private:
  const RankShape& shape_;
  const MemoryLayout& layout_;
  const Execution& run_;
  Device& device_;
};

}  // namespace autocfg::trainer
