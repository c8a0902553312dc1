#include "worker/engines/log_reader.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engines/engine_texts.h"

namespace autocfg::worker {
namespace {

using Json = nlohmann::ordered_json;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;

LogRules RulesOf(const Json& json) {
  auto rules = ParseLogRules(json);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return *std::move(rules);
}

LogRules TextRules() { return RulesOf(GoodEngine()["log"]); }

LogReader Reading(const LogRules& rules, std::string_view text, const StepSize& size = {}) {
  LogReader reader(rules, size);
  reader.Add(text);
  reader.Finish();
  return reader;
}

TEST(LogReader, ReadsStepsLossAndMemory) {
  const LogRules rules = TextRules();
  const LogReader log = Reading(rules,
                                "starting\n"
                                "step 1/4 | time 1,500.0 ms | loss 3.5 | peak 10 MiB\n"
                                "step 2/4 | time 20 ms | loss 3.25 | peak 1,024 MiB\n"
                                "step 3/4 | time 30 ms | loss 3e0 | peak 9.5 MiB\n"
                                "step 4/4 | time 40 ms | loss 2.75 | peak 9 MiB");
  EXPECT_THAT(log.TimedSteps(0, 10),
              ElementsAre(DoubleEq(1.5), DoubleEq(0.02), DoubleEq(0.03), DoubleEq(0.04)));
  EXPECT_THAT(log.TimedSteps(1, 2), ElementsAre(DoubleEq(0.02), DoubleEq(0.03)));
  EXPECT_THAT(log.TimedSteps(4, 2), IsEmpty());
  EXPECT_EQ(log.first_loss(), 3.5);
  EXPECT_EQ(log.last_loss(), 2.75);
  EXPECT_EQ(log.peak_memory_bytes(), std::int64_t{1} << 30);
  EXPECT_EQ(log.last_line(), "step 4/4 | time 40 ms | loss 2.75 | peak 9 MiB");
}

TEST(LogReader, CountsTimesThatNoStepCanHave) {
  const LogRules rules = TextRules();
  const LogReader log =
      Reading(rules, "step 1 time 0.0 ms\nstep 2 time 0 ms\nstep 3 time 10000000000 ms\nloss 3\n");
  EXPECT_EQ(log.impossible_times(), 3);
  EXPECT_EQ(Reading(rules, "step 1 time 2 ms\nno time\n").impossible_times(), 0);
}

// The slowest rank's time of a step; lines of several ranks in any order; a number on a line before.
TEST(LogReader, StepsGoByTheirNumbers) {
  const LogRules rules = TextRules();
  const LogReader log =
      Reading(rules, "step 2 time 5 ms\nstep 1 time 3 ms\nstep 2 time 9 ms\nstep 2 time 7 ms\n");
  EXPECT_THAT(log.TimedSteps(0, 10), ElementsAre(DoubleEq(0.003), DoubleEq(0.009)));
  EXPECT_THAT(log.TimedSteps(1, 10), ElementsAre(DoubleEq(0.009)));
  EXPECT_THAT(Reading(rules, "time 3 ms\n").TimedSteps(0, 10), IsEmpty()) << "a time of no step";
  EXPECT_THAT(Reading(rules, "step 7\ntime 3 ms\n").TimedSteps(0, 10), ElementsAre(DoubleEq(0.003)));
  // A log that tells of every third step has no fewer untimed ones.
  EXPECT_THAT(Reading(rules, "step 3 time 1 ms\nstep 6 time 2 ms\n").TimedSteps(3, 9),
              ElementsAre(DoubleEq(0.002)));
  Json json = GoodEngine()["log"];
  json["step"]["first"] = 0;
  EXPECT_THAT(Reading(RulesOf(json), "step 0 time 1 ms\nstep 1 time 2 ms\n").TimedSteps(1, 9),
              ElementsAre(DoubleEq(0.002)));
}

TEST(LogReader, WithoutNumbersEachTimeIsAStep) {
  Json json = GoodEngine()["log"];
  json.erase("step");
  const LogRules rules = RulesOf(json);
  EXPECT_THAT(Reading(rules, "time 3 ms\rtime 4 ms\r\ntime 5 ms").TimedSteps(1, 10),
              ElementsAre(DoubleEq(0.004), DoubleEq(0.005)));
}

TEST(LogReader, RatesBecomeTimes) {
  const StepSize size{.samples = 8, .tokens = 8000, .ranks = 4};
  const auto steps = [&](const Json& speed) {
    Json json = {};
    json.update(speed);
    return Reading(RulesOf(json), "rate 2,000\n", size).TimedSteps(0, 9);
  };
  EXPECT_THAT(steps({{"samples_per_s", {{"pattern", "rate (\\S+)"}}}}), ElementsAre(DoubleEq(0.004)));
  EXPECT_THAT(steps({{"tokens_per_s", {{"pattern", "rate (\\S+)"}}}}), ElementsAre(DoubleEq(4)));
  EXPECT_THAT(steps({{"tokens_per_s", {{"pattern", "rate (\\S+)"}, {"per", "rank"}}}}),
              ElementsAre(DoubleEq(1)));
}

TEST(LogReader, ReadsLinesOfJson) {
  const LogRules rules = RulesOf({{"lines", "json"},
                                  {"step", {{"field", "step"}}},
                                  {"step_time", {{"field", "time.total"}, {"unit", "s"}}},
                                  {"loss", {{"field", "loss"}}},
                                  {"failure", {{"pattern", "Error: (.*)"}}}});
  const LogReader log = Reading(rules,
                                "not JSON {\n[]\n{\"step\": 1}\n{\"time\": 3}\n"
                                "{\"step\": 1, \"time\": {\"total\": 0.5}, \"loss\": 2}\n"
                                "{\"step\": 2, \"time\": {\"total\": \"0.5\"}, \"loss\": null}\n"
                                "RuntimeError: it failed\n");
  EXPECT_THAT(log.TimedSteps(0, 9), ElementsAre(DoubleEq(0.5)));
  EXPECT_EQ(log.last_loss(), 2);
  EXPECT_EQ(log.failure(), "it failed") << "a line that is no JSON still matches patterns";
}

TEST(LogReader, KeepsTheLastLineOfEachRule) {
  const LogRules rules = TextRules();
  const LogReader log = Reading(rules,
                                "Error: first\nError: second\nError: the peer is gone\n"
                                "CUDA out of memory\n\x1b[31mError: \x1b[1mred\x1b[0m\n");
  EXPECT_EQ(log.failure(), "red");
  EXPECT_EQ(log.peer_lost(), "Error: the peer is gone");
  EXPECT_EQ(log.out_of_memory(), "CUDA out of memory");
  EXPECT_EQ(Reading(rules, "all is well\n").failure(), "");
}

// Any bytes, in pieces of any size: no crash, no number out of nowhere, and memory that the log does not
// grow.
TEST(LogReader, GarbageIsBoundedAndIgnored) {
  Json json = GoodEngine()["log"];
  const LogRules text = RulesOf(json);
  const LogRules lines = RulesOf({{"lines", "json"}, {"step_time", {{"field", "t"}, {"unit", "s"}}}});
  std::mt19937 random(3);
  for (const LogRules* rules : {&text, &lines}) {
    LogReader reader(*rules, {});
    std::string bytes(100'000, ' ');
    for (int i = 0; i < 20; ++i) {
      for (char& c : bytes) c = static_cast<char>(random());
      reader.Add(std::string_view(bytes).substr(random() % bytes.size()));
      reader.Add("");
    }
    reader.Add(std::string(1 << 20, '{'));
    reader.Add(std::string(1 << 20, '[') + "\n");
    for (const char* value : {"nan", "-1", "1e999", "0", "inf", "1e300", "\"7\"", "0x10", ""}) {
      reader.Add(std::string("step 1 time ") + value + " ms peak " + value + " MiB loss nan\n");
      reader.Add(std::string("{\"t\": ") + value + "}\n");
    }
    reader.Finish();
    EXPECT_THAT(reader.TimedSteps(0, 10), IsEmpty());
    EXPECT_EQ(reader.peak_memory_bytes(), 0);
    EXPECT_LE(reader.tail().size(), LogReader::kTailBytes);
    EXPECT_GT(reader.bytes(), 2u << 20);
  }
  // After it, lines are read as ever; of a line too long only the start counts.
  LogReader reader(text, {});
  reader.Add("step 1 time 1 ms" + std::string(1 << 20, 'x') + " step 9 time 9 ms\nstep 2 time 2 ms\n");
  EXPECT_THAT(reader.TimedSteps(0, 10), ElementsAre(DoubleEq(0.001), DoubleEq(0.002)));
  LogReader endless(text, {});
  for (int i = 0; i < 200'000; ++i) endless.Add("step " + std::to_string(i) + " time 1 ms\n");
  EXPECT_EQ(endless.steps(), static_cast<std::int64_t>(LogReader::kMostSteps));
}

}  // namespace
}  // namespace autocfg::worker
