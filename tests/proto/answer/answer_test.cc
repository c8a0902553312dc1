// What follows from an answer: which time of a plan counts.
#include "proto/answer/answer.h"

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(Provenance, SliceLeavesThePlanPredicted) {
  v1::Candidate candidate;
  EXPECT_EQ(Provenance(candidate), "predicted");
  candidate.mutable_measured()->set_slice(true);
  EXPECT_EQ(Provenance(candidate), "predicted");
  candidate.mutable_measured()->set_slice(false);
  EXPECT_EQ(Provenance(candidate), "measured");
}

}  // namespace
}  // namespace autocfg
