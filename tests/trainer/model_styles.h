// Small models of each style that the engine runs, for tests.
#pragma once

#include <string>
#include <vector>

#include "search/plan/model_spec.h"
#include "tests/support/layer_cycle.h"
#include "tests/support/llama_parts.h"

namespace autocfg::test {

// Sizes that tp = 1, 2 and 4 divide, and a vocabulary that needs padding. The test sets the number of layers
// (SetLayers).
inline ModelSpec SmallModel(const std::string& name) {
  ModelSpec m;
  m.name = name;
  m.hidden = 16;
  m.heads = 4;
  m.kv_heads = 4;
  m.head_dim = 4;
  m.ffn_hidden = 12;
  m.vocab = 29;
  m.max_seq_len = 7;
  m.vocab_multiple = 2;
  return m;
}

// GPT-2, Llama, and mixes that together combine every activation with every other part.
inline std::vector<ModelSpec> ModelStyles() {
  std::vector<ModelSpec> styles;
  styles.push_back(SmallModel("gpt2"));

  ModelSpec llama = SmallModel("llama");
  llama.heads = 8;  // two per key-value head; together wider than the hidden size
  SetLlamaParts(llama);
  styles.push_back(llama);

  ModelSpec rms_gpt2 = SmallModel("rms_gpt2");
  rms_gpt2.norm = Norm::kRmsNorm;
  styles.push_back(rms_gpt2);

  ModelSpec relu = SmallModel("relu_without_positions");
  relu.heads = 12;
  relu.head_dim = 2;
  relu.activation = Activation::kRelu;
  relu.position = Position::kNone;
  SetBiases(relu, false);
  relu.tied_embeddings = false;
  styles.push_back(relu);

  ModelSpec geglu = SmallModel("geglu_with_biases");
  geglu.heads = 8;
  geglu.activation = Activation::kGeGlu;
  geglu.position = Position::kRope;
  geglu.rope_theta = 50.0;
  styles.push_back(geglu);

  ModelSpec gelu_erf = SmallModel("gelu_erf_untied");
  gelu_erf.norm = Norm::kRmsNorm;
  gelu_erf.activation = Activation::kGeluErf;
  gelu_erf.tied_embeddings = false;
  styles.push_back(gelu_erf);
  // Bloom's positions, with heads that are no power of two.
  ModelSpec alibi = SmallModel("alibi");
  alibi.heads = 12;
  alibi.head_dim = 2;
  alibi.position = Position::kAlibi;
  alibi.attention_scale = 0.9;
  styles.push_back(alibi);

  ModelSpec partial = SmallModel("partial_rotary");
  partial.head_dim = 6;
  partial.position = Position::kRope;
  partial.rope_theta = 50.0;
  partial.partial_rotary_factor = 2.0 / 3;
  styles.push_back(partial);
  // Qwen 3.
  ModelSpec qk_norm = SmallModel("qk_norm");
  qk_norm.heads = 8;
  qk_norm.norm = Norm::kRmsNorm;
  qk_norm.activation = Activation::kSwiGlu;
  qk_norm.position = Position::kRope;
  qk_norm.qk_norm = QkNorm::kHead;
  SetBiases(qk_norm, false);
  styles.push_back(qk_norm);
  // OLMo 2.
  ModelSpec full = qk_norm;
  full.name = "full_qk_norm";
  full.qk_norm = QkNorm::kFull;
  full.tied_embeddings = false;
  styles.push_back(full);
  // Falcon 7B.
  ModelSpec shared = SmallModel("shared_norm");
  shared.kv_heads = 4;
  shared.heads = 8;
  shared.activation = Activation::kGeluErf;
  shared.position = Position::kRope;
  shared.parallel_residual = true;
  shared.shared_norm = true;
  SetBiases(shared, false);
  styles.push_back(shared);
  // GPT-NeoX, with the scales and the norm of embeddings that others have.
  ModelSpec parallel = SmallModel("parallel");
  parallel.activation = Activation::kGeGlu;
  parallel.parallel_residual = true;
  parallel.embedding_norm = true;
  parallel.embedding_scale = 1.5;
  parallel.logit_scale = 0.7;
  parallel.residual_scale = 1.3;
  parallel.mlp_bias = false;
  parallel.tied_embeddings = false;
  styles.push_back(parallel);
  // Granite, with biases.
  ModelSpec granite = SmallModel("scaled_residuals");
  granite.heads = 8;
  granite.norm = Norm::kRmsNorm;
  granite.activation = Activation::kSwiGlu;
  granite.position = Position::kRope;
  granite.residual_scale = 0.6;
  granite.qkv_bias = false;
  styles.push_back(granite);
  // SmolLM 3.
  ModelSpec smol = SmallModel("some_layers_rotate");
  smol.heads = 8;
  smol.norm = Norm::kRmsNorm;
  smol.activation = Activation::kSwiGlu;
  smol.position = Position::kRope;
  smol.rope_theta = 50.0;
  smol.layer_kinds = {{.layers = 1}, {.layers = 1, .rotary = false}};
  SetBiases(smol, false);
  styles.push_back(smol);
  // OLMo 2.
  ModelSpec output = full;
  output.name = "norms_on_outputs";
  output.norm_placement = NormPlacement::kOutput;
  styles.push_back(output);
  // Gemma 2, with layer norms, biases and scaled residuals.
  ModelSpec sandwich = SmallModel("norms_on_both");
  sandwich.heads = 8;
  sandwich.activation = Activation::kGeGlu;
  sandwich.position = Position::kRope;
  sandwich.norm_placement = NormPlacement::kSandwich;
  sandwich.embedding_scale = 4;
  sandwich.residual_scale = 0.8;
  styles.push_back(sandwich);
  // Norms on outputs of GPT-2's other parts.
  ModelSpec output_gpt2 = SmallModel("gpt2_with_norms_on_outputs");
  output_gpt2.norm_placement = NormPlacement::kOutput;
  styles.push_back(output_gpt2);
  // Qwen 2's and Gemma's key-value heads, fewer than the ranks of a tensor group.
  ModelSpec two_kv_heads = SmallModel("two_kv_heads");
  two_kv_heads.heads = 8;
  two_kv_heads.kv_heads = 2;
  two_kv_heads.norm = Norm::kRmsNorm;
  two_kv_heads.activation = Activation::kSwiGlu;
  two_kv_heads.position = Position::kRope;
  two_kv_heads.qk_norm = QkNorm::kHead;
  styles.push_back(two_kv_heads);
  ModelSpec one_kv_head = SmallModel("one_kv_head");
  one_kv_head.kv_heads = 1;
  one_kv_head.norm_placement = NormPlacement::kSandwich;
  one_kv_head.qkv_bias = false;
  styles.push_back(one_kv_head);
  // Llama 3.1: of its two frequencies, one is kept and one is divided.
  ModelSpec llama3 = llama;
  llama3.name = "llama3_scaling";
  llama3.rope_scaling = RopeScaling::kLlama3;
  llama3.rope_scaling_parameters = {
      .factor = 8, .original_max_position_embeddings = 16, .low_freq_factor = 0.5, .high_freq_factor = 2};
  styles.push_back(llama3);
  // YaRN, whose factor of cosines and sines is not 1, in a part of each head.
  ModelSpec yarn = partial;
  yarn.name = "yarn_scaling";
  yarn.rope_scaling = RopeScaling::kYarn;
  yarn.rope_scaling_parameters = {.factor = 4, .original_max_position_embeddings = 16, .beta_fast = 2};
  styles.push_back(yarn);
  // Gemma 2: sandwich norms, both soft caps, alternate windows.
  ModelSpec gemma = SmallModel("gemma2");
  gemma.heads = 8;
  gemma.norm = Norm::kRmsNorm;
  gemma.activation = Activation::kGeGlu;
  gemma.position = Position::kRope;
  gemma.rope_theta = 50.0;
  gemma.norm_placement = NormPlacement::kSandwich;
  gemma.embedding_scale = 4;
  gemma.attention_scale = 0.4;
  // Small, so that scores and logits are capped.
  gemma.attention_softcap = 0.5;
  gemma.output_softcap = 0.3;
  gemma.layer_kinds = {{.layers = 1, .window = 3}, {.layers = 1}};
  SetBiases(gemma, false);
  styles.push_back(gemma);
  // Mistral's windows, in all layers, with ALiBi.
  ModelSpec windows = SmallModel("windows");
  windows.heads = 8;
  windows.position = Position::kAlibi;
  windows.attention_softcap = 0.7;
  windows.layer_kinds = {{.layers = 1, .window = 2}};
  windows.tied_embeddings = false;
  styles.push_back(windows);
  // Gemma 3: layers with windows have frequencies of their own, which are not scaled.
  ModelSpec gemma3 = two_kv_heads;
  gemma3.name = "gemma3";
  gemma3.activation = Activation::kGeGlu;
  gemma3.norm_placement = NormPlacement::kSandwich;
  gemma3.rope_theta = 500.0;
  gemma3.rope_scaling = RopeScaling::kLinear;
  gemma3.rope_scaling_parameters = {.factor = 4};
  gemma3.layer_kinds = {{.layers = 2, .window = 3, .rope_theta = 20.0}, {.layers = 1}};
  styles.push_back(gemma3);
  // Llama 4's attention: within chunks in layers with rotary positions, to all in those without.
  ModelSpec chunks = llama;
  chunks.name = "chunks";
  chunks.max_seq_len = 8;
  chunks.layer_kinds = {{.layers = 2, .chunk = 2}, {.layers = 1, .rotary = false}};
  styles.push_back(chunks);
  return styles;
}

}  // namespace autocfg::test
