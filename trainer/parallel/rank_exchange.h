// What the ranks of a run tell each other between steps: small numbers that every rank needs to decide alike,
// and records for rank 0. Works on devices that compute. One rank, one thread; every method is collective
// over the world. Throws CommError.
#pragma once

#include <array>
#include <cstdint>
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

  // Returns on rank 0 the records of all ranks, in their order; on any other rank, nothing.
  using Record = std::array<std::int64_t, 2>;
  std::vector<Record> GatherOnFirst(const Record& record);

 private:
  const RankShape& shape_;
  const MemoryLayout& layout_;
  const Execution& run_;
  Device& device_;
};

}  // namespace autocfg::trainer
