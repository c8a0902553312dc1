// Parsers of the trainer's files. Their errors are BadInput.
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/support/temp_dir.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/layout/errors.h"
#include "trainer/run/token_file.h"

namespace autocfg::test {
namespace {

template <typename Read>
void WithBadInput(const Read& read) {
  try {
    read();
  } catch (const trainer::BadInput& error) {
    CheckMessage(error.what());
  }
}

void WriteInput(const std::string& path, std::string_view input) {
  std::ofstream(path, std::ios::binary) << input;
}

void FuzzManifest(std::string_view input) {
  WithBadInput([&] { trainer::ParseManifest(std::string(input), "manifest.json"); });
}

void FuzzSafetensors(std::string_view input) {
  static const TempDir directory;
  const std::string path = directory.File("weights.safetensors");
  WriteInput(path, input);
  WithBadInput([&] {
    const trainer::SafetensorsFile file(path);
    std::vector<char> bytes;
    for (const auto& [name, tensor] : file.tensors()) {
      bytes.resize(static_cast<std::size_t>(tensor.end - tensor.begin));
      file.ReadBytes(tensor, 0, bytes);
    }
  });
}

// A pair of Megatron's: the index, with data of 64 bytes.
void FuzzTokenIndex(std::string_view input) {
  static const TempDir directory;
  WriteInput(directory.File("tokens.bin"), std::string(64, '\1'));
  WriteInput(directory.File("tokens.idx"), input);
  WithBadInput([&] { trainer::OpenTokens(directory.File("tokens.bin")); });
}

void FuzzTokenFile(std::string_view input) {
  static const TempDir directory;
  for (const char* name : {"alone.bin", "ids.u16", "ids.u32", "text.txt"}) {
    WriteInput(directory.File(name), input);
    WithBadInput([&] { trainer::OpenTokens(directory.File(name)); });
  }
}

constexpr FuzzTarget kTrainerTargets[] = {
    {"manifest", FuzzManifest},
    {"safetensors", FuzzSafetensors},
    {"token_index", FuzzTokenIndex},
    {"token_file", FuzzTokenFile, {}, 100},
};

}  // namespace

std::span<const FuzzTarget> TrainerTargets() { return kTrainerTargets; }

}  // namespace autocfg::test
