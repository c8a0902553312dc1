#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "search/export/megatron_core.h"
#include "search/export/refusals.h"
#include "search/export/writers.h"
#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

void CheckNemoModel(const ModelSpec& model, Refusals& refuse) {
  CheckCoreModel(model, refuse);
  refuse.Unless(model.activation != Activation::kRelu, "activation=relu");
  refuse.Unless(model.position != Position::kNone, "position=none");
  refuse.Unless(model.rope_scaling.empty(), fmt::format("rope_scaling={}", model.rope_scaling));
}

void CheckNemoPlan(const ExportedRun& run, Refusals& refuse) {
  const std::string_view precision = Name(run.workload.precision);
  refuse.Unless(precision == "bf16" || precision == "fp32",
                fmt::format("precision={} (it has bf16 and fp32 here)", precision));
  refuse.ByRules(kNemo, run);
}

std::string Yes(bool value) { return value ? "true" : "false"; }

std::string NemoModel(const ExportedRun& run) {
  const ModelSpec& model = run.model;
  std::string text = fmt::format(
      "  encoder_seq_length: {}\n  max_position_embeddings: {}\n  num_layers: {}\n  hidden_size: {}\n"
      "  ffn_hidden_size: {}\n  num_attention_heads: {}\n  num_query_groups: {}\n  kv_channels: {}\n",
      run.workload.seq_len, std::max(model.max_seq_len, run.workload.seq_len), model.layers, model.hidden,
      model.ffn_hidden, model.heads, model.kv_heads, model.head_dim);
  text += fmt::format(
      "  init_method_std: {}\n  hidden_dropout: 0.0\n  attention_dropout: 0.0\n  ffn_dropout: 0.0\n"
      "  normalization: {}\n  layernorm_epsilon: {}\n  make_vocab_size_divisible_by: {}\n  bias: {}\n"
      "  qkv_bias: {}\n  qk_layernorm: {}\n",
      model.init_std, model.norm == Norm::kRmsNorm ? "rmsnorm" : "layernorm", model.norm_eps,
      model.vocab_multiple, Yes(model.mlp_bias), Yes(model.qkv_bias && !model.mlp_bias),
      Yes(model.qk_norm == QkNorm::kHead));
  const std::string_view activation = model.activation == Activation::kSwiGlu  ? "swiglu"
                                      : model.activation == Activation::kGeGlu ? "geglu"
                                                                               : "gelu";
  text += fmt::format("  activation: {}\n  transformer_block_type: pre_ln\n", activation);
  if (model.position == Position::kRope) {
    text += fmt::format("  position_embedding_type: rope\n  rotary_percentage: {}\n  rotary_base: {}\n",
                        model.partial_rotary_factor, static_cast<std::int64_t>(model.rope_theta));
  } else {
    text += "  position_embedding_type: learned_absolute\n";
  }
  text += fmt::format("  share_embeddings_and_output_weights: {}\n", Yes(model.tied_embeddings));
  return text;
}

std::string NemoParallelism(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  std::string text = fmt::format(
      "  micro_batch_size: {}\n  global_batch_size: {}\n  tensor_model_parallel_size: {}\n"
      "  pipeline_model_parallel_size: {}\n  virtual_pipeline_model_parallel_size: {}\n  sequence_parallel: "
      "{}\n",
      plan.micro_batch, run.workload.global_batch, plan.tp, plan.pp,
      plan.virtual_stages > 1 ? fmt::to_string(plan.virtual_stages) : "null", Yes(SplitsSequence(plan)));
  text += fmt::format("  overlap_p2p_comm: {}\n  batch_p2p_comm: {}\n  ub_tp_comm_overlap: {}\n",
                      Yes(plan.p2p_overlap), Yes(!plan.p2p_overlap), Yes(plan.tp_overlap > 1));
  if (plan.recompute == Recompute::kFull) {
    text += fmt::format(
        "  activations_checkpoint_granularity: full\n  activations_checkpoint_method: {}\n"
        "  activations_checkpoint_num_layers: {}\n",
        plan.recompute_layers == 0 ? "uniform" : "block", std::max<std::int64_t>(plan.recompute_layers, 1));
  } else {
    text += fmt::format(
        "  activations_checkpoint_granularity: {}\n  activations_checkpoint_method: null\n"
        "  activations_checkpoint_num_layers: null\n",
        plan.recompute == Recompute::kSelective ? "selective" : "null");
  }
  text += fmt::format("  attention_backend: {}\n", IsUnfused(plan) ? "unfused" : "flash");
  return text;
}

std::string NemoOptimizer(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  std::string text = fmt::format(
      "  optim:\n    name: {}\n    lr: 0.0003\n    weight_decay: 0.1\n    betas:\n    - 0.9\n    - 0.95\n"
      "    eps: 1.0e-08\n",
      plan.zero_stage == 1 ? "distributed_fused_adam" : "fused_adam");
  if (plan.zero_stage == 1) {
    text += fmt::format(
        "    overlap_grad_sync: {}\n    overlap_param_sync: {}\n    contiguous_grad_buffer: true\n",
        Yes(plan.grad_overlap), Yes(plan.param_overlap));
  }
  return text + "    sched:\n      name: CosineAnnealing\n      warmup_steps: 500\n      min_lr: 3.0e-05\n";
}

}  // namespace

absl::StatusOr<ExportedFile> WriteNemo(const ExportedRun& run) {
  Refusals refuse;
  CheckNemoModel(run.model, refuse);
  CheckNemoPlan(run, refuse);
  if (absl::Status status = refuse.For(kNemo); !status.ok()) return status;
  const ParallelPlan& plan = run.plan;
  const bool bf16 = Name(run.workload.precision) == "bf16";
  ExportedFile exported;
  if (plan.tp_overlap > 1) {
    exported.translated.push_back(
        fmt::format("tp_overlap={} is ub_tp_comm_overlap, which chooses the chunks itself", plan.tp_overlap));
  }
  if (plan.recompute_layers > 0) {
    exported.translated.push_back(
        fmt::format("recompute=full:{} is activations_checkpoint_method block", plan.recompute_layers));
  }
  const NodeLayout layout = LayoutOf(run);
  // The program takes a directory and a name without ".yaml".
  exported.launch = {
      .program = "examples/nlp/language_modeling/megatron_gpt_pretraining.py",
      .arguments = "--config-path \"$(dirname {file})\" --config-name \"$(basename {file} .yaml)\""};
  if (plan.tp > 1) exported.launch.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  std::string text = fmt::format("# NeMo ({}), megatron_gpt_pretraining.py\n", kNemoVersion);
  for (const std::string& line : EvidenceLines(run)) text += fmt::format("# {}\n", line);
  for (const std::string& line : exported.translated) text += fmt::format("# translated: {}\n", line);
  for (const auto& [name, value] : exported.launch.environment)
    text += fmt::format("# env {}={}\n", name, value);
  text += fmt::format("# start: {}\n", TorchrunLine(exported.launch, layout));
  text += fmt::format(
      "trainer:\n  devices: {}\n  num_nodes: {}\n  accelerator: gpu\n  precision: {}\n"
      "  max_steps: {}\n  log_every_n_steps: 1\n  accumulate_grad_batches: 1\n  gradient_clip_val: 1.0\n"
      "  use_distributed_sampler: false\n  logger: false\n  enable_checkpointing: false\n",
      layout.ranks_per_node, layout.nodes, bf16 ? "bf16" : "32", run.tokens > 0 ? StepsOf(run) : 1000);
  text +=
      "exp_manager:\n  explicit_log_dir: null\n  exp_dir: null\n  name: megatron_gpt\n"
      "  create_checkpoint_callback: false\n";
  text += "model:\n  mcore_gpt: true\n  transformer_engine: true\n";
  text += fmt::format("  megatron_amp_O2: {}\n", Yes(bf16));
  text += NemoParallelism(run) + NemoModel(run);
  text +=
      "  # set these as your training needs them\n"
      "  tokenizer:\n    library: huggingface\n    type: gpt2\n    use_fast: true\n";
  text += fmt::format(
      "  data:\n    data_impl: mock\n    data_prefix: []\n    splits_string: 99,1,0\n"
      "    seq_length: {}\n    num_workers: 2\n",
      run.workload.seq_len);
  text += fmt::format("  override_vocab_size: {}\n", PaddedVocab(run.model, plan.tp));
  exported.text = text + NemoOptimizer(run);
  return exported;
}

}  // namespace autocfg
