#include "cli/report/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "search/cost/memory/memory_model.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;

constexpr BarStyle kStyle = {.columns = 80, .unicode = false, .color = false};

SearchQuestion Question(const char* model) {
  SearchQuestion question;
  question.model = *ModelPreset(model);
  FillDefaults(question.model);
  question.cluster = *PresetCluster("a100-80gb-sxm:1x8");
  question.workload = {64, 1024, *ParsePrecision("bf16")};
  return question;
}

Explanation Of(const SearchQuestion& question, const char* plan) {
  auto predictor = Predictor::Create(question);
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  auto explanation = Explain(*predictor, *ParsePlanText(plan));
  EXPECT_TRUE(explanation.ok()) << explanation.status();
  return *std::move(explanation);
}

void ExpectWithin(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // The length of plans and sentences is not limited.
    const bool prose = line.find('#') == std::string::npos;
    EXPECT_TRUE(prose || line.size() <= columns) << line.size() << ": " << line;
  }
}

TEST(Explain, RanksOfThePipeline) {
  const auto question = Question("gpt2-124m");
  const auto explained = Of(question, "pp=4,dp=2,mbs=2");
  const Prediction& p = explained.predicted.prediction;
  ASSERT_EQ(explained.ranks.size(), 4u);
  EXPECT_EQ(explained.ranks[0].layers, "0-2");
  EXPECT_EQ(explained.ranks[3].layers, "9-11");
  EXPECT_EQ(explained.ranks[0].in_flight, "4") << "1F1B: one for each rank from here to the end";
  EXPECT_EQ(explained.ranks[3].in_flight, "1");
  std::int64_t most = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GT(explained.ranks[i].busy_s, 0);
    EXPECT_LE(explained.ranks[i].busy_s, p.step_time_s);
    most = std::max(most, explained.ranks[i].memory_bytes);
  }
  EXPECT_EQ(most, p.memory.Total()) << "the worst rank's is the plan's";
}

TEST(Explain, ChunksOfInterleavedRanks) {
  const auto explained = Of(Question("gpt2-124m"), "pp=2,dp=2,vpp=3,mbs=2");
  ASSERT_EQ(explained.ranks.size(), 2u);
  EXPECT_EQ(explained.ranks[0].layers, "0-1, 4-5, 8-9");
  EXPECT_EQ(explained.ranks[1].layers, "2-3, 6-7, 10-11");
  EXPECT_NE(explained.ranks[0].in_flight.find('+'), std::string::npos);
}

TEST(Explain, BusyTimeAddsUpToTheWork) {
  // A single rank waits for no other rank, so it is always busy.
  const auto alone = Of(Question("gpt2-124m"), "mbs=2");
  EXPECT_NEAR(alone.ranks[0].busy_s, alone.predicted.prediction.step_time_s,
              0.02 * alone.predicted.prediction.step_time_s);
}

TEST(ExplanationText, SaysHowMuchCommunicationIsHidden) {
  const auto question = Question("gpt2-124m");
  Explanation explained = Of(question, "tp=2,pp=2,dp=2,mbs=2");
  Breakdown& parts = explained.predicted.prediction.breakdown;
  const auto text = [&](double exposed_s, std::optional<double> hidden_s) {
    parts.tp_comm = exposed_s;
    parts.pp_comm = parts.dp_comm = 0;
    explained.hidden_comm_s = hidden_s;
    return ExplanationText(explained, question, kStyle);
  };
  EXPECT_THAT(text(0.5, 0.25), testing::HasSubstr("  communication: 500 ms exposed, 250 ms hidden\n"));
  EXPECT_THAT(text(0.5, 0), testing::HasSubstr("  communication: 500 ms exposed\n"));
  EXPECT_THAT(text(0, 0.25), testing::HasSubstr("  communication: 250 ms, all of it hidden\n"));
  EXPECT_THAT(text(0, 0), testing::HasSubstr("  communication: none\n"));
  EXPECT_THAT(text(0.5, std::nullopt), testing::HasSubstr("  communication: 500 ms exposed\n"));
}

TEST(ExplanationText, FitsOneScreenWithEveryPart) {
  const auto question = Question("gpt2-124m");
  const auto explained = Of(question, "tp=2,pp=2,dp=2,mbs=2");
  const std::string text = ExplanationText(explained, question, kStyle);
  for (const char* part : {"plan: tp=2,pp=2,dp=2,mbs=2  (predicted)",
                           "time of a step",
                           "90% interval",
                           "compute",
                           "recompute",
                           "tensor comm.",
                           "pipeline comm.",
                           "data comm.",
                           "bubble",
                           "optimizer",
                           "memory of the worst rank",
                           "parameters",
                           "activations",
                           "free",
                           "rank  layers",
                           "0-5",
                           "6-11",
                           "of the step",
                           "stay free",
                           "model: gpt2-124m",
                           "a100-80gb-sxm"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  ExpectWithin(text, 80);
  BarStyle narrow = kStyle;
  narrow.columns = 40;
  EXPECT_FALSE(ExplanationText(explained, question, narrow).empty()) << "it wraps rather than fails";
}

TEST(ExplanationText, SaysHowMuchMemoryIsMissing) {
  const auto question = Question("gpt3-175b");
  const auto explained = Of(question, "tp=8,mbs=1");
  const std::string text = ExplanationText(explained, question, kStyle);
  EXPECT_THAT(text, HasSubstr("does not fit"));
  EXPECT_THAT(text, HasSubstr("too much"));
  EXPECT_THAT(text, HasSubstr("more memory than a rank has"));
}

TEST(ExplanationText, LongPipelinesOmitMiddleRanks) {
  auto question = Question("gpt3-175b");
  question.cluster = *PresetCluster("a100-80gb-sxm:96x8");
  const std::string text = ExplanationText(Of(question, "tp=8,pp=96,mbs=1"), question, kStyle);
  EXPECT_THAT(text, HasSubstr("   ...\n"));
  EXPECT_THAT(text, HasSubstr("\n    95  95 "));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
}

TEST(WhatDiffers, NamesThePartsThatMakeMostOfIt) {
  const auto of = [](const Breakdown& parts) {
    Prediction prediction;
    prediction.breakdown = parts;
    prediction.step_time_s = parts.Total();
    return prediction;
  };
  const Prediction base = of({.compute = 10, .tp_comm = 2, .bubble = 3});
  EXPECT_EQ(WhatDiffers(of({.compute = 14, .tp_comm = 3, .bubble = 3}), base),
            "Of the 5 s more, compute makes 4 s (80%).");
  EXPECT_EQ(WhatDiffers(base, of({.compute = 14, .tp_comm = 3, .bubble = 3})),
            "Of the 5 s less, compute makes 4 s (80%).");
  EXPECT_EQ(WhatDiffers(of({.compute = 12, .tp_comm = 4, .bubble = 3}), base),
            "Of the 4 s more, compute makes 2 s (50%), tensor comm. makes 2 s (50%).");
  EXPECT_EQ(WhatDiffers(of({.compute = 15, .tp_comm = 2, .bubble = 2}), base),
            "Of the 4 s more, compute makes 5 s (125%); other parts take 1 s less.");
  EXPECT_EQ(
      WhatDiffers(of({.compute = 11, .recompute = 1, .tp_comm = 3, .dp_comm = 1, .bubble = 3}), base),
      "Of the 4 s more, compute makes 1 s (25%), recompute makes 1 s (25%), tensor comm. makes 1 s (25%).");
  EXPECT_EQ(WhatDiffers(base, base), "");
}

TEST(ComparisonText, ShowsDifferencesOfTheFirstToTheSecond) {
  const auto question = Question("gpt2-124m");
  const auto full = Of(question, "tp=2,pp=2,dp=2,mbs=2,recompute=full"),
             none = Of(question, "tp=2,pp=2,dp=2,mbs=2");
  const std::string text = ComparisonText(full, none, question, kStyle);
  EXPECT_THAT(text, HasSubstr("first:  tp=2,pp=2,dp=2,mbs=2,recompute=full  (predicted)"));
  EXPECT_THAT(text, HasSubstr("second: tp=2,pp=2,dp=2,mbs=2  (predicted)"));
  EXPECT_THAT(text, testing::ContainsRegex("recompute +[^\n]*\\+")) << "the first takes more of it";
  EXPECT_THAT(text, testing::ContainsRegex("activations +[^\n]*-")) << "and keeps less";
  EXPECT_THAT(text, testing::ContainsRegex("The first takes [0-9.]+% more time than the second"));
  EXPECT_THAT(text, testing::ContainsRegex("\nOf the [^\n]* more, recompute makes [^\n]*%\\)[^\n]*\\.\n"));
  EXPECT_THAT(ComparisonText(none, full, question, kStyle),
              testing::ContainsRegex("The first takes [0-9.]+% less time than the second"));
  EXPECT_THAT(ComparisonText(none, none, question, kStyle), HasSubstr("Both take the same time."));
  ExpectWithin(text, 80);
}

}  // namespace
}  // namespace autocfg::cli
