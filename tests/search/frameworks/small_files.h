// Files of the frameworks that say no more than they must, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/accelerate/accelerate.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/gpt_neox/gpt_neox.h"
#include "search/frameworks/maxtext/maxtext.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"
#include "search/frameworks/nanotron/nanotron.h"
#include "search/frameworks/torchtitan/torchtitan.h"

namespace autocfg {

// Flags of Megatron-LM, a line each; `more` begins at line 8.
inline std::string FlagsWith(const std::string& more) {
  return "--num-layers 4\n--hidden-size 256\n--num-attention-heads 8\n--seq-length 128\n"
         "--max-position-embeddings 128\n--vocab-size 1000\n--micro-batch-size 1\n" +
         more + "\n";
}

// A setting of YAML, in its sections; `depth`: of the section that it follows.
inline std::string NestedYaml(const std::string& name, const std::string& value, std::size_t depth = 0) {
  std::string lines;
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string end = i + 1 < parts.size() ? ":\n" : absl::StrCat(": ", value, "\n");
    absl::StrAppend(&lines, std::string(2 * (depth + i), ' '), parts[i], end);
  }
  return lines;
}

// A file of a form, with another setting of its framework.
inline std::string SmallFile(std::string_view framework, const std::string& name,
                             const nlohmann::json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (framework == kMegatron) return FlagsWith(name + " " + text);
  if (framework == kMegatronBridge) {
    return absl::StrCat("model.num_layers=4\nmodel.hidden_size=256\nmodel.num_attention_heads=8\n",
                        "dataset.seq_length=128\nmodel.vocab_size=1024\ntrain.micro_batch_size=1\n", name,
                        "=", text, "\n");
  }
  if (framework == kDeepSpeed) {
    nlohmann::json json{{"train_batch_size", 16}, {"train_micro_batch_size_per_gpu", 2}};
    json[nlohmann::json::json_pointer("/" + absl::StrReplaceAll(name, {{".", "/"}}))] = value;
    return json.dump(1);
  }
  const std::size_t dot = name.rfind('.');
  const std::string table = name.substr(0, dot), key = name.substr(dot + 1);
  if (framework == kTorchtitan) {
    if (name == "model.name" || name == "model.flavor")
      return absl::StrCat("[model]\n", key, " = ", value.dump(), "\n");
    const std::string model = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
    return absl::StrCat(model, table == "model" ? "" : absl::StrCat("[", table, "]\n"), key, " = ",
                        value.dump(), "\n");
  }
  if (framework == kGptNeox) {
    return absl::StrCat("pipe_parallel_size: 1\nnum_layers: 4\nhidden_size: 256\nnum_attention_heads: 8\n",
                        "seq_length: 128\ntrain_micro_batch_size_per_gpu: 1\n", NestedYaml(name, text));
  }
  if (framework == kAccelerate) return absl::StrCat("distributed_type: FSDP\n", NestedYaml(name, text));
  if (framework == kMaxText)
    return absl::StrCat("per_device_batch_size: 1\nmax_target_length: 128\n", NestedYaml(name, text));
  if (framework == kNanotron) {
    const std::string run =
        "parallelism:\n  dp: 8\n  pp: 1\n  pp_engine: 1f1b\n  tp: 1\n"
        "tokens:\n  micro_batch_size: 1\n  sequence_length: 128\n";
    return absl::StrCat(run, NestedYaml(name, text));
  }
  const std::string model =
      "model:\n  num_layers: 4\n  hidden_size: 256\n  num_attention_heads: 8\n  encoder_seq_length: 128\n"
      "  micro_batch_size: 1\n  override_vocab_size: 1024\n";
  const std::string trainer = "trainer:\n  devices: 8\n";
  if (table == "trainer") return absl::StrCat(trainer, "  ", key, ": ", text, "\n", model);
  // Sections below model follow it, others are their own.
  if (!name.starts_with("model.")) return absl::StrCat(trainer, model, NestedYaml(name, text));
  return absl::StrCat(trainer, model, NestedYaml(name.substr(std::string_view("model.").size()), text, 1));
}

}  // namespace autocfg
