// Communication that runs on the device's own streams. An operation waits for the compute stream before it
// begins, the compute stream waits for it at Work::Wait, and the host waits for neither. Independent of any
// library; trainer/comm/nccl supplies the NCCL driver.
//
// A group created with staging has one lane (lane.h) for its reductions. Its messages have one lane for each
// pair of ranks, direction and channel, created at first use. Messages of one lane keep their order of issue,
// and no lane waits for another. For this reason the messages to all neighbours are not combined into one
// call of the library. Such a call ends as a whole, so a send would end only after an unrelated receive,
// which the programs of a pipeline do not guarantee (two lanes, search/schedule/program.h).
//
// A reduction of any size is one call. NCCL starts a thread for each call on a communicator that does not
// block, and only such a communicator can be ended while its ranks wait for each other.
//
// If any link fails, all links are ended, and every later operation throws the same error.
#pragma once

#include <memory>

#include "trainer/comm/comm_world.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg::trainer {

// `host` carries the barriers and the keys by which the ranks of a lane find each other. Valid channels are 0
// .. kUserChannels - 2.
std::unique_ptr<CommWorld> CreateStreamedWorld(std::unique_ptr<StreamDriver> driver,
                                               std::unique_ptr<CommWorld> host);

}  // namespace autocfg::trainer
