#include "cli/study/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace autocfg::cli {
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

TEST(Progress, ShowsKnownFields) {
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
  study.mutable_best()->mutable_measured()->set_slice(true);
  text = Joined(ProgressLines(study, 12, 600, 200));
  EXPECT_NE(text.find("(measured) (the slice)  tp=2"), std::string::npos) << text;
}

TEST(Progress, FitsInOneLine) {
  auto study = Study();
  EXPECT_EQ(ProgressText(study, 12, 0),
            "study 4: measuring  12 s, about 30 s left (predicted); measured 5 of 60");
  study.mutable_best()->set_plan_text("tp=2");
  study.mutable_best()->mutable_measured()->set_median_step_time_s(0.25);
  EXPECT_EQ(
      ProgressText(study, 12, 600),
      "study 4: measuring  12 s, about 30 s left (predicted), budget 10 min 00 s; measured 5 of 60; best "
      "so far 250 ms +- 0 s (measured)  tp=2");
  study.clear_phase();
  EXPECT_EQ(ProgressText(study, 1, 0).find("study 4: starting  1"), 0u);
}

TEST(Progress, AlwaysShowsTimeLeft) {
  auto study = Study();
  study.set_phase("calibrating");
  study.set_eta_s(0);
  EXPECT_NE(Joined(ProgressLines(study, 12, 72, 200)).find("at most 1 min 00 s left"), std::string::npos)
      << Joined(ProgressLines(study, 12, 72, 200));
  EXPECT_NE(Joined(ProgressLines(study, 100, 72, 200)).find("at most 0"), std::string::npos);
  EXPECT_NE(Joined(ProgressLines(study, 12, 0, 200)).find("time left unknown"), std::string::npos);
}

// Returns the output on a terminal with these environment variables.
std::string Drawn(const char* term, const char* no_color) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return "no terminal";
  term == nullptr ? unsetenv("TERM") : setenv("TERM", term, 1);
  no_color == nullptr ? unsetenv("NO_COLOR") : setenv("NO_COLOR", no_color, 1);
  std::FILE* out = fdopen(open(ptsname(terminal), O_RDWR | O_NOCTTY), "w");
  {
    ProgressDisplay display(out);
    display.Draw({"first", "second"});
    display.Draw({"third", "fourth"});
  }
  std::fclose(out);
  // Several reads may be needed. After the last byte, the closed terminal answers with an error.
  std::string drawn;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;)
    drawn.append(buffer, static_cast<std::size_t>(got));
  close(terminal);
  return drawn;
}

TEST(Progress, RespectsTermAndNoColor) {
  const std::string term = std::getenv("TERM") == nullptr ? "" : std::getenv("TERM");
  if (Drawn("xterm", nullptr) == "no terminal") GTEST_SKIP() << "no pseudo-terminal here";
  EXPECT_NE(Drawn("xterm", nullptr).find("\x1b[1m"), std::string::npos);
  EXPECT_NE(Drawn("xterm", "").find("\x1b[1m"), std::string::npos) << "an empty NO_COLOR asks for nothing";
  const std::string plain = Drawn("xterm", "1");
  EXPECT_EQ(plain.find("\x1b[1m"), std::string::npos);
  EXPECT_NE(plain.find("\x1b[2A"), std::string::npos) << "drawn over itself all the same";
  EXPECT_EQ(Drawn("dumb", nullptr), "");
  EXPECT_EQ(Drawn(nullptr, nullptr), "");
  setenv("TERM", term.c_str(), 1);
}

TEST(Progress, LinesFitTheTerminal) {
  for (const int width : {20, 40, 80}) {
    for (const auto& line : ProgressLines(Study(), 12, 600, width))
      EXPECT_LE(static_cast<int>(line.size()), width) << line;
  }
}

TEST(Progress, DrawsNothingWithoutATerminal) {
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
}  // namespace autocfg::cli
