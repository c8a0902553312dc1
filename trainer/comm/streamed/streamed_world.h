// Communication that runs on the device's own streams: an operation waits for the compute stream before it
// begins, the compute stream waits for it at Work::Wait, and the host waits for neither. Knows no library;
// trainer/comm/nccl gives it NCCL's driver.
//
// A group that was made with staging has one lane (lane.h) for its reductions; its messages have one for each
// pair of ranks, direction and channel, made when first used. Messages of one lane keep their order of issue,
// and no lane waits for another. That is why they are not put together into one call of the library for all
// neighbours: such a call ends as a whole, so a send would not end before an unrelated receive, which the
// programs of a pipeline do not promise (two lanes, search/schedule/program.h).
//
// A failure of any link ends all of them, and every operation from then on throws the same error.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/comm/comm_world.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg {

// A reduction of more than this is issued in buckets, one call each.
inline constexpr std::int64_t kReductionBucketBytes = std::int64_t{128} << 20;

// `host` carries the keys by which the ranks of a lane find each other, and the barriers. Channels are 0 ..
// kUserChannels - 2.
std::unique_ptr<CommWorld> CreateStreamedWorld(std::unique_ptr<StreamDriver> driver,
                                               std::unique_ptr<CommWorld> host,
                                               std::int64_t bucket_bytes = kReductionBucketBytes);

}  // namespace autocfg
