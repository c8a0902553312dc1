// Forms of token files: how each is told apart, what it holds, and what is refused.
#include "trainer/run/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "tests/support/temp_dir.h"
#include "tests/support/token_files.h"
#include "trainer/layout/errors.h"
#include "trainer/run/data.h"

namespace autocfg::trainer {
namespace {

using test::LlmcBytes;
using test::MegatronPair;
using test::Packed;
using ::testing::HasSubstr;

class TokenFiles : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    return test::WriteBytes(directory_.File(name), bytes);
  }
  // Writes NAME.bin and NAME.idx, and returns NAME.
  std::string WritePair(const std::string& name, const MegatronPair& pair) {
    Write(name + ".bin", pair.Data());
    Write(name + ".idx", pair.Index());
    return directory_.File(name);
  }
  static std::vector<std::int32_t> AllOf(const std::string& path) {
    const std::int64_t count = OpenTokens(path).count;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    OpenTokenFile(path, 1, std::int64_t{1} << 31)->Read(0, tokens);
    return tokens;
  }
  static std::string ErrorOf(const std::string& path) {
    try {
      OpenTokens(path);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "no error";
  }
  const TempDir directory_;
};

TEST_F(TokenFiles, MegatronPairsHaveTheirDocumentsInOrder) {
  const MegatronPair pair{.documents = {{5, 6, 7}, {}, {8}, {65535}}};
  const std::string prefix = WritePair("corpus", pair);
  for (const std::string& path : {prefix, prefix + ".bin"}) {
    EXPECT_EQ(AllOf(path), (std::vector<std::int32_t>{5, 6, 7, 8, 65535}));
    EXPECT_EQ(OpenTokens(path).form, "a Megatron indexed dataset of uint16 tokens in 4 documents");
  }
  EXPECT_EQ(OpenTokenFile(prefix, 1, 70000)->Description(),
            "data: " + prefix +
                ".bin is taken as a Megatron indexed dataset of uint16 tokens in 4 documents: 5 tokens");
}

TEST_F(TokenFiles, MegatronPairsMayHaveInt32TokensSeveralSequencesADocumentAndModes) {
  MegatronPair wide{.documents = {{70000, 1}, {2}}, .code = 4, .width = 4};
  EXPECT_EQ(AllOf(WritePair("wide", wide)), (std::vector<std::int32_t>{70000, 1, 2}));
  wide.boundaries = {0, 2};  // both sequences are one document
  EXPECT_EQ(OpenTokens(WritePair("joined", wide)).form,
            "a Megatron indexed dataset of int32 tokens in 1 document");
  wide.modes = true;
  EXPECT_EQ(AllOf(WritePair("modes", wide)), (std::vector<std::int32_t>{70000, 1, 2}));
}

TEST_F(TokenFiles, LongIndexesAreReadInChunks) {
  MegatronPair pair;
  for (int i = 0; i < 300'000; ++i) pair.documents.push_back({static_cast<std::uint32_t>(i % 1000)});
  const TokenFile file = OpenTokens(WritePair("long", pair));
  EXPECT_EQ(file.count, 300'000);
  pair.lengths_off_at = 200'000;
  EXPECT_THAT(ErrorOf(WritePair("off", pair)), HasSubstr("has sequence 200001 at byte 400002, and the "
                                                         "sequences before it end at byte 400004"));
}

TEST_F(TokenFiles, BinFilesAreToldApartByTheirMagic) {
  const std::string header = Write("a.bin", LlmcBytes({9, 8, 65535}));
  EXPECT_EQ(AllOf(header), (std::vector<std::int32_t>{9, 8, 65535}));
  EXPECT_EQ(OpenTokens(header).form, "uint16 tokens behind the header of llm.c");
  EXPECT_EQ(AllOf(Write("l3.bin", LlmcBytes({9, 128000}, 20240801, 7, 4))),
            (std::vector<std::int32_t>{9, 128000}));
  const std::string raw = Write("raw.bin", Packed({9, 8, 65535}, 2));
  EXPECT_EQ(AllOf(raw), (std::vector<std::int32_t>{9, 8, 65535}));
  EXPECT_EQ(OpenTokens(raw).form, "uint16 tokens, as nanoGPT writes them");
  EXPECT_EQ(AllOf(Write("one.bin", Packed({7}, 2))), (std::vector<std::int32_t>{7}));
  EXPECT_EQ(AllOf(Write("text.txt", "ab")), (std::vector<std::int32_t>{'a', 'b'}));
  EXPECT_EQ(OpenTokens(Write("magic.u16", LlmcBytes({1}))).count, 513) << "the ending says what it is";
}

TEST_F(TokenFiles, TheSameTokensHaveOneIdentityInEveryForm) {
  const std::vector<std::uint32_t> tokens = {1, 2, 3, 4, 500};
  const auto identity = [](const std::string& path) { return OpenTokenFile(path, 2, 1000)->Identity(); };
  const std::string plain = identity(Write("a.u16", Packed(tokens, 2)));
  EXPECT_EQ(identity(Write("a.bin", Packed(tokens, 2))), plain);
  EXPECT_EQ(identity(Write("b.bin", LlmcBytes(tokens))), plain);
  EXPECT_EQ(identity(WritePair("c", {.documents = {tokens}})), plain);
}

TEST_F(TokenFiles, NegativeIdsAreQuotedAsTheyAre) {
  const std::string path = WritePair("negative", {.documents = {{1, 4294967295u}}, .code = 4, .width = 4});
  std::vector<std::int32_t> tokens(2);
  try {
    OpenTokenFile(path, 1, 50)->Read(0, tokens);
    FAIL() << "no error";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("token -1 at position 1 of data file"));
  }
}

TEST_F(TokenFiles, BadFilesAreRefusedByWhatIsWrong) {
  const MegatronPair good{.documents = {{1, 2, 3}, {4}}};
  const auto broken = [&](const std::function<void(std::string & data, std::string & index)>& change) {
    std::string data = good.Data(), index = good.Index();
    change(data, index);
    Write("pair.bin", data);
    Write("pair.idx", index);
    return ErrorOf(directory_.File("pair.bin"));
  };
  const auto typed = [&](int code) {
    return broken([&](std::string&, std::string& index) { index[17] = static_cast<char>(code); });
  };
  EXPECT_THAT(typed(5), HasSubstr("pair.idx has tokens of type int64; write them as uint16 or int32"));
  EXPECT_THAT(typed(1), HasSubstr("type uint8"));
  EXPECT_THAT(typed(7), HasSubstr("type float32"));
  EXPECT_THAT(typed(99), HasSubstr("type 99"));
  EXPECT_THAT(typed(4), HasSubstr("has sequence 1 at byte 6, and the sequences before it end at byte 12"));
  for (const auto& [change, says] :
       std::vector<std::pair<std::function<void(std::string&, std::string&)>, const char*>>{
           {[](auto&, auto&index) { index.clear(); }, "begins with '', not with the MMIDIDX"},
           {[](auto&, auto&index) { index = "TNTIDX"; }, "begins with 'TNTIDX', not with the MMIDIDX"},
           {[](auto&, auto&index) { index.resize(20); }, "has 20 bytes, less than its header of 34"},
           {[](auto&, auto&index) { index[9] = 2; }, "has version 2 of its format; write it with version 1"},
           {[](auto&, auto&index) { index.pop_back(); }, "which are not the 2 sequences and 3 document"},
           {[](auto&, auto&index) { index += "xyz"; }, "which are not the 2 sequences and 3 document"},
           {[](auto&, auto&index) { index[25] = '\xff'; }, "copy it again"},
           {[](auto&, auto&index) { index[33] = '\x7f'; }, "copy it again"},
           // 2^64 - 50 sequences and 2 boundaries: with the header, a sum that wraps around to the size.
           {[](auto&, auto&index) {
              index.replace(18, 16, "\xce" + std::string(7, '\xff') + '\2' + std::string(7, '\0'));
            },
            "which are not the 18446744073709551566 sequences and 2 document"},
           {[](auto&, auto&index) { index[37] = '\x80'; }, "gives sequence 0 the length -2147483645"},
           {[](auto&, auto&index) { index[34] = 2; }, "has sequence 1 at byte 6"},
           {[](auto&, auto&index) { index[58] = 1; }, "begins document 0 at sequence 1 of 2"},
           {[](auto&, auto&index) { index[66] = 9; }, "begins document 1 at sequence 9 of 2"},
           {[](auto&, auto&index) { index[74] = 1; }, "ends its documents at sequence 1 of 2"},
           {[](auto&data, auto&) { data.pop_back(); }, "pair.bin has 7 bytes, and its index"},
           {[](auto&data, auto&) { data += "xx"; }, "says 4 tokens of 2 bytes, 8 bytes; give the pair that"},
           {[](auto&data, auto&) { data.clear(); }, "pair.bin has 0 bytes, and its index"}}) {
    EXPECT_THAT(broken(change), HasSubstr(says));
  }
  EXPECT_THAT(ErrorOf(WritePair("none", {.documents = {}})), HasSubstr("has no documents"));
  EXPECT_THAT(ErrorOf(WritePair("x", good) + ".idx"), HasSubstr("give the .bin beside it"));
  Write("alone.bin", good.Data());
  EXPECT_THAT(ErrorOf(directory_.File("alone")), HasSubstr("No such file"));

  std::string llmc = LlmcBytes({1, 2, 3});
  const auto header = [&](const std::function<void(std::string&)>& change) {
    std::string bytes = llmc;
    change(bytes);
    return ErrorOf(Write("h.bin", bytes));
  };
  EXPECT_THAT(header([](auto& b) { b.resize(100); }),
              HasSubstr("and 100 bytes, less than its header of 1024"));
  EXPECT_THAT(header([](auto& b) { b[4] = 3; }), HasSubstr("and version 3; write it with version 1"));
  EXPECT_THAT(header([](auto& b) { b.pop_back(); }), HasSubstr("has 5 bytes after its header, which says 3"));
  EXPECT_THAT(header([](auto& b) { b += "xx"; }), HasSubstr("has 8 bytes after its header, which says 3"));
  EXPECT_THAT(header([](auto& b) { b[11] = '\xff'; }), HasSubstr("after its header, which says -"));
  EXPECT_THAT(ErrorOf(Write("e.bin", LlmcBytes({}))), HasSubstr("is empty after its header"));
  EXPECT_THAT(ErrorOf(Write("odd.bin", "abc")),
              HasSubstr("has 3 bytes, which is not a whole number of 2-byte"));
  EXPECT_THAT(ErrorOf(Write("empty.bin", "")), HasSubstr("is empty"));
}

}  // namespace
}  // namespace autocfg::trainer
