// Data files of `autocfg train`, as a user sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/token_files.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using test::LlmcBytes;
using test::MegatronPair;
using test::Packed;
using testing::HasSubstr;

constexpr const char* kDataModel =
    R"({"name": "m", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";

class TrainData : public testing::Test {
 protected:
  TrainData() : model_(home_.Write("model.json", kDataModel)) {}
  Finished Train(const std::string& data) const {
    return RunAutocfg(home_, {"train", "--model", model_, "--plan", "tp=2,mbs=2", "--steps", "3", "--device",
                              "cpu", "--json", "--data", data});
  }
  const ScratchDirectory home_;
  const std::string model_;
};

std::vector<std::uint32_t> DataTokens() {
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < 100; ++i) tokens.push_back(i * 37 % 128);
  return tokens;
}

TEST_F(TrainData, EveryFormOfTheSameTokensTrainsAlike) {
  const std::vector<std::uint32_t> tokens = DataTokens();
  MegatronPair pair{
      .documents = {{tokens.begin(), tokens.begin() + 40}, {tokens.begin() + 40, tokens.end()}}};
  home_.Write("megatron.bin", pair.Data());
  home_.Write("megatron.idx", pair.Index());
  struct Form {
    std::string file, said;
  };
  const std::vector<Form> forms = {
      {home_.Write("a.u16", Packed(tokens, 2)), "a.u16 is taken as uint16 tokens: 100 tokens"},
      {home_.Write("a.u32", Packed(tokens, 4)), "a.u32 is taken as uint32 tokens: 100 tokens"},
      {home_.Write("a.txt", Packed(tokens, 1)), "a.txt is taken as bytes, a token each: 100 tokens"},
      {home_.Write("a.bin", Packed(tokens, 2)), "a.bin is taken as uint16 tokens, as nanoGPT writes them"},
      {home_.Write("b.bin", LlmcBytes(tokens)),
       "b.bin is taken as uint16 tokens behind the header of llm.c: 100 tokens"},
      {home_ / "megatron.bin", "taken as a Megatron indexed dataset of uint16 tokens in 2 documents: 100"},
      {home_ / "megatron", "taken as a Megatron indexed dataset of uint16 tokens in 2 documents: 100"}};
  Json losses;
  for (const auto& [file, said] : forms) {
    const auto finished = Train(file);
    ASSERT_EQ(finished.exit_code, 0) << file << ": " << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(said));
    const Json answer = Json::parse(finished.out);
    if (losses.is_null()) losses = answer["losses"];
    EXPECT_EQ(answer["losses"], losses) << file;
  }
}

TEST_F(TrainData, BadFilesAreOneClearLine) {
  const auto refuse = [&](const std::string& file, const std::string& says) {
    const auto finished = Train(file);
    EXPECT_EQ(finished.exit_code, 2) << file << ": " << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(says));
  };
  const auto pair = [&](const std::string& name, const MegatronPair& of) {
    home_.Write(name + ".idx", of.Index());
    return home_.Write(name + ".bin", of.Data());
  };
  refuse(home_ / "none.bin", "--data: " + (home_ / "none.bin") + ": cannot be read");
  refuse(home_ / "none", "cannot be read");
  refuse(home_.path(), "is a directory");
  refuse(home_.Write("empty.bin", ""), "empty.bin is empty; give a file with tokens");
  refuse(home_.Write("odd.bin", "abc"), "has 3 bytes, which is not a whole number of 2-byte tokens");
  refuse(home_.Write("odd.u32", "abcdef"), "has 6 bytes, which is not a whole number of 4-byte tokens");
  refuse(home_.Write("big.u16", Packed({1, 2, 500}, 2)),
         "token 500 at position 2 of data file " + (home_ / "big.u16") + " is outside the vocabulary of 128");
  refuse(home_.Write("big.bin", LlmcBytes({1, 2, 500})), "token 500 at position 2");
  refuse(pair("big32", {.documents = {{1}, {2, 70000}}, .code = 4, .width = 4}), "token 70000 at position 2");
  refuse(pair("i64", {.documents = {{1}}, .code = 5, .width = 8}),
         "tokens of type int64; write them as uint16");
  std::string cut = LlmcBytes(DataTokens());
  cut.resize(cut.size() - 2);
  refuse(home_.Write("cut.bin", cut), "has 198 bytes after its header, which says 100 tokens of 2 bytes");
  const std::string data = pair("torn", {.documents = {{1, 2, 3}}});
  home_.Write("torn.bin", Packed({1, 2}, 2));
  refuse(data, "torn.bin has 4 bytes, and its index");
  home_.Write("torn.idx", "not an index");
  refuse(data, "torn.idx begins with 'not an in', not with the MMIDIDX of a Megatron index");
  home_.Write("only.idx", MegatronPair{.documents = {{1}}}.Index());
  refuse(home_ / "only.idx", "is the index of a Megatron pair and has no tokens; give the .bin beside it");
  refuse(home_ / "only", "cannot be read");
}

}  // namespace
}  // namespace autocfg::cli
