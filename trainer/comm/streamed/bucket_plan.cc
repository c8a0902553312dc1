#include "trainer/comm/streamed/bucket_plan.h"

#include <algorithm>
#include <stdexcept>

#include "fmt/format.h"

namespace autocfg::trainer {

std::vector<Bucket> PlanBuckets(std::int64_t elements, std::int64_t element_bytes, std::int64_t bucket_bytes,
                                std::int64_t alignment) {
  if (elements < 0 || element_bytes < 1 || bucket_bytes < 1 || alignment < 1 ||
      alignment % element_bytes != 0) {
    throw std::invalid_argument(
        fmt::format("invalid bucket plan: {} bytes per bucket, alignment {}, {} elements of {} bytes",
                    bucket_bytes, alignment, elements, element_bytes));
  }
  const std::int64_t each = std::max(bucket_bytes / alignment, std::int64_t{1}) * (alignment / element_bytes);
  std::vector<Bucket> buckets;
  for (std::int64_t first = 0; first < elements; first += each)
    buckets.push_back({first, std::min(each, elements - first)});
  return buckets;
}

}  // namespace autocfg::trainer
