// Splits a large region into buckets for reduction. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace autocfg::trainer {

// A contiguous range of elements.
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

}  // namespace autocfg::trainer
