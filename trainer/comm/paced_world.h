// Communication in virtual time: nothing is moved but the times at which ranks are ready, over an inner
// world, and every operation takes its modelled seconds on the ranks' clocks. The law is that of
// search/schedule/program.h and search/cost/program_timer.h:
//   - messages of a rank run in two lanes, one for sends and one for receives; reductions over the data,
//     embedding and world group in a third. The operations of a lane run in order of issue;
//   - a message, or a reduction, starts when it stands at the head of its lane on all its ranks and each lane
//     is free; it was issued after the compute that stood on the stream. It ends on all of them together,
//     after the largest of their modelled times;
//   - all-reduces over the tensor group run on the compute stream. AllReduce of that group returns when every
//     rank has come to it.
// Work::Wait moves the host of the clock to the operation's end. Work::Test says whether the end is known and
// moves nothing, so whoever relies on completion waits. A barrier moves every host of the group to the
// latest.
//
// The whole world advances whenever any of its operations is issued, waited for or tested, and in every
// barrier. One rank, one thread.
#pragma once

#include <memory>

#include "kernels/paced/paced_clock.h"
#include "trainer/comm/comm_world.h"

namespace autocfg {

// `clock`, which must outlive the world, says the time of each operation. Channels are 0 .. kUserChannels / 2
// - 1: each is two of the inner world's. An inner null world makes a rank alone: it is never kept waiting,
// and its own times count.
std::unique_ptr<CommWorld> CreatePacedWorld(std::unique_ptr<CommWorld> inner, PacedClock& clock);

}  // namespace autocfg
