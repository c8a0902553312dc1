// Options about a whole training run: their values, and the lines of refused ones.
#include "cli/input/training_options.h"

#include <gtest/gtest.h>

#include "tests/cli/one_clear_line.h"

namespace autocfg::cli {
namespace {

TEST(ParseTokens, TakesNumbersAndUnits) {
  for (const auto& [text, tokens] :
       {std::pair("300e9", 300e9), std::pair("300000000000", 300e9), std::pair("300B", 300e9),
        std::pair("1.5T", 1.5e12), std::pair("20M", 20e6), std::pair("5K", 5e3), std::pair("1", 1.0)}) {
    const auto parsed = ParseTokens("--tokens", text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_DOUBLE_EQ(*parsed, tokens) << text;
  }
  EXPECT_EQ(*ParseTokens("--tokens", "1.005k"), 1005) << "its product with 1000 is rounded to less";
  for (const char* text : {"1.5", "1e-1", "2.0005k", "1000000.25"}) {
    const auto part = ParseTokens("--tokens", text);
    EXPECT_EQ(part.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text : {"0", "-1", "B", "300G", "1.5TB", "nan", "inf", "1e19", "2000000T", "12 B", "1,5T"})
    EXPECT_FALSE(ParseTokens("--tokens", text).ok()) << text;
}

TEST(LoadTrainingTerms, TakesUnitsAndTellsWhatTheyWereReadAs) {
  const TrainingOptions options{.tokens = "1T",
                                .price_per_gpu_hour = "$2.10",
                                .mtbf_hours = "90m",
                                .checkpoint_seconds = "5m",
                                .restart_seconds = "300"};
  const auto terms = LoadTrainingTerms(options);
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->price_per_gpu_hour, 2.10);
  EXPECT_EQ(terms->node_mtbf_s, 5400);
  EXPECT_EQ(terms->checkpoint_s, 300);
  EXPECT_EQ(terms->restart_s, 300);
  EXPECT_EQ(UnitNotes(options),
            (std::vector<std::string>{"--tokens: 1T is 1,000,000,000,000 tokens",
                                      "--price-per-gpu-hour: $2.10 is 2.10 a GPU-hour, in any currency",
                                      "--mtbf-hours: 90m is 1 h 30 min",
                                      "--checkpoint-seconds: 5m is 5 min 00 s"}));
}

TEST(LoadTrainingTerms, ReadsEachOptionInItsUnit) {
  const auto none = LoadTrainingTerms({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->Asked());
  const auto all = LoadTrainingTerms({.tokens = "1T",
                                      .price_per_gpu_hour = "2.5",
                                      .mtbf_hours = "1000",
                                      .checkpoint_seconds = "30",
                                      .restart_seconds = "0"});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->tokens, 1e12);
  EXPECT_EQ(all->price_per_gpu_hour, 2.5);
  TrainingOptions price;
  price.price_per_gpu_hour = "2.5";
  EXPECT_EQ(UnitNotes(price),
            std::vector<std::string>{"--price-per-gpu-hour: 2.50 a GPU-hour, in any currency"});
  EXPECT_EQ(all->node_mtbf_s, 3.6e6);
  EXPECT_EQ(all->checkpoint_s, 30);
  EXPECT_EQ(all->restart_s, 0);
  TrainingOptions failures;
  failures.mtbf_hours = "10";
  EXPECT_EQ(LoadTrainingTerms(failures)->restart_s, kRestartSeconds);
}

TEST(TrainingOptions, RefusedOnesAreOneClearLine) {
  const auto refuse = [](const char* option, const char* value, const std::vector<std::string>& says) {
    ExpectOneClearLine({"search", "--model", "gpt2-tiny", "--global-batch", "8", option, value}, 2, says);
  };
  refuse("--tokens", "many", {"--tokens: invalid value 'many'", "300B or 1.5T"});
  refuse("--tokens", "0", {"--tokens: invalid value '0'"});
  refuse("--tokens", "1.5", {"--tokens: invalid value '1.5'; expected a whole number from 1 to 1e+18"});
  refuse("--price-per-gpu-hour", "-1", {"--price-per-gpu-hour: invalid value '-1'"});
  refuse("--price-per-gpu-hour", "free", {"--price-per-gpu-hour"});
  refuse("--mtbf-hours", "0", {"--mtbf-hours: invalid value '0'"});
  refuse("--checkpoint-seconds", "5",
         {"--checkpoint-seconds has no effect without failures", "--mtbf-hours"});
  refuse("--restart-seconds", "5", {"--restart-seconds has no effect without failures", "--mtbf-hours"});
  for (const char* option :
       {"--tokens", "--price-per-gpu-hour", "--mtbf-hours", "--checkpoint-seconds", "--restart-seconds"})
    refuse(option, "", {std::string(option) + ": it is empty"});
}

}  // namespace
}  // namespace autocfg::cli
