// Files of NeMo as its launcher and its examples write them.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<FrameworkRun> ReadWith(const std::string& name, const std::string& value,
                                      const ReadingOptions& options = {}) {
  return ReadFrameworkFile(kNemo, "a.yaml", SmallFile(kNemo, name, value), options);
}

TEST(NemoFiles, NormsInAnyCase) {
  for (const char* rms : {"rmsnorm", "RMSNorm", "RmsNorm"}) {
    const auto run = ReadWith("model.normalization", rms);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->model.norm, Norm::kRmsNorm) << rms;
  }
  for (const char* layer : {"LayerNorm", "layernorm1p", "LayerNorm1P"}) {
    const auto run = ReadWith("model.normalization", layer);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->model.norm, Norm::kLayerNorm) << layer;
  }
  EXPECT_THAT(std::string(ReadWith("model.normalization", "BatchNorm").status().message()),
              HasSubstr("model.normalization is 'BatchNorm'; only layernorm and rmsnorm can be read"));
}

TEST(NemoFiles, ResolversAreComputed) {
  struct Case {
    const char* value;
    std::int64_t ffn_hidden;
  };
  for (const Case& c : {
           Case{"${multiply:4, ${.hidden_size}}", 1024},
           Case{"${multiply:${model.hidden_size},4}", 1024},
           Case{"${multiply:2, ${multiply:2, ${.hidden_size}}}", 1024},
           Case{"${divide_ceil:1025, 2}", 513},
           Case{"${divide_floor:${multiply:8, ${.hidden_size}}, 3}", 682},
           Case{"${int_div:1025, 2}", 512},
           Case{"${multiply_to_int:${.hidden_size}, 2.67}", 683},
           Case{"${add:${.hidden_size}, 256}", 512},
           Case{"${oc.env:FFN_HIDDEN, 768}", 768},
           Case{"${..model.hidden_size}", 256},
           Case{"1${.num_layers}0", 140},
       }) {
    const auto run = ReadWith("model.ffn_hidden_size", c.value);
    ASSERT_TRUE(run.ok()) << c.value << ": " << run.status();
    EXPECT_EQ(run->model.ffn_hidden, c.ffn_hidden) << c.value;
  }
}

TEST(NemoFiles, WhatCannotBeComputedIsNamed) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "${multiply:1, ";
  for (const auto& [value, says] : {
           std::pair<std::string, const char*>("${multiply:4, ${.size}}", "${.size} is not computed"),
           {"${divide_ceil:1, 0}", "${divide_ceil:1, 0} is not computed"},
           {"${square:4}", "${square:4} is not computed"},
           {"${oc.env:FFN_HIDDEN}", "${oc.env:FFN_HIDDEN} is not computed"},
           {"${multiply:2, ${.ffn_hidden_size}}", "${.ffn_hidden_size} leads back to itself"},
           {"???", "it is said at launch"},
           {deep, "is nested deeper than 32"},
       }) {
    const std::string message(ReadWith("model.ffn_hidden_size", value).status().message());
    EXPECT_THAT(message, HasSubstr("model.ffn_hidden_size has no value that can be known: ")) << value;
    EXPECT_THAT(message, HasSubstr(says)) << value;
  }
  // Each value is the one before twice.
  std::string doubling = SmallFile(kNemo, "model.v0", "12345678");
  for (int i = 1; i < 64; ++i) absl::StrAppend(&doubling, "  v", i, ": ${.v", i - 1, "}${.v", i - 1, "}\n");
  EXPECT_TRUE(ReadFrameworkFile(kNemo, "a.yaml", doubling).ok());
  absl::StrAppend(&doubling, "  ffn_hidden_size: ${.v63}\n");
  EXPECT_THAT(std::string(ReadFrameworkFile(kNemo, "a.yaml", doubling).status().message()),
              HasSubstr("it is too long"));
}

TEST(NemoFiles, NodesThatAreSaidAtLaunch) {
  ReadingOptions options;
  options.ranks = 32;
  for (const char* nodes : {"", "  num_nodes: ???\n", "  num_nodes: ${oc.env:NNODES}\n"}) {
    const std::string text = SmallFile(kNemo, "model.seed", "1");
    const std::size_t at = text.find("model:");
    const auto run =
        ReadFrameworkFile(kNemo, "a.yaml", text.substr(0, at) + nodes + text.substr(at), options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->ranks, 32) << nodes;
  }
  const auto missing = ReadWith("model.seed", "1", options);
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_EQ(missing->ranks_per_node, 8);
  EXPECT_THAT(missing->notes, Contains("trainer.num_nodes is missing: read as 4, for 32 ranks"));
  options.ranks = 0;
  EXPECT_EQ(ReadWith("model.seed", "1", options)->ranks, 8);
  options.ranks = 12;  // no whole nodes
  EXPECT_EQ(ReadWith("model.seed", "1", options)->ranks, 8);
  options.ranks = 32;
  EXPECT_EQ(ReadWith("trainer.num_nodes", "2", options)->ranks, 16);
}

TEST(NemoFiles, FilesThatFineTune) {
  const auto file = [](const char* scheme) {
    return absl::StrCat(
        "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel:\n  micro_batch_size: 1\n",
        "  global_batch_size: 16\n  restore_from_path: ???\n  peft: {peft_scheme: ", scheme,
        "}\n  data:\n    train_ds:\n      max_seq_length: 2048\n",
        "    validation_ds:\n      max_seq_length: 512\n");
  };
  EXPECT_EQ(FrameworkOf(file("none")), kNemo);
  ReadingOptions options;
  EXPECT_EQ(ReadFrameworkFile(kNemo, "a.yaml", file("none"), options).status().message(),
            "a.yaml:5: model.restore_from_path names a checkpoint, which has the model; give --model");
  options.model = *ModelPreset("llama3-8b");
  const auto run = ReadFrameworkFile(kNemo, "a.yaml", file("null"), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->workload.seq_len, 2048);
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=1,dp=8,mbs=1");
  EXPECT_THAT(std::string(ReadFrameworkFile(kNemo, "a.yaml", file("lora"), options).status().message()),
              HasSubstr("adapters (LoRA, PEFT) are not modelled"));
}

FrameworkRun NemoWith(const std::string& of_model, const std::string& name = "") {
  std::string text = SmallFile(kNemo, "model.seed", 1);
  text += of_model;
  if (!name.empty()) text += "name: " + name + "\n";
  auto run = ReadFrameworkFile(kNemo, "a.yaml", text);
  EXPECT_TRUE(run.ok()) << run.status() << "\n" << text;
  return run.ok() ? *std::move(run) : FrameworkRun{};
}

TEST(NemoFiles, ActivationsAreReadByTheirForms) {
  const auto activation = [](const std::string& lines) { return NemoWith(lines).model.activation; };
  EXPECT_EQ(activation("  activation: squared-relu\n  bias: false\n"), Activation::kSquaredRelu);
  EXPECT_EQ(activation("  activation: gelu\n  bias: false\n"), Activation::kGeluErf);
  EXPECT_EQ(activation("  activation: gelu\n"), Activation::kGelu);
  EXPECT_EQ(activation("  activation: gelu\n  bias_activation_fusion: false\n"), Activation::kGeluErf);
  EXPECT_EQ(activation("  activation: gelu\n  bias: false\n  openai_gelu: true\n"), Activation::kGelu);
  EXPECT_EQ(activation("  activation: fast-geglu\n  openai_gelu: true\n"), Activation::kGeGlu);
  EXPECT_EQ(activation("  activation: approx-gelu\n"), Activation::kGelu);
  EXPECT_EQ(NemoWith("  position_embedding_type: ALiBi\n").model.position, Position::kAlibi);
}

TEST(NemoFiles, LayersOfFalconAndGemmaAreRead) {
  const std::string parallel = "  mcore_customization_config:\n    parallel_attention: true\n";
  const ModelSpec falcon = NemoWith(parallel, "megatron_falcon_gpt").model;
  EXPECT_TRUE(falcon.parallel_residual && falcon.shared_norm);
  const FrameworkRun other = NemoWith(parallel);
  EXPECT_FALSE(other.model.parallel_residual);
  EXPECT_THAT(other.notes,
              testing::Contains(HasSubstr("parallel_attention is left out: it is of layers of")));
  const ModelSpec gemma = NemoWith(
                              "  apply_embedding_scaling: true\n  mcore_customization_config:\n"
                              "    query_pre_attn_scalar: 64\n    attn_logit_softcapping: 50.0\n"
                              "    final_logit_softcapping: 30.0\n",
                              "megatron_gemma2")
                              .model;
  EXPECT_EQ(gemma.embedding_scale, 16);
  EXPECT_EQ(gemma.attention_scale, 0.125);
  EXPECT_EQ(gemma.attention_softcap, 50);
  EXPECT_EQ(gemma.output_softcap, 30);
  EXPECT_EQ(gemma.norm_placement, NormPlacement::kSandwich);
  EXPECT_FALSE(NemoWith("  window_size: [63, 0]\n").model.layer_kinds.empty());
}

// The core checks the method for full recomputation alone.
TEST(NemoFiles, AMethodOfSelectiveRecomputationIsLeftOut) {
  const FrameworkRun run = NemoWith(
      "  activations_checkpoint_granularity: selective\n  activations_checkpoint_method: uniform\n"
      "  attention_backend: unfused\n");
  EXPECT_EQ(PlanText(run.plan), "tp=1,pp=1,dp=8,mbs=1,recompute=selective,attention=unfused");
  EXPECT_THAT(run.notes, testing::Contains(HasSubstr("activations_checkpoint_method has no effect with")));
}

TEST(NemoFiles, WhatIsNoDecoderIsNamedSo) {
  const auto problem = [](const std::string& text) {
    return std::string(ReadFrameworkFile(kNemo, "a.yaml", text).status().message());
  };
  const std::string batch = "  micro_batch_size: 1\n  global_batch_size: 8\n";
  const std::string encoder =
      "a.yaml:5: model.encoder.num_layers cannot be read: models with an encoder are not";
  EXPECT_THAT(problem("trainer: {devices: 8}\nmodel:\n" + batch + "  encoder: {num_layers: 4}\n"),
              HasSubstr(encoder));
  EXPECT_THAT(problem("name: megatron_t5_glue\ntrainer: {devices: 8}\nmodel:\n" + batch),
              HasSubstr("a.yaml:1: name cannot be read: models with an encoder are not modelled"));
  EXPECT_THAT(problem("trainer: {devices: 8}\nquantization: {algorithm: int4}\nmodel:\n" + batch),
              HasSubstr("training with quantized weights is not modelled"));
  EXPECT_EQ(problem("trainer: {devices: 8}\nmodel:\n" + batch),
            "a.yaml: model.encoder_seq_length is missing; add it, or give --seq-len");
  EXPECT_EQ(problem("trainer: {devices: 8}\nmodel:\n  encoder_seq_length: 64\n" + batch),
            "a.yaml: model.num_layers is missing; add it, or give --model");
  EXPECT_THAT(
      problem(SmallFile(kNemo, "model.activation", "reglu")),
      HasSubstr("is 'reglu', which is not modelled; gelu, swiglu, geglu and squared-relu can be read"));
  EXPECT_THAT(problem(SmallFile(kNemo, "model.activation", "swiglu") + "  openai_gelu: true\n"),
              HasSubstr("model.openai_gelu"));
}

// The file's own value changes, where another refers to it.
TEST(NemoFiles, AReferenceIsChangedWhereItsValueStands) {
  std::string text = SmallFile(kNemo, "model.tensor_model_parallel_size", "${.size}");
  text += "  size: 2\n";
  const auto run = ReadFrameworkFile(kNemo, "a.yaml", text);
  ASSERT_TRUE(run.ok()) << run.status();
  ParallelPlan plan = run->plan;
  plan.tp = 4;
  plan.dp = 2;
  const auto changed = ChangePlan(*run, plan, {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, HasSubstr("  size: 4\n"));
  EXPECT_THAT(changed->besides, IsEmpty());
}

}  // namespace
}  // namespace autocfg
