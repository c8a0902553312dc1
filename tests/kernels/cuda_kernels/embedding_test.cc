// The gradient of token embeddings on the GPU: the sort by rows, and rows that occur for few, many or all
// tokens.
#include "kernels/cuda/kernels/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/kernels/token_sort.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

std::vector<std::int32_t> RandomTokens(std::int64_t n, std::int32_t below, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  for (std::int32_t& t : tokens) t = std::uniform_int_distribution<std::int32_t>(0, below - 1)(random);
  return tokens;
}

using TokenSort = KernelTest;

TEST_F(TokenSort, OrdersByRowThenPosition) {
  const std::int32_t vocab = 500, start = 100;
  for (std::int64_t n : {1, 4095, 4096, 4097, 20000}) {
    const std::vector<std::int32_t> tokens = RandomTokens(n, 900, static_cast<unsigned>(n));
    std::vector<std::uint64_t> want;
    for (std::int64_t t = 0; t < n; ++t) {
      const std::int32_t row = tokens[static_cast<std::size_t>(t)] - start;
      if (row >= 0 && row < vocab)
        want.push_back(static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(t));
    }
    std::sort(want.begin(), want.end());
    want.resize(static_cast<std::size_t>(SortedTokens(n)), ~std::uint64_t{0});
    const DeviceArray<std::int32_t> tokens_(tokens);
    Scratch scratch;
    auto* sorted = scratch.Get<std::uint64_t>(SortedTokens(n));
    SortTokens(n, vocab, start, tokens_.data(), sorted, nullptr);
    EXPECT_TRUE(FromDevice(sorted, SortedTokens(n)) == want) << n;
  }
}

template <typename T>
class EmbeddingTest : public KernelTest {
 protected:
  static void Check(const std::vector<std::int32_t>& tokens, std::int64_t width, std::int64_t vocab,
                    std::int64_t start) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const Values dout = RoundedTo<T>(Random(rows * width, 1)), old = Random(vocab * width, 2),
                 table = RoundedTo<T>(old);
    Values want = old, want_out(dout.size(), 0.0);
    for (std::int64_t t = 0; t < rows; ++t) {
      const std::int64_t row = tokens[static_cast<std::size_t>(t)] - start;
      if (row < 0 || row >= vocab) continue;
      for (std::int64_t i = 0; i < width; ++i) {
        want[row * width + i] += dout[t * width + i];
        want_out[t * width + i] = table[row * width + i];
      }
    }
    const DeviceArray<std::int32_t> tokens_(tokens);
    const DeviceArray<T> dout_(dout), table_(table), out(rows * width);
    EmbeddingForward(rows, width, vocab, start, tokens_.data(), table_.data(), out.data(), nullptr);
    EXPECT_EQ(out.Get(), want_out);
    CheckBackward<float>(tokens_, dout_, rows, width, vocab, start, old, want);
    if constexpr (!std::is_same_v<T, float>) {
      // Sums begin with gradients in T, and are rounded to it once.
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += table[i] - old[i];
      CheckBackward<T>(tokens_, dout_, rows, width, vocab, start, table, want);
    }
  }

  // `S`: the type of gradients.
  template <typename S>
  static void CheckBackward(const DeviceArray<std::int32_t>& tokens, const DeviceArray<T>& dout,
                            std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                            const Values& old, const Values& want) {
    const DeviceArray<S> dtable(old);
    Scratch scratch;
    EmbeddingBackward(rows, width, vocab, start, tokens.data(), dout.data(), dtable.data(), scratch, nullptr);
    ExpectRounded<S>(dtable.Get(), want, 3e-6, std::to_string(rows) + " tokens");
  }
};

using Types = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(EmbeddingTest, Types);

TYPED_TEST(EmbeddingTest, FewTokensPerRow) {
  this->Check(RandomTokens(300, 400, 1), 72, 200, 100);
  this->Check(RandomTokens(200, 40, 2), 3, 40, 0);
}

// Runs of 64 tokens, of 65 and of all, that begin and end at, before and after a multiple of 64.
TYPED_TEST(EmbeddingTest, ManyTokensPerRow) {
  this->Check(std::vector<std::int32_t>(200, 3), 40, 5, 0);
  this->Check(std::vector<std::int32_t>(64, 4), 24, 5, 0);
  this->Check(std::vector<std::int32_t>(65, 0), 24, 5, 0);
  std::vector<std::int32_t> tokens;
  std::int32_t row = 0;
  for (int length : {64, 65, 63, 1, 128, 127, 129, 64, 2, 300, 66})
    tokens.insert(tokens.end(), static_cast<std::size_t>(length), row++);
  std::shuffle(tokens.begin(), tokens.end(), std::mt19937(7));
  this->Check(tokens, 264, row, 0);
  this->Check(tokens, 7, row - 3, 2);
}

TYPED_TEST(EmbeddingTest, MoreTokensThanABlockSorts) { this->Check(RandomTokens(4500, 60, 3), 8, 50, 5); }

}  // namespace
}  // namespace autocfg::cuda
