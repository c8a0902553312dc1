// Communication in virtual time. Over an inner world, ranks exchange only the times at which they are ready,
// and each operation takes its modelled seconds on the ranks' clocks. The timing rules are those of
// search/schedule/program.h and search/cost/timing/order_finder.h:
//   - Messages of a rank run in two lanes, one for sends and one for receives. Reductions over the data,
//     embedding and world groups run in a third lane, collectives over the tensor group in a fourth. The
//     operations of a lane run in order of issue.
//   - A message or reduction starts when it is at the head of its lane on all its ranks, each of these lanes
//     is free, and the compute that was on the stream when it was issued is done. It ends on all ranks
//     together, after the largest of their modelled times.
// Work::Wait advances the clock's host to the end of the operation, or, for a collective over the tensor
// group, its stream: that is part of a compute action, whose end no host waits for. Work::Test tells whether
// the end is known and advances nothing, so callers that rely on completion must wait. A barrier advances
// every host of the group to the latest one.
//
// The whole world advances each time one of its operations is issued, waited for or tested, and in every
// barrier. One rank, one thread.
#pragma once

#include <memory>

#include "kernels/paced/paced_device.h"
#include "trainer/comm/comm_world.h"

namespace autocfg::trainer {

// `clock` supplies the time of each operation and must outlive the world. Valid channels are 0 ..
// kUserChannels / 2 - 1; each uses two channels of the inner world. With an inner null world the rank runs
// alone: it never waits for others, and only its own times count.
std::unique_ptr<CommWorld> CreatePacedWorld(std::unique_ptr<CommWorld> inner, PacedClock& clock);

}  // namespace autocfg::trainer
