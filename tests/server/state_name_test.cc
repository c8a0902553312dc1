#include "server/names/state_name.h"

#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

TEST(StateName, IsTheApiNameWithoutPrefix) {
  EXPECT_EQ(StateName(v1::STUDY_STATE_DONE), "DONE");
  EXPECT_EQ(StateName(v1::TRIAL_STATE_TIMED_OUT), "TIMED_OUT");
  EXPECT_EQ(StateName(static_cast<v1::StudyState>(77)), "77") << "of a newer build";
}

}  // namespace
}  // namespace autocfg::server
