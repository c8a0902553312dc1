#include "cli/progress.h"

#include <gtest/gtest.h>

namespace autocfg {
namespace {

v1::Study Study() {
  v1::Study study;
  study.set_name("studies/4");
  study.set_phase("measuring");
  study.set_eta_s(30);
  auto& counts = *study.mutable_counts();
  counts.set_enumerated(96);
  counts.set_predicted(60);
  counts.set_measured(5);
  (*counts.mutable_rejected())["heads_not_divisible"] = 12;
  (*counts.mutable_rejected())["layers_not_divisible"] = 24;
  return study;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

TEST(Progress, SaysWhatIsKnown) {
  auto study = Study();
  std::string text = Joined(ProgressLines(study, 12, 0, 200));
  for (const char* part : {"study 4", "measuring", "left", "enumerated 96", "measured 5",
                           "layers_not_divisible 24, heads_not_divisible 12", "nothing measured yet"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  }
  EXPECT_EQ(text.find("budget"), std::string::npos);
  study.mutable_best()->set_plan_text("tp=2");
  study.mutable_best()->mutable_measured()->set_median_step_time_s(0.25);
  text = Joined(ProgressLines(study, 12, 600, 200));
  EXPECT_NE(text.find("(measured)  tp=2"), std::string::npos) << text;
  EXPECT_NE(text.find("budget"), std::string::npos);
}

TEST(Progress, LinesFitTheTerminal) {
  for (const int width : {20, 40, 80}) {
    for (const auto& line : ProgressLines(Study(), 12, 600, width))
      EXPECT_LE(static_cast<int>(line.size()), width) << line;
  }
}

TEST(Progress, NothingIsDrawnOnWhatIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    ProgressDisplay display(file);
    EXPECT_FALSE(display.active());
    display.Draw({"one", "two"});
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace autocfg
