// Files of the frameworks that say no more than they must, for tests.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nanotron/nanotron.h"
#include "search/frameworks/torchtitan/torchtitan.h"

namespace autocfg {

// Flags of Megatron-LM, a line each; `more` begins at line 8.
inline std::string FlagsWith(const std::string& more) {
  return "--num-layers 4\n--hidden-size 256\n--num-attention-heads 8\n--seq-length 128\n"
         "--max-position-embeddings 128\n--vocab-size 1000\n--micro-batch-size 1\n" +
         more + "\n";
}

// A file of a form, with another setting of its framework.
inline std::string SmallFile(std::string_view framework, const std::string& name,
                             const nlohmann::json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (framework == kMegatron) return FlagsWith(name + " " + text);
  if (framework == kDeepSpeed) {
    nlohmann::json json{{"train_batch_size", 16}, {"train_micro_batch_size_per_gpu", 2}};
    json[nlohmann::json::json_pointer("/" + absl::StrReplaceAll(name, {{".", "/"}}))] = value;
    return json.dump(1);
  }
  const std::size_t dot = name.rfind('.');
  const std::string table = name.substr(0, dot), key = name.substr(dot + 1);
  if (framework == kTorchtitan) {
    return absl::StrCat("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[", table, "]\n", key, " = ",
                        value.dump(), "\n");
  }
  if (framework == kNanotron) {
    const std::string run =
        "parallelism:\n  dp: 8\n  pp: 1\n  pp_engine: 1f1b\n  tp: 1\n"
        "tokens:\n  micro_batch_size: 1\n  sequence_length: 128\n";
    if (table == "model.model_config")
      return absl::StrCat(run, "model:\n  model_config:\n    ", key, ": ", text, "\n");
    return absl::StrCat(run, table, ":\n  ", key, ": ", text, "\n");
  }
  const std::string model =
      "model:\n  num_layers: 4\n  hidden_size: 256\n  num_attention_heads: 8\n  encoder_seq_length: 128\n"
      "  micro_batch_size: 1\n  override_vocab_size: 1024\n";
  const std::string trainer = "trainer:\n  devices: 8\n";
  if (table == "trainer") return absl::StrCat(trainer, "  ", key, ": ", text, "\n", model);
  if (table == "model") return absl::StrCat(trainer, model, "  ", key, ": ", text, "\n");
  return absl::StrCat(trainer, model, "  optim:\n    ", key, ": ", text, "\n");
}

}  // namespace autocfg
