// What a rank learns from its peers of when a step's communication ran. One rank, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "search/breakdown/step_breakdown.h"
#include "search/schedule/program.h"
#include "trainer/parallel/rank_exchange.h"

namespace autocfg::trainer {

// Limits the times of messages and collectives to when they ran: from when their last rank reached them to
// when the first rank saw their end. `times`: by action of the program of `rank`, in seconds since this rank
// began the step at `origin_s` on a clock that the ranks of one machine share (StepClock::OriginSeconds).
//
// If the ranks are on several machines, they compare the times since each of them began the step. They begin
// it when they leave a barrier, so such times differ by what that takes.
//
// Returns how much later than the first rank this rank began the step; 0 if they are on several machines.
// Collective over the world. Throws CommError.
double MeetPeers(const RankProgram& program, std::int64_t rank, double origin_s, const Groups& groups,
                 RankExchange& exchange, std::vector<ActionTime>& times);

}  // namespace autocfg::trainer
