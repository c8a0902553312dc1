#include "cli/study/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/cli/screen.h"

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

BarStyle Plain(int columns) { return {.columns = columns, .unicode = false, .color = false}; }

v1::Trial RunningTrial(const std::string& plan, const std::vector<std::string>& workers) {
  v1::Trial trial;
  trial.set_plan_text(plan);
  trial.set_state(v1::TRIAL_STATE_RUNNING);
  for (const std::string& worker : workers) {
    if (trial.attempts().empty()) trial.add_attempts()->set_worker(worker);
    trial.mutable_attempts(0)->add_workers(worker);
  }
  return trial;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

TEST(Progress, ShowsKnownFields) {
  auto study = Study();
  std::string text = Joined(ProgressLines(study, {}, 12, 0, Plain(200)));
  for (const char* part : {"study 4", "measuring", "left", "enumerated 96", "measured 5",
                           "layers_not_divisible 24, heads_not_divisible 12", "nothing measured yet"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  }
  EXPECT_EQ(text.find("budget"), std::string::npos);
  study.mutable_best()->set_plan_text("tp=2");
  study.mutable_best()->mutable_measured()->set_median_step_time_s(0.25);
  text = Joined(ProgressLines(study, {}, 12, 600, Plain(200)));
  EXPECT_NE(text.find("(measured)  tp=2"), std::string::npos) << text;
  EXPECT_NE(text.find("budget"), std::string::npos);
  study.mutable_best()->mutable_measured()->set_slice(true);
  text = Joined(ProgressLines(study, {}, 12, 600, Plain(200)));
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

  auto predicting = Study();
  predicting.mutable_spec()->set_predict_only(true);
  EXPECT_EQ(ProgressText(predicting, 12, 0),
            "study 4: measuring  12 s, about 30 s left (predicted); 60 predicted");
}

TEST(Progress, AlwaysShowsTimeLeft) {
  auto study = Study();
  study.set_phase("calibrating");
  study.set_eta_s(0);
  EXPECT_NE(Joined(ProgressLines(study, {}, 12, 72, Plain(200))).find("at most 1 min 00 s left"),
            std::string::npos)
      << Joined(ProgressLines(study, {}, 12, 72, Plain(200)));
  EXPECT_NE(Joined(ProgressLines(study, {}, 100, 72, Plain(200))).find("at most 0"), std::string::npos);
  EXPECT_NE(Joined(ProgressLines(study, {}, 12, 0, Plain(200))).find("time left unknown"), std::string::npos);
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
  EXPECT_NE(plain.find("\x1b[2A\r"), std::string::npos) << "drawn over itself all the same";
  EXPECT_EQ(Drawn("dumb", nullptr), "");
  EXPECT_EQ(Drawn(nullptr, nullptr), "");
  setenv("TERM", term.c_str(), 1);
}

TEST(Progress, BlockOfEightyColumns) {
  auto study = Study();
  study.set_round(3);
  study.mutable_best()->set_plan_text("tp=2,pp=1,dp=4,mbs=8");
  study.mutable_best()->mutable_measured()->set_median_step_time_s(0.25);
  const std::vector<v1::Trial> running = {
      RunningTrial("tp=2,dp=4,mbs=8", {"workers/node-1"}),
      RunningTrial("tp=4,dp=4,mbs=2", {"workers/node-2", "workers/node-3"})};
  EXPECT_EQ(Joined(ProgressLines(study, running, 10, 0, Plain(80))),
            R"(study 4: measuring, round 3
  [#########                          ]  25%  10 s, about 30 s left (predicted)
  enumerated 96, fit 60, measured 5
  rejected: layers_not_divisible 24, heads_not_divisible 12
  best so far: 250 ms +- 0 s (measured)  tp=2,pp=1,dp=4,mbs=8
  tp=2,dp=4,mbs=8 on node-1
  tp=4,dp=4,mbs=2 on node-2, node-3
)");
  study.set_phase("calibrating");
  study.set_calibration_ops(400);
  study.set_calibration_ops_passed(100);
  study.clear_round();
  const auto lines = ProgressLines(study, {}, 10, 0, Plain(40));
  EXPECT_EQ(lines[0], "study 4: calibrating, 100 of 400 ops");
  EXPECT_EQ(lines[1], "  [###       ]  25%  10 s, about 30 s...");
  EXPECT_EQ(ProgressLines(study, std::vector<v1::Trial>(9, running[0]), 1, 0, Plain(80)).back(),
            "  and 3 more trials");
  study.set_phase("measuring");
  study.clear_eta_s();
  EXPECT_EQ(Joined(ProgressLines(study, {}, 10, 0, Plain(80))).find('['), std::string::npos)
      << "no bar of what is unknown";
}

TEST(Progress, LinesFitTheTerminal) {
  const std::vector<v1::Trial> running = {
      RunningTrial("tp=2,dp=4,mbs=8,split=" + std::string(90, '9'), {"workers/" + std::string(60, 'w')})};
  for (const bool unicode : {false, true}) {
    for (const int width : {20, 40, 80}) {
      const BarStyle style = {.columns = width, .unicode = unicode, .color = false};
      for (const auto& line : ProgressLines(Study(), running, 12, 600, style)) {
        EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }), width)
            << line;
      }
    }
  }
}

// Sends `frames` to a display on a pseudo-terminal. Returns what was written.
std::string Frames(const std::vector<std::vector<std::string>>& frames, bool end) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return "no terminal";
  setenv("TERM", "xterm", 1);
  std::FILE* out = fdopen(open(ptsname(terminal), O_RDWR | O_NOCTTY), "w");
  std::string drawn;
  const auto drain = [&] {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;)
      drawn.append(buffer, static_cast<std::size_t>(got));
  };
  {
    ProgressDisplay display(out);
    for (const auto& frame : frames) display.Draw(frame);
    if (!end) drain();
  }
  if (end) drain();
  std::fclose(out);
  close(terminal);
  return drawn;
}

TEST(Progress, RedrawsInPlaceAndEndsClean) {
  const std::string term = std::getenv("TERM") == nullptr ? "" : std::getenv("TERM");
  const std::vector<std::vector<std::string>> frames = {
      {"one long line", "two", "three"}, {"one", "deux"}, {"1", "2", "3", "4"}};
  const std::string bytes = Frames(frames, /*end=*/false);
  if (bytes == "no terminal") GTEST_SKIP() << "no pseudo-terminal here";
  Screen last(80);
  last.Feed(bytes);
  EXPECT_EQ(last.Rows(), frames.back());
  EXPECT_LT(bytes.find("deux"), bytes.find("\x1b[J")) << "lines are replaced before any is erased";
  Screen end(80);
  end.Feed(Frames(frames, /*end=*/true));
  EXPECT_TRUE(end.Rows().empty());
  setenv("TERM", term.c_str(), 1);
}

TEST(Progress, DrawsNothingWithoutATerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    ProgressDisplay display(file);
    EXPECT_FALSE(display.active());
    EXPECT_FALSE(ProgressDisplay(file, /*wanted=*/false).active());
    display.Draw({"one", "two"});
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace autocfg::cli
