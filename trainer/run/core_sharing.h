// Whether ranks are in each other's way on the cores that they run on. Pure functions, thread-safe; the last
// is collective.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/comm/rendezvous.h"

namespace autocfg {

// Where a rank may run.
struct RankCores {
  std::string kernel;      // whose numbers the cores have (KernelId of base/os/host.h): a machine's
  std::vector<int> cores;  // at least one; ascending
};

// Whether the ranks that may run on the cores of `rank` are more than those cores. A rank that may run on
// several counts as a part of one on each.
bool SharesCores(std::span<const RankCores> ranks, int rank);

// Of the calling thread and those of the other ranks. Collective.
bool SharesCores(Rendezvous& rendezvous);

}  // namespace autocfg
