#include "trainer/run/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "trainer/checkpoint/checksum.h"
#include "trainer/layout/errors.h"
#include "trainer/model/initialize.h"
#include "trainer/run/token_file.h"

namespace autocfg::trainer {
namespace {

constexpr std::int64_t kIdentityBytes = 1 << 20;

class FileSource final : public TokenSource {
 public:
  FileSource(const std::string& path, std::int64_t seq_len, std::int64_t vocab)
      : tokens_(OpenTokens(path)), seq_len_(seq_len), vocab_(vocab) {}

  void Read(std::int64_t sequence, std::span<std::int32_t> tokens) override {
    const auto start = static_cast<__int128>(sequence) * seq_len_ % tokens_.count;
    std::int64_t offset = static_cast<std::int64_t>(start);
    for (std::size_t done = 0; done < tokens.size();) {
      const std::int64_t count = std::min<std::int64_t>(tokens_.count - offset, tokens.size() - done);
      ReadStretch(offset, tokens.subspan(done, count));
      done += count;
      offset = 0;
    }
  }

  std::string Identity() const override {
    const std::int64_t bytes = std::min(tokens_.count * tokens_.width, kIdentityBytes);
    std::vector<char> start(static_cast<std::size_t>(bytes));
    tokens_.file.ReadAt(tokens_.offset, start.data(), bytes);
    Checksum checksum;
    checksum.Add(start.data(), bytes);
    return fmt::format("{} tokens of {} bytes, {:016x}", tokens_.count, tokens_.width, checksum.Value());
  }

  std::string Description() const override {
    return fmt::format("data: {} is taken as {}: {} tokens", base::Printable(tokens_.file.path()),
                       tokens_.form, base::CountText(tokens_.count));
  }

 private:
  // Reads at offsets, not through a mapping: a file that is truncated meanwhile is an error, not a signal.
  void ReadStretch(std::int64_t offset, std::span<std::int32_t> tokens) {
    const int width = tokens_.width;
    bytes_.resize(tokens.size() * width);
    tokens_.file.ReadAt(tokens_.offset + offset * width, bytes_.data(),
                        static_cast<std::int64_t>(bytes_.size()));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::uint32_t token = 0;
      for (int b = width - 1; b >= 0; --b) token = token << 8 | bytes_[i * width + b];
      if (token >= static_cast<std::uint64_t>(vocab_)) {
        const auto value = tokens_.is_signed ? static_cast<std::int64_t>(static_cast<std::int32_t>(token))
                                             : static_cast<std::int64_t>(token);
        throw BadInput(
            fmt::format("token {} at position {} of data file {} is outside the vocabulary of {}; give "
                        "a file of this model's tokens",
                        value, offset + static_cast<std::int64_t>(i), tokens_.file.path(), vocab_));
      }
      tokens[i] = static_cast<std::int32_t>(token);
    }
  }

  const TokenFile tokens_;
  const std::int64_t seq_len_;
  const std::int64_t vocab_;
  std::vector<unsigned char> bytes_;
};

class PatternSource final : public TokenSource {
 public:
  PatternSource(std::uint64_t seed, std::int64_t vocab) : key_(PhiloxKey(seed, "data pattern")) {
    const std::int64_t length = std::min<std::int64_t>(64, vocab);
    for (std::uint32_t draw = 0; static_cast<std::int64_t>(pattern_.size()) < length; ++draw) {
      const auto words = Philox4x32({draw, 0, 0, 1}, key_);
      const std::uint64_t wide = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
      const auto token = static_cast<std::int32_t>(wide % static_cast<std::uint64_t>(vocab));
      if (std::find(pattern_.begin(), pattern_.end(), token) == pattern_.end()) pattern_.push_back(token);
    }
  }

  void Read(std::int64_t sequence, std::span<std::int32_t> tokens) override {
    const auto n = static_cast<std::uint64_t>(sequence);
    const auto words =
        Philox4x32({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, 2}, key_);
    std::size_t at = words[0] % pattern_.size();
    for (std::int32_t& token : tokens) {
      token = pattern_[at];
      at = (at + 1) % pattern_.size();
    }
  }

  std::string Identity() const override { return "the pattern of the seed"; }
  std::string Description() const override { return ""; }

 private:
  const std::array<std::uint32_t, 2> key_;
  std::vector<std::int32_t> pattern_;
};

}  // namespace

std::unique_ptr<TokenSource> OpenTokenFile(const std::string& path, std::int64_t seq_len,
                                           std::int64_t vocab) {
  return std::make_unique<FileSource>(path, seq_len, vocab);
}

std::unique_ptr<TokenSource> CreatePatternSource(std::uint64_t seed, std::int64_t vocab) {
  return std::make_unique<PatternSource>(seed, vocab);
}

std::int64_t FirstSequence(std::int64_t step, std::int64_t global_batch, std::int64_t data_rank,
                           std::int64_t data_ranks, std::int64_t microbatch, std::int64_t micro_batch) {
  return step * global_batch + data_rank * (global_batch / data_ranks) + microbatch * micro_batch;
}

}  // namespace autocfg::trainer
