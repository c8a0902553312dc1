#include "proto/short_name.h"

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(ShortName, IsTheApiNameWithoutPrefix) {
  EXPECT_EQ(ShortName(v1::STUDY_STATE_DONE), "DONE");
  EXPECT_EQ(ShortName(v1::TRIAL_STATE_TIMED_OUT), "TIMED_OUT");
  EXPECT_EQ(ShortName(v1::OUTCOME_OUT_OF_MEMORY), "OUT_OF_MEMORY");
  EXPECT_EQ(ShortName(static_cast<v1::StudyState>(77)), "77") << "of a newer build";
}

}  // namespace
}  // namespace autocfg
