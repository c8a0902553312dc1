// A 64-bit checksum of a stream of bytes, several bytes a cycle. Its values are stored, so they must be the
// same on every machine and in every version. It detects damage; it does not resist an attacker. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace autocfg::trainer {

class Checksum {
 public:
  // Adds the next bytes. How the stream is cut into calls does not change the value.
  void Add(const void* data, std::int64_t bytes);

  // Returns the checksum of all bytes so far and of their number.
  std::uint64_t Value() const;

 private:
  static constexpr int kLanes = 4;
  static constexpr int kBlockBytes = kLanes * 8;

  void AddBlock(const char* block);

  std::array<std::uint64_t, kLanes> lanes_ = {1, 2, 3, 4};
  std::array<char, kBlockBytes> rest_{};  // the bytes after the last whole block
  std::int64_t bytes_ = 0;
};

// Returns the checksum of a file's bytes, which it reads through a buffer of 1 MiB. Throws BadInput.
std::uint64_t ChecksumOfFile(const std::string& path);

}  // namespace autocfg::trainer
