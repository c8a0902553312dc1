#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "search/frameworks/nemo/nemo.h"
#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

std::string_view Yes(bool value) { return value ? "true" : "false"; }

// Lines of YAML in sections of two blanks, by names with dots.
class YamlFile {
 public:
  template <typename T>
  void Set(std::string_view name, const T& value) {
    const std::string indent = Open(name);
    text_ += fmt::format("{}{}: {}\n", indent, LastPart(name), value);
  }
  void Comment(std::string_view line) { text_ += fmt::format("  # {}\n", line); }
  // A list of numbers below its key.
  void List(std::string_view name, std::initializer_list<std::string_view> values) {
    const std::string indent = Open(name);
    text_ += fmt::format("{}{}:\n", indent, LastPart(name));
    for (const std::string_view value : values) text_ += fmt::format("{}- {}\n", indent, value);
  }
  const std::string& text() const { return text_; }

 private:
  // Writes the keys of the sections that the name is in and the one before was not. Returns its indent.
  std::string Open(std::string_view name) {
    std::string indent;
    std::size_t from = 0;
    for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', from)) {
      if (const std::string_view section = name.substr(0, dot + 1); !last_.starts_with(section))
        text_ += fmt::format("{}{}:\n", indent, name.substr(from, dot - from));
      indent += "  ";
      from = dot + 1;
    }
    last_ = name;
    return indent;
  }

  std::string text_, last_;
};

void WriteNemoModel(const ExportedRun& run, YamlFile& file) {
  const ModelSpec& model = run.model;
  file.Set(kNemoNames.seq_len, run.workload.seq_len);
  file.Set(kNemoNames.max_seq_len, std::max(model.max_seq_len, run.workload.seq_len));
  file.Set(kNemoNames.layers, model.layers);
  file.Set(kNemoNames.hidden, model.hidden);
  file.Set(kNemoNames.ffn_hidden, model.ffn_hidden);
  file.Set(kNemoNames.heads, model.heads);
  file.Set(kNemoNames.kv_heads, model.kv_heads);
  file.Set(kNemoNames.head_dim, model.head_dim);
  file.Set(kNemoNames.init_std, model.init_std);
  file.Set(kNemoNames.hidden_dropout, model.dropout);
  file.Set(kNemoNames.attention_dropout, AttentionDropout(model));
  file.Set("model.ffn_dropout", 0.0);
  file.Set(kNemoNames.norm, model.norm == Norm::kRmsNorm ? kNemoNames.rms_norm : kNemoNames.layer_norm);
  file.Set(kNemoNames.norm_eps, model.norm_eps);
  file.Set(kNemoNames.vocab_multiple, model.vocab_multiple);
  file.Set(nemo::kBiases, Yes(model.mlp_bias));
  file.Set(nemo::kQkvBiases, Yes(model.qkv_bias && !model.mlp_bias));
  file.Set(kNemoNames.qk_norm, Yes(model.qk_norm == QkNorm::kHead));
  file.Set(nemo::kActivation,
           model.activation == Activation::kSwiGlu || model.activation == Activation::kGeGlu
               ? Name(model.activation)
               : Name(Activation::kGelu));
  file.Set("model.transformer_block_type", "pre_ln");
  if (model.position == Position::kRope) {
    file.Set(kNemoNames.position, kRotaryPositions);
    file.Set(kNemoNames.rotary_share, model.partial_rotary_factor);
    file.Set(kNemoNames.rotary_base, static_cast<std::int64_t>(model.rope_theta));
    if (HasLinearScaling(model)) file.Set(kNemoNames.rotary_factor, model.rope_scaling_parameters.factor);
  } else {
    file.Set(kNemoNames.position, kLearnedPositions);
  }
  file.Set(nemo::kTied, Yes(model.tied_embeddings));
}

void WriteNemoParallelism(const ExportedRun& run, YamlFile& file) {
  const ParallelPlan& plan = run.plan;
  file.Set(kNemoNames.micro_batch, plan.micro_batch);
  file.Set(kNemoNames.global_batch, run.workload.global_batch);
  ForEachAxis(kNemoNames.axes, plan,
              [&](std::string_view setting, std::int64_t size) { file.Set(setting, size); });
  file.Set(nemo::kVirtualStages, plan.virtual_stages > 1 ? fmt::to_string(plan.virtual_stages) : "null");
  file.Set(kNemoNames.sp, Yes(SplitsSequence(plan)));
  file.Set(nemo::kMessageOverlap, Yes(plan.p2p_overlap));
  file.Set("model.batch_p2p_comm", Yes(!plan.p2p_overlap));
  file.Set(kNemoNames.tp_overlap, Yes(plan.tp_overlap > 1));
  if (plan.recompute == Recompute::kFull) {
    file.Set(kNemoNames.recompute, kFullRecompute);
    file.Set(kNemoNames.recompute_method, plan.recompute_layers == 0 ? kUniformRecompute : kBlockRecompute);
    file.Set(kNemoNames.recompute_layers,
             plan.recompute_layers == 0 ? run.cluster.engine.recompute_chunk : plan.recompute_layers);
  } else {
    file.Set(kNemoNames.recompute, plan.recompute == Recompute::kSelective ? kSelectiveRecompute : "null");
    file.Set(kNemoNames.recompute_method, "null");
    file.Set(kNemoNames.recompute_layers, "null");
  }
  file.Set(kNemoNames.attention, IsUnfused(plan) ? kUnfusedAttention : kFlashAttention);
}

void WriteNemoOptimizer(const ExportedRun& run, YamlFile& file) {
  const ParallelPlan& plan = run.plan;
  file.Set(nemo::kOptimizer, plan.zero_stage == 1 ? nemo::kShardingOptimizer : "fused_adam");
  file.Set("model.optim.lr", "0.0003");
  file.Set("model.optim.weight_decay", "0.1");
  file.List("model.optim.betas", {"0.9", "0.95"});
  file.Set("model.optim.eps", "1.0e-08");
  if (plan.zero_stage == 1) {
    file.Set(nemo::kGradOverlap, Yes(plan.grad_overlap));
    file.Set(nemo::kParamOverlap, Yes(plan.param_overlap));
    file.Set("model.optim.contiguous_grad_buffer", "true");
  }
  file.Set("model.optim.sched.name", "CosineAnnealing");
  file.Set("model.optim.sched.warmup_steps", 500);
  file.Set("model.optim.sched.min_lr", "3.0e-05");
}

}  // namespace

void CheckNemo(const ExportedRun& run, Refusals& refuse) {
  CheckCoreModel(run.model, refuse);
  refuse.UnlessModel(
      run.model.activation != Activation::kRelu && run.model.activation != Activation::kSquaredRelu,
      fmt::format("activation={}", Name(run.model.activation)));
  refuse.UnlessModel(run.model.position != Position::kNone, "position=none");
  refuse.UnlessModel(run.model.layer_kinds.empty(), "layer_kinds");
  refuse.UnlessModel(run.model.rope_scaling == RopeScaling::kNone || HasLinearScaling(run.model),
                     fmt::format("rope_scaling={} (it has linear)", Name(run.model.rope_scaling)));
  refuse.UnlessPrecision(run, {"bf16", "fp32"}, "bf16 and fp32 here");
}

ExportedFile WriteNemo(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  const bool bf16 = BaseName(run.workload.precision) == "bf16";
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
  if (SplitsLayers(plan)) exported.launch.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  YamlFile file;
  file.Set(nemo::kDevices, layout.ranks_per_node);
  file.Set(nemo::kNodes, layout.nodes);
  file.Set("trainer.accelerator", "gpu");
  file.Set(nemo::kPrecision, bf16 ? "bf16" : "32");
  file.Set("trainer.max_steps", run.tokens > 0 ? StepsOf(run) : 1000);
  file.Set("trainer.log_every_n_steps", 1);
  file.Set("trainer.accumulate_grad_batches", 1);
  file.Set("trainer.gradient_clip_val", "1.0");
  for (const std::string_view off : {"use_distributed_sampler", "logger", "enable_checkpointing"})
    file.Set(fmt::format("trainer.{}", off), "false");
  file.Set("exp_manager.explicit_log_dir", "null");
  file.Set("exp_manager.exp_dir", "null");
  file.Set("exp_manager.name", "megatron_gpt");
  file.Set("exp_manager.create_checkpoint_callback", "false");
  file.Set("model.mcore_gpt", "true");
  file.Set("model.transformer_engine", "true");
  file.Set("model.megatron_amp_O2", Yes(bf16));
  WriteNemoParallelism(run, file);
  WriteNemoModel(run, file);
  file.Comment("set these as your training needs them");
  file.Set("model.tokenizer.library", "huggingface");
  file.Set("model.tokenizer.type", "gpt2");
  file.Set("model.tokenizer.use_fast", "true");
  file.Set("model.data.data_impl", "mock");
  file.Set("model.data.data_prefix", "[]");
  file.Set("model.data.splits_string", "99,1,0");
  file.Set("model.data.seq_length", run.workload.seq_len);
  file.Set("model.data.num_workers", 2);
  file.Set(nemo::kPaddedVocab, PaddedVocab(run.model, plan.tp));
  WriteNemoOptimizer(run, file);
  exported.text =
      HeaderOf(fmt::format("NeMo ({}), megatron_gpt_pretraining.py", kNemoVersion), run, exported) +
      file.text();
  return exported;
}

}  // namespace autocfg
