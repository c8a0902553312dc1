// Writes token files in the forms of other programs. The layouts are written here a second time, by their
// published descriptions: Megatron-LM's IndexedDataset (megatron/core/datasets) and the data scripts of
// llm.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace autocfg::test {

inline std::string WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Appends the low `width` bytes of the value, the lowest first.
inline void Append(std::string& bytes, std::uint64_t value, int width) {
  for (int b = 0; b < width; ++b) bytes += static_cast<char>(value >> (8 * b) & 0xff);
}

inline std::string Packed(const std::vector<std::uint32_t>& tokens, int width) {
  std::string bytes;
  for (const std::uint32_t token : tokens) Append(bytes, token, width);
  return bytes;
}

// One sequence per document, unless `boundaries` says otherwise.
struct MegatronPair {
  std::vector<std::vector<std::uint32_t>> documents = {};
  int code = 8;  // uint16
  int width = 2;
  std::vector<std::uint64_t> boundaries = {};
  bool modes = false;
  std::int64_t lengths_off_at = -1;  // the sequence whose length is one too many

  std::string Data() const {
    std::string bytes;
    for (const auto& document : documents) bytes += Packed(document, width);
    return bytes;
  }
  std::string Index() const {
    std::vector<std::uint64_t> ends = boundaries;
    if (ends.empty()) {
      for (std::size_t i = 0; i <= documents.size(); ++i) ends.push_back(i);
    }
    std::string bytes("MMIDIDX\0\0", 9);
    Append(bytes, 1, 8);
    Append(bytes, static_cast<std::uint64_t>(code), 1);
    Append(bytes, documents.size(), 8);
    Append(bytes, ends.size(), 8);
    for (std::size_t i = 0; i < documents.size(); ++i)
      Append(bytes, documents[i].size() + (static_cast<std::int64_t>(i) == lengths_off_at ? 1 : 0), 4);
    std::uint64_t at = 0;
    for (const auto& document : documents) {
      Append(bytes, at, 8);
      at += document.size() * static_cast<std::size_t>(width);
    }
    for (const std::uint64_t end : ends) Append(bytes, end, 8);
    if (modes) bytes += std::string(documents.size(), '\0');
    return bytes;
  }
};

inline std::string LlmcBytes(const std::vector<std::uint32_t>& tokens, std::uint32_t magic = 20240520,
                             std::uint32_t version = 1, int width = 2) {
  std::string bytes;
  Append(bytes, magic, 4);
  Append(bytes, version, 4);
  Append(bytes, tokens.size(), 4);
  bytes.resize(256 * 4);
  return bytes + Packed(tokens, width);
}

}  // namespace autocfg::test
