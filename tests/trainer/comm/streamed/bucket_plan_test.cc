#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "trainer/comm/streamed/streamed_world.h"

namespace autocfg::trainer {
namespace {

TEST(BucketPlan, LastBucketIsSmaller) {
  const auto buckets = PlanBuckets(2500, 4, 4096, 512);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].first, 0);
  EXPECT_EQ(buckets[0].elements, 1024);
  EXPECT_EQ(buckets[1].first, 1024);
  EXPECT_EQ(buckets[1].elements, 1024);
  EXPECT_EQ(buckets[2].first, 2048);
  EXPECT_EQ(buckets[2].elements, 452);
}

TEST(BucketPlan, BucketsAreAlignedAndBounded) {
  for (const std::int64_t width : {2, 4, 8}) {
    for (const std::int64_t bytes : {1, 511, 512, 513, 5000, 1 << 20}) {
      for (const std::int64_t elements : {1, 255, 256, 257, 9999, 1 << 19}) {
        std::int64_t next = 0;
        const auto buckets = PlanBuckets(elements, width, bytes, 512);
        for (const Bucket& bucket : buckets) {
          EXPECT_EQ(bucket.first, next);
          EXPECT_EQ(bucket.first * width % 512, 0);
          EXPECT_GT(bucket.elements, 0);
          EXPECT_LE(bucket.elements * width, std::max<std::int64_t>(bytes, 512));
          next += bucket.elements;
        }
        EXPECT_EQ(next, elements);
        for (std::size_t i = 0; i + 1 < buckets.size(); ++i)
          EXPECT_EQ(buckets[i].elements, buckets[0].elements);
      }
    }
  }
}

TEST(BucketPlan, ReturnsOneBucketIfAllFitsAndNoneIfEmpty) {
  EXPECT_EQ(PlanBuckets(1024, 4, 4096, 512).size(), 1u);
  EXPECT_EQ(PlanBuckets(1025, 4, 4096, 512).size(), 2u);
  EXPECT_TRUE(PlanBuckets(0, 4, 4096, 512).empty());
}

TEST(BucketPlan, SupportsRegionsBeyond32Bits) {
  const auto buckets = PlanBuckets(std::int64_t{20} << 30, 4, std::int64_t{128} << 20, 512);
  ASSERT_EQ(buckets.size(), 640u);
  EXPECT_EQ(buckets.back().first, (std::int64_t{20} << 30) - (std::int64_t{32} << 20));
}

TEST(BucketPlan, RejectsInvalidSizes) {
  EXPECT_THROW(PlanBuckets(-1, 4, 4096, 512), std::invalid_argument);
  EXPECT_THROW(PlanBuckets(1, 0, 4096, 512), std::invalid_argument);
  EXPECT_THROW(PlanBuckets(1, 4, 0, 512), std::invalid_argument);
  EXPECT_THROW(PlanBuckets(1, 8, 4096, 4), std::invalid_argument);
}

}  // namespace
}  // namespace autocfg::trainer
