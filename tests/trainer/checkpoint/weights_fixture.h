// Fixture for the tests of saved weights: a temporary directory, small models, and files to modify.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/llama_parts.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"

namespace autocfg::test {

class SavedWeights : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.File(name); }

  // Trains for the configured steps, saves, and returns the weights.
  TrainedRun TrainAndSave(const trainer::TrainConfig& c, const std::string& name) {
    return RunAsThreads(c, World::kUcx, [&](trainer::RankTrainer& trainer) { trainer.Save(Path(name)); });
  }

  // Returns the error message of loading a file into the small model, or into model `c`, on one rank.
  std::string LoadError(const std::string& path, trainer::TrainConfig c = SmallConfig()) {
    c.init_path = path;
    auto rendezvous = trainer::CreateLocalRendezvous(1);
    trainer::Backend backend = trainer::CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
    try {
      trainer::RankTrainer trainer(c, 0, 1, backend);
    } catch (const trainer::BadInput& e) {
      return e.what();
    }
    return "no error";
  }

  // Writes a file with the given header and number of data bytes.
  std::string WriteRaw(const std::string& header, std::size_t data_bytes, std::uint64_t claimed = 0) {
    std::string path = Path("raw.safetensors");
    std::ofstream out(path, std::ios::binary);
    const std::uint64_t length = claimed != 0 ? claimed : header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << std::string(data_bytes, '\0');
    return path;
  }

  const TempDir directory_;
};

inline trainer::TrainConfig ShortConfig() {
  trainer::TrainConfig c = SmallConfig();
  c.lr.steps = 2;
  return c;
}

// Rewrites a valid file with other names or types, or with extra tensors.
class Rewriter {
 public:
  explicit Rewriter(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    header = nlohmann::ordered_json::parse(bytes.substr(8, length));
    data = bytes.substr(8 + length);
  }
  void Write(const std::string& path) const {
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << text << data;
  }
  nlohmann::ordered_json header;
  std::string data;
};

// A small Llama with grouped-query attention.
inline trainer::TrainConfig LlamaConfig() {
  trainer::TrainConfig c = ShortConfig();
  c.model.kv_heads = 2;
  c.model.ffn_hidden = 40;
  SetLlamaParts(c.model);
  return c;
}

}  // namespace autocfg::test
