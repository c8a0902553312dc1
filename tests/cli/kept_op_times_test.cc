// What a search says of op times that later searches can or cannot use.
#include "cli/study/kept_op_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace autocfg::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kClean = "0.1.0+3001fe9c7a21";
constexpr const char* kDirty = "0.1.0+3001fe9c7a21-dirty";

TEST(NoReuse, IsSaidOfBuildsOfChangedSources) {
  EXPECT_EQ(NoReuseNote("this build", kClean), "");
  for (const std::string build : {kDirty, "0.1.0+unknown"}) {
    EXPECT_THAT(NoReuseNote("this build", build),
                HasSubstr("this build (" + build + ") names no one revision"));
  }
}

TEST(InterruptedStudy, SaysWhatItKeeps) {
  v1::Study study;
  study.set_name("studies/3");
  EXPECT_EQ(KeptText(study, kClean), "study 3 has measured nothing yet");
  study.set_phase("calibrating");
  study.set_calibration_ops(40);
  EXPECT_EQ(KeptText(study, kClean), "study 3 has measured nothing yet");
  study.set_calibration_ops_passed(7);
  EXPECT_EQ(
      KeptText(study, kClean),
      "study 3 has measured no plan yet, and keeps the op times so far (7 of 40 ops were timed or left out)");
  EXPECT_EQ(KeptText(study, kDirty),
            "study 3 has measured no plan yet, and keeps none of its op times: this build names no one "
            "revision");
  study.set_phase("measuring");
  EXPECT_EQ(KeptText(study, kDirty), "study 3 keeps its op times, and has measured no plan yet");
  study.mutable_counts()->set_measured(2);
  EXPECT_EQ(KeptText(study, kDirty), "study 3 keeps its measurements");
}

}  // namespace
}  // namespace autocfg::cli
