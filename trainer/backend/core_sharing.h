// Detects ranks that share CPU cores. Pure functions, thread-safe; the last one is collective.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {

// The cores on which a rank may run.
struct RankCores {
  std::string kernel;      // the machine that numbers the cores (KernelId of base/os/host.h)
  std::vector<int> cores;  // at least one; ascending
};

// Returns true if more ranks may run on the cores of `rank` than it has cores. A rank that may run on several
// cores counts as a fraction on each.
bool SharesCores(std::span<const RankCores> ranks, int rank);

// Does the same for the calling thread and those of the other ranks. Collective.
bool SharesCores(Rendezvous& rendezvous);

}  // namespace autocfg::trainer
