#include "search/fit/measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kHeader =
    "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_ms\n";
constexpr const char* kRow = "24,2048,16,1024,16,4,1,2,2,410.5\n";

absl::StatusOr<Measurements> Parse(const std::string& csv, const std::string& defaults = "vocab=51200",
                                   const char* cluster = "a100-80gb-sxm:1x8") {
  AUTOCFG_ASSIGN_OR_RETURN(const auto columns, ParseColumnDefaults(defaults));
  return ParseMeasurements(csv, columns, *PresetCluster(cluster));
}

std::string Refusal(const std::string& csv, const std::string& defaults = "vocab=51200") {
  const auto parsed = Parse(csv, defaults);
  EXPECT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(Measurements, ReadsRowsAndDefaults) {
  const auto parsed = Parse(std::string(kHeader) + kRow, "vocab=51200,recompute=full,precision=fp16");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_THAT(parsed->rows, SizeIs(1));
  EXPECT_THAT(parsed->skipped, IsEmpty());
  const Measurement& m = parsed->rows.front();
  EXPECT_EQ(m.line, 2);
  EXPECT_EQ(m.model.layers, 24);
  EXPECT_EQ(m.model.ffn_hidden, 4 * 2048) << "the model's defaults are filled in";
  EXPECT_EQ(m.model.vocab, 51200);
  EXPECT_EQ(m.model.max_seq_len, 1024);
  EXPECT_EQ(m.workload.global_batch, 16);
  EXPECT_EQ(PrecisionText(m.workload.precision), "fp16");
  EXPECT_EQ(m.plan.pp, 2);
  EXPECT_EQ(m.plan.recompute, Recompute::kFull);
  EXPECT_DOUBLE_EQ(m.step_time_s, 0.4105);
}

TEST(Measurements, ReadsSecondsQuotesAndFieldsByName) {
  const auto parsed = Parse(
      "iter_time_s,\"layers\",hidden,heads,seq_len,global_batch,mbs,tp,pp,dp,vocab,bias,activation,split,"
      "gpus\r\n"
      "\r\n"
      " 0.9 ,24,2048,16,1024,16,4,1,2,2,32000,false,swiglu,\"13+11\",4\r\n",
      "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_THAT(parsed->rows, SizeIs(1));
  EXPECT_EQ(parsed->rows[0].line, 3);
  EXPECT_EQ(parsed->rows[0].step_time_s, 0.9);
  EXPECT_FALSE(parsed->rows[0].model.qkv_bias);
  EXPECT_EQ(parsed->rows[0].model.activation, Activation::kSwiGlu);
  EXPECT_THAT(parsed->rows[0].plan.split_layers, ElementsAre(13, 11));
}

TEST(Measurements, TheClusterGetsTheNodesOfTheLargestPlan) {
  const auto parsed = Parse(std::string(kHeader) + "24,2048,16,1024,64,1,8,2,2,410.5\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->cluster.groups.front().nodes, 4);
}

TEST(Measurements, SkipsImpossibleRowsByName) {
  const auto parsed = Parse(
      "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_ms,gpus\n"
      "24,2048,16,1024,16,4,1,2,2,410.5,4\n"
      "24,2048,16,1024,16,4,1,2,2,410.5,4\n"
      "24,2048,16,1024,16,4,1,2,2,415,4\n"
      "24,2048,16,1024,16,4,1,2,2,-3,4\n"
      "24,2048,16,1024,16,4,3,2,2,500,12\n"
      "24,2048,16,1024,16,4,1,2,2,500,8\n"
      "24,2048,16,1024,16,4,1,2,2,0.41,4\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->rows, SizeIs(2)) << "the same plan with another time was measured again";
  ASSERT_THAT(parsed->skipped, SizeIs(5));
  EXPECT_EQ(parsed->skipped[0].line, 3);
  EXPECT_EQ(parsed->skipped[0].reason, "it repeats line 2");
  EXPECT_EQ(parsed->skipped[1].reason, "its time is not positive");
  EXPECT_THAT(parsed->skipped[2].reason, HasSubstr("tp"));
  EXPECT_EQ(parsed->skipped[3].reason, "gpus is 8, but tp x pp x dp is 4");
  EXPECT_THAT(parsed->skipped[4].reason, HasSubstr("faster than the devices' peak allows"));
}

TEST(Measurements, RefusesTimesInAnotherUnit) {
  EXPECT_THAT(
      Refusal(std::string(kHeader) + "24,2048,16,1024,16,4,1,2,2,0.4105\n"),
      HasSubstr("1 of 1 steps are faster than the devices' peak allows; is the unit milliseconds right for "
                "iter_time_ms?"));
  EXPECT_THAT(Refusal("layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_s\n"
                      "24,2048,16,1024,16,4,1,2,2,410.5\n"),
              HasSubstr("thousands of times slower than the devices' peak; is the unit seconds right"));
}

TEST(Measurements, RefusesTablesThatItCannotRead) {
  EXPECT_THAT(Refusal(""), HasSubstr("it is empty"));
  EXPECT_THAT(Refusal(kHeader), HasSubstr("it has no rows"));
  EXPECT_THAT(Refusal("layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,iter_time_ms\n"
                      "24,2048,16,1024,16,4,1,2,410.5\n"),
              HasSubstr("the column dp is missing; add it, or give one value for all rows with --default"));
  EXPECT_THAT(Refusal("layers,hidden\n1,2\n"),
              HasSubstr("the columns heads, seq_len, global_batch, tp, pp, dp, "
                        "micro_batch are missing"));
  EXPECT_THAT(Refusal("layers,layers\n1,2\n"), HasSubstr("column layers is there twice"));
  EXPECT_THAT(Refusal(std::string(kHeader) + "24,2048\n"),
              HasSubstr("line 2 has 2 cells, but there are 10 columns"));
  EXPECT_THAT(Refusal(std::string(kHeader) + "24,2048,16,1024,16,4,1,2,2,fast\n"),
              HasSubstr("line 2: iter_time_ms is \"fast\"; it must be a number"));
  EXPECT_THAT(Refusal(std::string(kHeader) + "24,two,16,1024,16,4,1,2,2,5\n"), HasSubstr("line 2: "));
  EXPECT_THAT(Refusal(std::string(kHeader) + "24,2048,16,1024,0,4,1,2,2,5\n"),
              HasSubstr("global_batch is \"0\"; it must be a whole number of at least 1"));
  EXPECT_THAT(Refusal(std::string(kHeader) + "\"24,2048,16,1024,16,4,1,2,2,5\n"),
              HasSubstr("a quote is not closed"));
  EXPECT_THAT(Refusal(std::string(kHeader) + kRow, "vocab=1,hidden=2"),
              HasSubstr("the file has the column hidden"));
  EXPECT_THAT(Refusal(std::string(kHeader) + kRow, "vocab=1,recomput=full"),
              HasSubstr("did you mean recompute"));
  EXPECT_THAT(Refusal(std::string(kHeader) + kRow, "vocab"), HasSubstr("\"vocab\" is not COLUMN=VALUE"));
  EXPECT_THAT(Refusal(std::string(kHeader) + kRow, "vocab=1,vocab=2"), HasSubstr("vocab is given twice"));
  EXPECT_THAT(Refusal(std::string(kHeader) + "24,2048,16,1024,16,4,5,2,2,410.5\n"),
              AllOf(HasSubstr("none of its 1 rows can be used; line 2: ")));
}

TEST(Measurements, AssumesTheVocabularyOfGpt2AndSaysSo) {
  const auto parsed = Parse(std::string(kHeader) + kRow, "recompute=full");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->rows.size(), 1u);
  EXPECT_EQ(parsed->rows.front().model.vocab, 50257);
  EXPECT_EQ(parsed->rows.front().plan.recompute, Recompute::kFull);
  EXPECT_THAT(parsed->notes,
              ElementsAre("no column has the vocabulary: it is taken as 50257 tokens, GPT-2's; --default "
                          "vocab=N says otherwise"));
}

TEST(Measurements, SkipsRowsInAPrecisionWithoutARate) {
  const auto parsed = Parse(
      "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_ms,precision\n"
      "24,2048,16,1024,16,4,1,2,2,410.5,bf16\n"
      "24,2048,16,1024,16,4,1,2,2,410.5,fp64\n"
      "24,2048,16,1024,16,4,1,2,2,410.5,fp8\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->rows, SizeIs(1));
  ASSERT_THAT(parsed->skipped, SizeIs(2));
  EXPECT_EQ(parsed->skipped[0].line, 3);
  EXPECT_EQ(parsed->skipped[0].reason, "the cluster's device has no rate in fp64");
  EXPECT_EQ(parsed->skipped[1].reason, "the cluster's device has no rate in fp8");
}

TEST(Measurements, NamesColumnsThatItDoesNotUse) {
  const auto parsed = Parse(
      "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_ms,recomput\n"
      "24,2048,16,1024,16,4,1,2,2,410.5,full\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->notes, ElementsAre("column recomput is not used; did you mean recompute?"));
}

}  // namespace
}  // namespace autocfg
