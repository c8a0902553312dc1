#include "trainer/run/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are read as they are stored");

constexpr std::string_view kBin = ".bin";
constexpr std::string_view kIdx = ".idx";

// The header of a Megatron index (megatron/core/datasets/indexed_dataset.py, _IndexWriter): magic, version,
// code of the token type, count of sequences, count of document boundaries; then the sequences' lengths,
// their offsets in bytes, and the boundaries. A multimodal dataset ends with a byte for each sequence.
constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kIndexHeaderBytes = 34;

struct TokenType {
  int code;
  std::string_view name;
  int width;  // 0: not a type of tokens
};
constexpr TokenType kTypes[] = {{1, "uint8", 0}, {2, "int8", 0},    {3, "int16", 0},   {4, "int32", 4},
                                {5, "int64", 0}, {6, "float64", 0}, {7, "float32", 0}, {8, "uint16", 2}};

// The header of llm.c and modded-nanogpt (llm.c/dev/data/data_common.py): 256 int32, which begin with magic,
// version and the number of tokens.
struct LlmcForm {
  std::int32_t magic, version;
  std::string_view name;
  int width;
};
constexpr LlmcForm kLlmcForms[] = {{20240520, 1, "uint16", 2}, {20240801, 7, "uint32", 4}};
constexpr std::int64_t kLlmcHeaderBytes = 1024;  // 256 numbers of 32 bits

[[noreturn]] void Refuse(const std::string& path, std::string_view problem) {
  throw BadInput(fmt::format("data file {} {}", path, problem));
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

template <typename T>
T ReadValue(const File& file, std::int64_t offset) {
  T value;
  file.ReadAt(offset, &value, sizeof value);
  return value;
}

// Calls `visit(index, value)` for `count` values of the file from byte `offset` on.
template <typename T, typename Visit>
void ForEachValue(const File& file, std::int64_t offset, std::int64_t count, const Visit& visit) {
  constexpr std::int64_t kChunk = 1 << 17;
  std::vector<T> values(static_cast<std::size_t>(std::min(kChunk, count)));
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const std::int64_t now = std::min(kChunk, count - first);
    file.ReadAt(offset + first * static_cast<std::int64_t>(sizeof(T)), values.data(),
                now * static_cast<std::int64_t>(sizeof(T)));
    for (std::int64_t i = 0; i < now; ++i) visit(first + i, values[static_cast<std::size_t>(i)]);
  }
}

std::int64_t WholeTokens(const std::string& path, std::int64_t bytes, int width) {
  if (bytes % width != 0) {
    Refuse(path,
           fmt::format("has {} bytes, which is not a whole number of {}-byte tokens; give a file of whole "
                       "tokens",
                       bytes, width));
  }
  return bytes / width;
}

// Checks that sequences follow each other without gaps, and documents as well. Returns the number of tokens.
std::int64_t CheckIndex(const File& index, std::int64_t sequences, std::int64_t boundaries, int width) {
  const std::int64_t lengths_at = kIndexHeaderBytes;
  const std::int64_t offsets_at = lengths_at + 4 * sequences;
  const std::int64_t boundaries_at = offsets_at + 8 * sequences;
  // Offsets are read first: the length of a sequence is the way to the next one.
  std::int64_t tokens = 0;
  std::vector<std::int32_t> lengths;
  ForEachValue<std::int64_t>(index, offsets_at, sequences, [&](std::int64_t i, std::int64_t offset) {
    constexpr std::int64_t kLengths = 1 << 17;
    if (i % kLengths == 0) {
      lengths.resize(static_cast<std::size_t>(std::min(kLengths, sequences - i)));
      index.ReadAt(lengths_at + 4 * i, lengths.data(), 4 * static_cast<std::int64_t>(lengths.size()));
    }
    const std::int32_t length = lengths[static_cast<std::size_t>(i % kLengths)];
    if (length < 0)
      Refuse(index.path(), fmt::format("gives sequence {} the length {}; write the pair again", i, length));
    if (offset != tokens * width) {
      Refuse(index.path(),
             fmt::format("has sequence {} at byte {}, and the sequences before it end at byte {}; "
                         "write the pair again",
                         i, offset, tokens * width));
    }
    tokens += length;
  });
  std::int64_t last = 0;
  ForEachValue<std::int64_t>(index, boundaries_at, boundaries, [&](std::int64_t i, std::int64_t boundary) {
    if (boundary < last || boundary > sequences || (i == 0 && boundary != 0)) {
      Refuse(index.path(), fmt::format("begins document {} at sequence {} of {}; write the pair again", i,
                                       boundary, sequences));
    }
    last = boundary;
  });
  if (last != sequences) {
    Refuse(index.path(),
           fmt::format("ends its documents at sequence {} of {}; write the pair again", last, sequences));
  }
  return tokens;
}

TokenFile OpenPair(const std::string& data_path, const std::string& index_path) {
  const File index = File::OpenToRead(index_path);
  const std::int64_t size = index.Size();
  std::string magic(static_cast<std::size_t>(std::min<std::int64_t>(size, kIndexMagic.size())), '\0');
  index.ReadAt(0, magic.data(), static_cast<std::int64_t>(magic.size()));
  if (magic != kIndexMagic) {
    Refuse(index_path,
           fmt::format("begins with '{}', not with the MMIDIDX of a Megatron index; write the pair "
                       "again, or move it away from {}",
                       base::Printable(magic), data_path));
  }
  if (size < kIndexHeaderBytes)
    Refuse(index_path,
           fmt::format("has {} bytes, less than its header of {}; copy it again", size, kIndexHeaderBytes));
  const auto version = ReadValue<std::uint64_t>(index, 9);
  if (version != 1)
    Refuse(index_path, fmt::format("has version {} of its format; write it with version 1", version));
  const int code = ReadValue<std::uint8_t>(index, 17);
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TokenType& t) { return t.code == code; });
  if (type == std::end(kTypes) || type->width == 0) {
    Refuse(index_path,
           fmt::format("has tokens of type {}; write them as uint16 or int32",
                       type == std::end(kTypes) ? fmt::to_string(code) : std::string(type->name)));
  }
  const auto sequences = ReadValue<std::uint64_t>(index, 18),
             boundaries = ReadValue<std::uint64_t>(index, 26);
  const auto held = static_cast<std::uint64_t>(size);
  const bool small = sequences < held && boundaries < held;  // so are the products
  const std::uint64_t plain = small ? kIndexHeaderBytes + 12 * sequences + 8 * boundaries : 0;
  if (!small || (held != plain && held != plain + sequences)) {
    Refuse(index_path,
           fmt::format("has {} bytes, which are not the {} sequences and {} document boundaries of its "
                       "header; copy it again",
                       size, sequences, boundaries));
  }
  if (sequences == 0 || boundaries < 2) Refuse(index_path, "has no documents; give a pair that has some");
  const std::int64_t tokens = CheckIndex(index, static_cast<std::int64_t>(sequences),
                                         static_cast<std::int64_t>(boundaries), type->width);
  TokenFile found{.file = File::OpenToRead(data_path), .count = tokens, .width = type->width};
  if (const std::int64_t bytes = found.file.Size(); bytes != tokens * type->width) {
    Refuse(data_path,
           fmt::format("has {} bytes, and its index {} says {} tokens of {} bytes, {} bytes; give the "
                       "pair that belongs together",
                       bytes, index_path, tokens, type->width, tokens * type->width));
  }
  found.is_signed = type->name == "int32";
  found.form =
      fmt::format("a Megatron indexed dataset of {} tokens in {} document{}", type->name,
                  base::CountText(static_cast<std::int64_t>(boundaries) - 1), boundaries == 2 ? "" : "s");
  return found;
}

// Returns the tokens behind a header of llm.c; nothing if the file has none.
std::optional<TokenFile> OpenWithHeader(File& file) {
  const std::int64_t bytes = file.Size();
  if (bytes < 4) return std::nullopt;
  const auto magic = ReadValue<std::int32_t>(file, 0);
  for (const LlmcForm& form : kLlmcForms) {
    if (form.magic != magic) continue;
    if (bytes < kLlmcHeaderBytes) {
      Refuse(file.path(),
             fmt::format("has the magic {} of llm.c and {} bytes, less than its header of {}; copy it "
                         "again",
                         magic, bytes, kLlmcHeaderBytes));
    }
    const auto version = ReadValue<std::int32_t>(file, 4);
    if (version != form.version) {
      Refuse(file.path(), fmt::format("has the magic {} of llm.c and version {}; write it with version {}",
                                      magic, version, form.version));
    }
    const std::int64_t tokens = ReadValue<std::int32_t>(file, 8);
    const std::int64_t held = bytes - kLlmcHeaderBytes;
    if (held != tokens * form.width) {
      Refuse(file.path(),
             fmt::format("has {} bytes after its header, which says {} tokens of {} bytes; copy it "
                         "again",
                         held, tokens, form.width));
    }
    if (tokens == 0) Refuse(file.path(), "is empty after its header; give a file with tokens");
    return TokenFile{.file = std::move(file),
                     .offset = kLlmcHeaderBytes,
                     .count = tokens,
                     .width = form.width,
                     .form = fmt::format("{} tokens behind the header of llm.c", form.name)};
  }
  return std::nullopt;
}

}  // namespace

TokenFile OpenTokens(const std::string& path) {
  if (!Exists(path) && Exists(path + std::string(kBin)) && Exists(path + std::string(kIdx)))
    return OpenPair(path + std::string(kBin), path + std::string(kIdx));
  const bool is_bin = path.ends_with(kBin);
  const std::string stem = path.substr(0, path.size() - (is_bin ? kBin.size() : 0));
  if (is_bin && Exists(stem + std::string(kIdx))) return OpenPair(path, stem + std::string(kIdx));
  File file = File::OpenToRead(path);
  const std::int64_t bytes = file.Size();
  if (bytes == 0) Refuse(path, "is empty; give a file with tokens");
  if (path.ends_with(kIdx) && bytes >= static_cast<std::int64_t>(kIndexMagic.size())) {
    std::string magic(kIndexMagic.size(), '\0');
    file.ReadAt(0, magic.data(), static_cast<std::int64_t>(magic.size()));
    if (magic == kIndexMagic)
      Refuse(path, "is the index of a Megatron pair and has no tokens; give the .bin beside it");
  }
  if (is_bin) {
    if (auto found = OpenWithHeader(file); found) return *std::move(found);
    const std::int64_t count = WholeTokens(path, bytes, 2);
    return {
        .file = std::move(file), .count = count, .width = 2, .form = "uint16 tokens, as nanoGPT writes them"};
  }
  const int width = path.ends_with(".u16") ? 2 : path.ends_with(".u32") ? 4 : 1;
  const std::int64_t count = WholeTokens(path, bytes, width);
  return {.file = std::move(file),
          .count = count,
          .width = width,
          .form = width == 1   ? "bytes, a token each"
                  : width == 2 ? "uint16 tokens"
                               : "uint32 tokens"};
}

}  // namespace autocfg::trainer
