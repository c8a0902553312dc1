// The text of a search's answer: every time is labelled, and every line fits a terminal.
#include "cli/report/report.h"

#include <cstdint>
#include <sstream>
#include <string>

#include "cli/report/prediction_report.h"
#include "gtest/gtest.h"
#include "proto/answer/answer_json.h"
#include "search/plan/model_spec.h"
#include "tests/proto/answer/sample_answer.h"

namespace autocfg::cli {
namespace {

using test::Answer;
using test::Candidate;
using test::Question;

TEST(SearchReport, EveryTimeIsLabelled) {
  const std::string text = SearchReport({Question(), Answer()}, "autocfg train --input best.json --steps 10");
  EXPECT_NE(text.find("tp=1,pp=2,dp=1,mbs=2,recompute=full  (measured)"), std::string::npos) << text;
  EXPECT_NE(text.find("measured"), std::string::npos);
  EXPECT_NE(text.find("predicted"), std::string::npos);
  EXPECT_NE(text.find("30 enumerated = 10 illegal + 0 out of memory + 20 predicted; 2 measured"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("heads_not_divisible 10"), std::string::npos);
  EXPECT_NE(text.find("machine: this one, 2 ranks on its cpu, 1.0 GiB a rank"), std::string::npos) << text;
  EXPECT_NE(text.find("model: mine, 16 sequences of 32 tokens a step, fp64"), std::string::npos) << text;
  EXPECT_NE(text.find("next: autocfg train --input best.json"), std::string::npos);
}

TEST(SearchReport, PredictOnlyNeverSaysMeasured) {
  auto question = Question();
  question.cluster.local = false;
  question.cluster.name = "a100-80gb-sxm:1x2";
  question.predict_only = true;
  auto answer = Answer();
  *answer.mutable_best() = Candidate("tp=1,pp=2,dp=1,mbs=2", 0);
  answer.clear_runners_up();
  *answer.add_runners_up() = Candidate("tp=2,pp=1,dp=1,mbs=2", 0);
  const std::string text = SearchReport({question, answer}, "autocfg explain");
  EXPECT_EQ(text.find("measur"), std::string::npos) << text;
  EXPECT_NE(text.find("best plan: tp=1,pp=2,dp=1,mbs=2  (predicted)"), std::string::npos) << text;
  EXPECT_NE(text.find("cluster: a100-80gb-sxm:1x2, 2 ranks\n"), std::string::npos) << text;
  const auto json = *AnswerJson({question, answer});
  EXPECT_EQ(json["best"]["provenance"], "predicted");
  EXPECT_EQ(json["best"]["measured"], nullptr);
  EXPECT_EQ(json["device"], nullptr);
}

TEST(SearchReport, EmulatedTimesAreMarked) {
  auto question = Question();
  question.device = EngineDevice::kPaced;
  EXPECT_NE(SearchReport({question, Answer()}, "").find("(measured on the paced device: emulated)"),
            std::string::npos);
  const auto json = *AnswerJson({question, Answer()});
  EXPECT_EQ(json["best"]["measured"]["emulated"], true);
  EXPECT_EQ(json["device"], "paced");
  EXPECT_EQ((*AnswerJson({Question(), Answer()}))["best"]["measured"]["emulated"], false);
}

TEST(SearchReport, AnotherEngineIsNamedWithItsVersion) {
  auto answer = Answer();
  v1::Measurement& measured = *answer.mutable_best()->mutable_measured();
  EXPECT_EQ((*AnswerJson({Question(), answer}))["best"]["measured"]["engine"], "autocfg");
  EXPECT_EQ((*AnswerJson({Question(), answer}))["best"]["measured"]["engine_version"], measured.build_id());
  measured.set_engine("megatron");
  measured.set_engine_version("core 0.15");
  measured.set_peak_memory_bytes(std::int64_t{3} << 30);
  const std::string text = SearchReport({Question(), answer}, "");
  EXPECT_NE(text.find("(measured on megatron core 0.15)"), std::string::npos) << text;
  EXPECT_NE(text.find("3.0 GiB peak, as its log says"), std::string::npos) << text;
  const auto json = *AnswerJson({Question(), answer});
  EXPECT_EQ(json["best"]["measured"]["engine"], "megatron");
  EXPECT_EQ(json["best"]["measured"]["engine_version"], "core 0.15");
}

TEST(SearchReport, SlicesAreMarkedAndTheirPlansPredicted) {
  auto answer = Answer();
  answer.mutable_best()->mutable_measured()->set_slice(true);
  const std::string text = SearchReport({Question(), answer}, "");
  EXPECT_NE(text.find("one rank alone, a slice"), std::string::npos) << text;
  const auto json = *AnswerJson({Question(), answer});
  EXPECT_EQ(json["best"]["provenance"], "predicted");
  EXPECT_EQ(json["best"]["measured"]["slice"], true);
  EXPECT_EQ(json["best"]["measured"]["tokens_per_s"], nullptr) << "one rank's time is not the step's";
}

// If a slice was measured, the answer explains that its time is not a step time of the plan.
TEST(SearchReport, ExplainsSlices) {
  v1::Recommendation answer = Answer();
  EXPECT_EQ(SearchReport({Question(), answer}, "").find("slice"), std::string::npos);
  answer.mutable_runners_up(0)->mutable_measured()->set_slice(true);
  const std::string report = SearchReport({Question(), answer}, "");
  EXPECT_NE(report.find("it is not a step time of the plan"), std::string::npos) << report;
  EXPECT_EQ((*AnswerJson({Question(), answer}))["runners_up"][0]["provenance"], "predicted");
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ShortPlan, OmitsStagesOfALongSplit) {
  std::string split = "3";
  for (int stage = 1; stage < 96; ++stage) split += stage % 2 == 0 ? "+3" : "+4";
  const std::string plan = "tp=8,pp=96,dp=2,mbs=1,split=" + split + ",recompute=full";
  EXPECT_EQ(ShortPlan(plan, 70), "tp=8,pp=96,dp=2,mbs=1,split=3+4+3+4+3+4+... (96 stages),recompute=full")
      << "of 70 characters";
  EXPECT_EQ(ShortPlan("tp=8,pp=2,dp=2,mbs=1,split=5+7", 70), "tp=8,pp=2,dp=2,mbs=1,split=5+7");
  EXPECT_EQ(ShortPlan("tp=8,pp=5,dp=2,mbs=1,split=3+4+4+4+3,sp=1", 70),
            "tp=8,pp=5,dp=2,mbs=1,split=3+4x3+3,sp=1");
  EXPECT_EQ(ShortPlan("tp=8,pp=2,dp=2,mbs=1", 5), "tp=8,pp=2,dp=2,mbs=1") << "there is no split to shorten";
  EXPECT_EQ(ShortPlan(plan, 10), "tp=8,pp=96,dp=2,mbs=1,split=... (96 stages),recompute=full");
}

// Splits over many stages are shortened so that every line of a table fits a terminal; the JSON keeps them
// whole.
TEST(SearchReport, LongSplitsFitATerminal) {
  std::string split = "1";
  for (int stage = 1; stage < 96; ++stage) split += "+1";
  auto question = Question();
  question.model.layers = 96;
  v1::Recommendation answer = Answer();
  *answer.mutable_best() = Candidate("tp=1,pp=96,dp=1,mbs=2,split=2" + split + ",recompute=full", 0.25);
  *answer.mutable_runners_up(0) = Candidate("tp=1,pp=96,dp=1,mbs=2,split=" + split + "+2", 0.375);
  for (int i = 0; i < 12; ++i)
    (*answer.mutable_counts()
          ->mutable_rejected())[std::string("a_reason_of_some_length_") + std::to_string(i)] = 123'456;
  answer.set_wall_s(4000);
  answer.set_device_s(40'000);
  answer.set_exhaustive_device_s(400'000);
  EXPECT_NE(SearchReport({question, answer}, "").find(" 123,456,\n          a_reason_of"), std::string::npos)
      << SearchReport({question, answer}, "");
  std::istringstream lines(SearchReport({question, answer}, ""));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ParametersText, HasThreeDigitsAndAUnit) {
  ModelSpec model{.layers = 1, .hidden = 1000, .heads = 1, .kv_heads = 1, .head_dim = 1};
  model.position = Position::kNone;
  model.vocab = 1;
  EXPECT_EQ(ParametersText(model), "0.013 M");
  model.vocab = 999'400;
  EXPECT_EQ(ParametersText(model), "999 M");
  model.vocab = 999'600;
  EXPECT_EQ(ParametersText(model), "1 B");
  model.vocab = 8'030'000;
  EXPECT_EQ(ParametersText(model), "8.03 B");
  model.vocab = 99'000'000;
  model.hidden = 12'000;
  EXPECT_EQ(ParametersText(model), "1.19 T");
}

TEST(SearchReport, SaysHowManyParameters) {
  EXPECT_NE(
      SearchReport({Question(), Answer()}, "").find("params: " + ParametersText(Question().model) + "\n"),
      std::string::npos)
      << SearchReport({Question(), Answer()}, "");
  EXPECT_EQ((*AnswerJson({Question(), Answer()}))["parameters"], ParameterCount(Question().model));
}

}  // namespace
}  // namespace autocfg::cli
