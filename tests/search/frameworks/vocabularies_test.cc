// How many tokens the vocabulary of a file has: by its settings, its tokenizer, or by what the user says.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/settings/tokenizers.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<FrameworkRun> ReadMegatronWith(const std::string& tokens, std::int64_t vocab) {
  std::string text = FlagsWith(tokens);
  text.erase(text.find("--vocab-size 1000\n"), std::string("--vocab-size 1000\n").size());
  ReadingOptions options;
  options.ranks = 8;
  options.vocab = vocab;
  return ReadFrameworkFile(kMegatron, "a.args", text, options);
}

TEST(Vocabularies, MegatronsTokenizers) {
  const auto missing = ReadMegatronWith("", 0);
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_EQ(missing->model.vocab, 50257);
  EXPECT_THAT(missing->notes,
              Contains("--tokenizer-type is missing: the framework then takes GPT2BPETokenizer, of 50257 "
                       "tokens"));
  EXPECT_EQ(ReadMegatronWith("--tokenizer-type GPT2BPETokenizer", 0)->model.vocab, 50257);
  EXPECT_EQ(ReadMegatronWith("--tokenizer-type NullTokenizer --vocab-size 131071", 0)->model.vocab, 131072);
  EXPECT_EQ(ReadMegatronWith("--tokenizer-type HuggingFaceTokenizer", 128256)->model.vocab, 128256);
  EXPECT_EQ(ReadMegatronWith("", 128256)->model.vocab, 128256);
  EXPECT_EQ(ReadMegatronWith("--tokenizer-type HuggingFaceTokenizer", 0).status().message(),
            "a.args: the file does not say how many tokens HuggingFaceTokenizer has; give --vocab");
  EXPECT_THAT(ReadMegatronWith("--tokenizer-type Llama2Tokenizer", 32256)->notes,
              Contains("a.args:7: --tokenizer-type has 32000 tokens; read with the 32256 of --vocab"));
}

TEST(Vocabularies, TokenizersAreKnownByName) {
  EXPECT_EQ(TokensOfTokenizer("meta-llama/Llama-2-7b-hf"), 32000);
  EXPECT_EQ(TokensOfTokenizer("meta-llama/Meta-Llama-3-8B"), 128256);
  EXPECT_EQ(TokensOfTokenizer("/data/Llama-3.1-70B-Instruct/"), 128256);
  EXPECT_EQ(TokensOfTokenizer("mistralai/Mistral-7B-v0.1"), 32000);
  EXPECT_EQ(TokensOfTokenizer("mistralai/Mistral-7B-v0.3"), 32768);
  EXPECT_EQ(TokensOfTokenizer("tiiuae/falcon-7b"), 65024);
  EXPECT_EQ(TokensOfTokenizer("Qwen/Qwen2.5-7B"), 151665);
  EXPECT_EQ(TokensOfTokenizer("gpt2"), 50257);
  EXPECT_EQ(TokensOfTokenizer("/data/tokenizer.model"), 0);
  EXPECT_EQ(TokensOfTokenizer(""), 0);
  EXPECT_EQ(TokensOfTokenizer(std::vector<std::string>{"gpt2", "gpt2"}), 0);
}

TEST(Vocabularies, WhatAFileSaysIsNotReplaced) {
  EXPECT_EQ(ReadMegatronWith("--tokenizer-type NullTokenizer\n--vocab-size 131073", 50257).status().message(),
            "a.args:8: --vocab-size says 131074 tokens, and --vocab 50257; change one of them");
  EXPECT_TRUE(ReadMegatronWith("--tokenizer-type NullTokenizer\n--vocab-size 131073", 131074).ok());
  ReadingOptions options;
  options.ranks = 8;
  options.vocab = 50257;
  const auto status = [&](std::string_view framework, const std::string& text) {
    return std::string(ReadFrameworkFile(framework, "f", text, options).status().message());
  };
  EXPECT_THAT(status(kNemo, SmallFile(kNemo, "model.seed", 1)),
              HasSubstr("model.override_vocab_size says 1024 tokens, and --vocab 50257"));
  EXPECT_EQ(status(kTorchtitan, SmallFile(kTorchtitan, "training.seed", 1)),
            "f: the model has 128256 tokens, and --vocab is 50257; leave --vocab out");
  options.model = *ModelPreset("llama3-8b");
  EXPECT_THAT(status(kDeepSpeed, SmallFile(kDeepSpeed, "steps_per_print", 1)),
              HasSubstr("leave --vocab out"));
  options.vocab = 128256;
  EXPECT_THAT(status(kDeepSpeed, SmallFile(kDeepSpeed, "steps_per_print", 1)), IsEmpty());
}

}  // namespace
}  // namespace autocfg
