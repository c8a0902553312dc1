// What autocfg does not model is named before any other error.
#include "search/frameworks/settings/unmodelled.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

// Of a script that lacks all that a reader asks for.
std::string ErrorOfScript(const std::string& options, const ReadingOptions& reading = {}) {
  const std::string script = "torchrun pretrain_gpt.py --micro-batch-size 1 " + options + "\n";
  return std::string(ReadFrameworkFile(kMegatron, "a.sh", script, reading).status().message());
}

TEST(Unmodelled, FeaturesOfMegatronComeBeforeOtherErrors) {
  const std::string other_layers = "other layers than attention are not modelled";
  const std::string_view moe = "mixtures of experts are not modelled",
                         adapters = "adapters (LoRA, PEFT) are not modelled";
  for (const auto& [options, why] : {
           std::pair<std::string, std::string_view>("--hybrid-layer-pattern M-M*-", other_layers),
           {"--hybrid-attention-ratio 0.08", other_layers},
           {"--hybrid-mlp-ratio 0.5", other_layers},
           {"--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec", other_layers},
           {"--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec", other_layers},
           {"--experimental-attention-variant dsa", other_layers},
           {"--linear-attention-freq 4", other_layers},
           {"--num-experts 8", moe},
           {"--window-size 128,0 --expert-model-parallel-size 8 --num-experts 32", moe},
           {"--lora-r 16", adapters},
           {"--lora-target-modules linear_qkv", adapters},
           {"--softmax-type learnable", "a sink beside the scores of attention is not modelled"},
           {"--optimizer-cpu-offload", "states in host memory are not modelled"},
           {"--fine-grained-activation-offloading", "activations in host memory are not modelled"},
           {"--multi-latent-attention --q-lora-rank 1536", "multi-latent attention is not modelled"},
       }) {
    EXPECT_THAT(ErrorOfScript(options), HasSubstr(absl::StrCat(" cannot be read: ", std::string(why))))
        << options;
    ReadingOptions model;
    model.model = *ModelPreset("llama3-8b");
    EXPECT_THAT(ErrorOfScript(options, model), HasSubstr(std::string(why))) << options;
  }
}

TEST(Unmodelled, WhatIsSwitchedOffIsLeftOut) {
  ReadingOptions options;
  options.ranks = 8;
  for (const char* off :
       {"--hybrid-attention-ratio 0.0", "--num-experts 0", "--num-experts 1", "--lora-r 0",
        "--softmax-type vanilla", "--mtp-num-layers 0", "--experimental-attention-variant None",
        "--spec megatron.core.models.gpt.gpt_layer_specs get_gpt_layer_local_spec"}) {
    const auto run = ReadFrameworkFile(kMegatron, "a.args", FlagsWith(off), options);
    EXPECT_TRUE(run.ok()) << run.status();
  }
}

TEST(Unmodelled, ProgramsThatTrainOtherLayers) {
  for (const char* program : {"pretrain_mamba.py", "./pretrain_hybrid.py"}) {
    const std::string script = absl::StrCat("torchrun ", program, " --micro-batch-size 1\n");
    EXPECT_THAT(std::string(ReadFrameworkFile(kMegatron, "a.sh", script).status().message()),
                HasSubstr("other layers than attention are not modelled"));
  }
}

TEST(Unmodelled, FeaturesOfTheOtherFrameworks) {
  const auto nemo = [](const std::string& more) {
    const auto run = ReadFrameworkFile(kNemo, "a.yaml", "model:\n  micro_batch_size: 1\n" + more);
    return std::string(run.status().message());
  };
  EXPECT_EQ(nemo("  num_moe_experts: 8\n"),
            "a.yaml:3: model.num_moe_experts cannot be read: mixtures of experts are not modelled");
  EXPECT_EQ(nemo("  peft:\n    peft_scheme: lora\n"),
            "a.yaml:4: model.peft.peft_scheme cannot be read: adapters (LoRA, PEFT) are not modelled");
  EXPECT_THAT(nemo("  hybrid_override_pattern: M*-\n"), HasSubstr("other layers than attention"));
  const auto offloads = ReadFrameworkFile(
      kDeepSpeed, "a.json", R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})");
  EXPECT_EQ(offloads.status().message(),
            "a.json:1: zero_optimization.offload_param.device cannot be read: states in host memory are not "
            "modelled");
  for (const char* model : {"deepseek_v3", "llama4"}) {
    const auto mixture =
        ReadFrameworkFile(kTorchtitan, "a.toml", absl::StrCat("[model]\nname = \"", model, "\"\n"));
    EXPECT_THAT(std::string(mixture.status().message()), HasSubstr("mixtures of experts are not modelled"));
  }
}

}  // namespace
}  // namespace autocfg
