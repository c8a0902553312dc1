// Exchanges units (trainer/layout/parameter_units.h) over the shard group where they are used, if the plan
// shards their parameters or gradients (ZeRO stages 2 and 3, Rajbhandari et al. 2020). All elements of a unit
// then lie in a buffer that units use in turn. One rank, one thread.
#pragma once

#include <cstddef>

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Makes the parameters of a unit complete, before they are read. Does nothing unless parameters are sharded.
void GatherUnit(const Execution& run, std::size_t unit);

// Reduces the gradient of a unit over the shard group, once a microbatch's is complete. The rank keeps its
// own part: it is set, or added to if `accumulate`. Does nothing unless gradients are sharded.
void ReduceUnit(const Execution& run, std::size_t unit, bool accumulate);

}  // namespace autocfg::trainer
