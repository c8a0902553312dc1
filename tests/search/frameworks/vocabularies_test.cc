// How many tokens the vocabulary of a file has: by its settings, its tokenizer, or by what the user says.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
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
