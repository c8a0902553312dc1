// What a rank learns from its peers of when a step's communication ran. One rank, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "search/breakdown/step_breakdown.h"
#include "search/schedule/program.h"
#include "trainer/parallel/rank_exchange.h"

namespace autocfg::trainer {

// Limits the times of messages and collectives to when they ran: from when their last rank reached them to
// when the first rank saw their end. `times`: by action of the program of `rank`, each in seconds since its
// own rank began the step. The ranks begin a step when they leave a barrier, so the times of two ranks differ
// by what that takes. Collective over the world. Throws CommError.
void MeetPeers(const RankProgram& program, std::int64_t rank, const Groups& groups, RankExchange& exchange,
               std::vector<ActionTime>& times);

}  // namespace autocfg::trainer
