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
// If any link fails, all links are ended, and every later operation throws the same error.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/comm/comm_world.h"
#include "trainer/comm/streamed/stream_driver.h"

namespace autocfg::trainer {

// A contiguous range of elements that is reduced by one call.
struct Bucket {
  std::int64_t first = 0;
  std::int64_t elements = 0;
};

// Splits `elements` of `element_bytes` each into consecutive buckets of at most `bucket_bytes`. All but the
// last have the same size, a multiple of `alignment` bytes (one alignment if bucket_bytes is less), so that
// buckets of an aligned region are aligned. Returns no buckets for zero elements. Throws
// std::invalid_argument unless the sizes are positive and element_bytes divides the alignment.
std::vector<Bucket> PlanBuckets(std::int64_t elements, std::int64_t element_bytes, std::int64_t bucket_bytes,
                                std::int64_t alignment);

// Larger reductions are split into buckets, with one call each.
inline constexpr std::int64_t kReductionBucketBytes = std::int64_t{128} << 20;

// `host` carries the barriers and the keys by which the ranks of a lane find each other. Valid channels are 0
// .. kUserChannels - 2.
std::unique_ptr<CommWorld> CreateStreamedWorld(std::unique_ptr<StreamDriver> driver,
                                               std::unique_ptr<CommWorld> host,
                                               std::int64_t bucket_bytes = kReductionBucketBytes);

}  // namespace autocfg::trainer
