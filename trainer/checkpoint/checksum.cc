#include "trainer/checkpoint/checksum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "trainer/checkpoint/file.h"

namespace autocfg::trainer {
namespace {

constexpr std::int64_t kReadBytes = 1 << 20;
// Odd constants: the multiplication loses no bits.
constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
constexpr std::uint64_t kFoldMultiplier = 0xd6e8feb86659fd93u;

// Invertible in `lane` and in `word`: one changed word always changes the lane. The shift moves the high
// bits, which a product leaves in place, to where the next product spreads them.
std::uint64_t Mix(std::uint64_t lane, std::uint64_t word) {
  const std::uint64_t product = (lane ^ word) * kMultiplier;
  return (product ^ (product >> 32)) * kFoldMultiplier;
}

}  // namespace

void Checksum::AddBlock(const char* block) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, block + i * sizeof(word), sizeof(word));
    lanes_[i] = Mix(lanes_[i], word);
  }
}

void Checksum::Add(const void* data, std::int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  const std::int64_t held = bytes_ % kBlockBytes;
  bytes_ += bytes;
  if (held > 0) {
    const std::int64_t taken = std::min(kBlockBytes - held, bytes);
    std::memcpy(rest_.data() + held, from, static_cast<std::size_t>(taken));
    from += taken;
    bytes -= taken;
    if (held + taken < kBlockBytes) return;
    AddBlock(rest_.data());
  }
  for (; bytes >= kBlockBytes; from += kBlockBytes, bytes -= kBlockBytes) AddBlock(from);
  if (bytes > 0) std::memcpy(rest_.data(), from, static_cast<std::size_t>(bytes));
}

std::uint64_t Checksum::Value() const {
  Checksum padded = *this;
  if (const std::int64_t held = bytes_ % kBlockBytes; held > 0) {
    std::fill(padded.rest_.begin() + held, padded.rest_.end(), '\0');
    padded.AddBlock(padded.rest_.data());
  }
  auto value = static_cast<std::uint64_t>(bytes_);
  for (const std::uint64_t lane : padded.lanes_) {
    value = (value ^ lane) * kFoldMultiplier;
    value ^= value >> 32;
  }
  return value;
}

std::uint64_t ChecksumOfFile(const std::string& path) {
  const File file = File::OpenToRead(path);
  Checksum checksum;
  std::vector<char> buffer(kReadBytes);
  const std::int64_t size = file.Size();
  for (std::int64_t offset = 0; offset < size; offset += kReadBytes) {
    const std::int64_t bytes = std::min(kReadBytes, size - offset);
    file.ReadAt(offset, buffer.data(), bytes);
    checksum.Add(buffer.data(), bytes);
  }
  return checksum.Value();
}

}  // namespace autocfg::trainer
