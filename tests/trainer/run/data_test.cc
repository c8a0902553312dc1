// Tests the order of the data, and invalid data files.
#include "trainer/run/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "tests/support/temp_dir.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using ::testing::HasSubstr;

class DataFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& bytes, const std::string& ending = "") {
    std::ofstream(path_ + ending, std::ios::binary) << bytes;
    return path_ + ending;
  }

  const TempDir directory_;
  const std::string path_ = directory_.File("data");
};

std::vector<std::int32_t> Read(TokenSource& source, std::int64_t sequence, int count) {
  std::vector<std::int32_t> tokens(count);
  source.Read(sequence, tokens);
  return tokens;
}

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(DataFile, SequenceStartsAtItsPositionAndWrapsAround) {
  auto source = OpenTokenFile(Write({0, 1, 2, 3, 4, 5, 6}), 3, 256);
  EXPECT_EQ(Read(*source, 0, 4), (std::vector<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Read(*source, 1, 4), (std::vector<std::int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(Read(*source, 2, 4), (std::vector<std::int32_t>{6, 0, 1, 2}));
  // Sequence 5 10^17 starts at 15 10^17 mod 7.
  const std::int64_t far = 500'000'000'000'000'000;
  EXPECT_EQ(Read(*source, far, 1)[0], static_cast<std::int32_t>(static_cast<__int128>(far) * 3 % 7));
}

TEST_F(DataFile, LongSequenceWrapsRepeatedly) {
  auto source = OpenTokenFile(Write({7, 8}), 5, 256);
  EXPECT_EQ(Read(*source, 0, 6), (std::vector<std::int32_t>{7, 8, 7, 8, 7, 8}));
}

TEST_F(DataFile, ReadsLittleEndianIds) {
  auto u16 = OpenTokenFile(Write(std::string("\x01\x02\xff\xff", 4), ".u16"), 1, 70000);
  EXPECT_EQ(Read(*u16, 0, 2), (std::vector<std::int32_t>{0x0201, 0xffff}));
  auto u32 = OpenTokenFile(Write(std::string("\x01\x00\x01\x00\x00\x00\x00\x00", 8), ".u32"), 1, 70000);
  EXPECT_EQ(Read(*u32, 0, 2), (std::vector<std::int32_t>{65537, 0}));
}

TEST_F(DataFile, NamesTheTokenOutsideTheVocabulary) {
  auto source = OpenTokenFile(Write({1, 2, 99, 3}), 2, 50);
  EXPECT_EQ(Read(*source, 0, 2), (std::vector<std::int32_t>{1, 2}));
  const std::string error = ErrorOf([&] { Read(*source, 0, 3); });
  EXPECT_THAT(error, HasSubstr("token 99 at position 2"));
  EXPECT_THAT(error, HasSubstr(path_));
  auto wide = OpenTokenFile(Write(std::string("\xff\xff\xff\xff\0\0\0\0", 8), ".u32"), 1, 50);
  EXPECT_THAT(ErrorOf([&] { Read(*wide, 0, 1); }), HasSubstr("token 4294967295 at position 0"));
}

TEST_F(DataFile, FileOfOneTokenIsValid) {
  auto source = OpenTokenFile(Write({7}), 2, 50);
  EXPECT_EQ(Read(*source, 3, 3), (std::vector<std::int32_t>{7, 7, 7}));
}

TEST_F(DataFile, ReportsInvalidFiles) {
  EXPECT_THAT(ErrorOf([&] { OpenTokenFile(path_ + ".missing", 2, 50); }), HasSubstr("No such file"));
  EXPECT_THAT(ErrorOf([&] { OpenTokenFile(directory_.path().string(), 2, 50); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorOf([&] { OpenTokenFile(Write(""), 2, 50); }), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf([&] { OpenTokenFile(Write("abc", ".u16"), 2, 50); }),
              HasSubstr("3 bytes, which is not a whole number"));
  EXPECT_THAT(ErrorOf([&] { OpenTokenFile(Write("abcdef", ".u32"), 2, 50); }),
              HasSubstr("not a whole number"));
}

TEST(Pattern, EachTokenDeterminesTheNextInEverySequence) {
  auto source = CreatePatternSource(3, 1000);
  std::map<std::int32_t, std::int32_t> next;
  std::set<std::int32_t> starts;
  for (std::int64_t n = 0; n < 200; ++n) {
    const auto tokens = Read(*source, n, 130);
    starts.insert(tokens[0]);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      ASSERT_TRUE(tokens[i] >= 0 && tokens[i] < 1000);
      ASSERT_EQ(next.emplace(tokens[i], tokens[i + 1]).first->second, tokens[i + 1]);
    }
  }
  EXPECT_EQ(next.size(), 64u);
  EXPECT_GT(starts.size(), 32u) << "sequences start at different places";
  EXPECT_EQ(Read(*CreatePatternSource(3, 1000), 9, 20), Read(*source, 9, 20));
  EXPECT_NE(Read(*CreatePatternSource(4, 1000), 9, 20), Read(*source, 9, 20));
}

TEST(Pattern, FitsASmallVocabulary) {
  auto source = CreatePatternSource(3, 2);
  const auto tokens = Read(*source, 0, 4);
  EXPECT_NE(tokens[0], tokens[1]);
  EXPECT_EQ(tokens[0], tokens[2]);
  EXPECT_EQ(Read(*CreatePatternSource(3, 1), 0, 2), (std::vector<std::int32_t>{0, 0}));
}

// In every layout, step t reads the sequences [t B, (t + 1) B), each once.
TEST(FirstSequence, DistributesSequencesOverRanksAndMicrobatches) {
  for (const auto& [ranks, micro_batch] : {std::pair{1, 1}, {1, 4}, {2, 3}, {4, 1}, {12, 1}}) {
    std::set<std::int64_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int m = 0; m < 12 / ranks / micro_batch; ++m) {
        const std::int64_t first = FirstSequence(5, 12, rank, ranks, m, micro_batch);
        for (int i = 0; i < micro_batch; ++i) seen.insert(first + i);
      }
    }
    EXPECT_EQ(seen.size(), 12u);
    EXPECT_EQ(*seen.begin(), 60);
    EXPECT_EQ(*seen.rbegin(), 71);
  }
  EXPECT_EQ(FirstSequence(0, 12, 1, 2, 1, 2), 8) << "a rank's share is contiguous";
}

}  // namespace
}  // namespace autocfg::trainer
