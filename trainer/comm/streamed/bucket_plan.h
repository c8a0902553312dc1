// How a large region is reduced in parts. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace autocfg {

// A run of elements.
struct Bucket {
  std::int64_t first = 0;
  std::int64_t elements = 0;
};

// `elements` of `element_bytes` each in consecutive buckets of at most `bucket_bytes`, every one but the last
// of the same size, a multiple of `alignment` bytes (one alignment where bucket_bytes is less): what begins
// aligned stays so. None for no elements. Requires sizes above 0 and an alignment that element_bytes divides;
// throws std::invalid_argument.
std::vector<Bucket> PlanBuckets(std::int64_t elements, std::int64_t element_bytes, std::int64_t bucket_bytes,
                                std::int64_t alignment);

}  // namespace autocfg
