// The communicators of a rank: one for each of its groups of more than one rank. One rank, one thread.
#pragma once

#include <memory>

#include "search/plan/rank_mesh.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/communicator.h"
#include "trainer/layout/memory_layout.h"

namespace autocfg::trainer {

// A member is null if its group has one rank.
struct Groups {
  std::unique_ptr<Communicator> tensor, data, pipeline, embedding, world;
};

// Creates the groups. Collective: every rank of the world calls it. `world` and the memory behind `staging`
// must outlive the result.
Groups MakeGroups(CommWorld& world, const RankShape& shape, const GroupStaging& staging);

}  // namespace autocfg::trainer
