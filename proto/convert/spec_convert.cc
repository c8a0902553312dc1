#include "proto/convert/spec_convert.h"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/convert/calibration_convert.h"
#include "search/text/engines.h"

namespace autocfg {
namespace {

// `known`: the names that the field takes.
absl::Status UnknownInModel(std::string_view field, std::string_view value,
                            const std::vector<std::string>& known) {
  return base::InvalidArgument("model", fmt::format("unknown {} '{}'; expected {}", field,
                                                    base::Printable(value), base::ChoiceText(known)));
}

v1::DeviceEfficiency ToProto(const DeviceEfficiency& efficiency) {
  v1::DeviceEfficiency message;
  message.set_matmul(efficiency.matmul);
  message.set_matmul_k_half(efficiency.matmul_k_half);
  message.set_attention_forward(efficiency.attention_forward);
  message.set_attention_backward(efficiency.attention_backward);
  message.set_attention_head_dim_half(efficiency.attention_head_dim_half);
  message.set_memory(efficiency.memory);
  message.set_intra_node(efficiency.intra_node);
  message.set_inter_node(efficiency.inter_node);
  message.set_intra_node_message(efficiency.intra_node_message);
  message.set_inter_node_message(efficiency.inter_node_message);
  message.set_optimizer(efficiency.optimizer);
  message.set_data_exposed(efficiency.data_exposed);
  if (efficiency.overlap_contention) message.set_overlap_contention(*efficiency.overlap_contention);
  if (efficiency.op_overhead_s) message.set_op_overhead_s(*efficiency.op_overhead_s);
  return message;
}

DeviceEfficiency FromProto(const v1::DeviceEfficiency& message) {
  return {
      .matmul = message.matmul(),
      .matmul_k_half = message.matmul_k_half(),
      .attention_forward = message.attention_forward(),
      .attention_backward = message.attention_backward(),
      .attention_head_dim_half = message.attention_head_dim_half(),
      .memory = message.memory(),
      .intra_node = message.intra_node(),
      .inter_node = message.inter_node(),
      .intra_node_message = message.intra_node_message(),
      .inter_node_message = message.inter_node_message(),
      .optimizer = message.optimizer(),
      .data_exposed = message.data_exposed(),
      .overlap_contention =
          message.has_overlap_contention() ? std::optional(message.overlap_contention()) : std::nullopt,
      .op_overhead_s = message.has_op_overhead_s() ? std::optional(message.op_overhead_s()) : std::nullopt};
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The message's field of an option. A table whose option has none is a bug: a test holds the two equal.
const FieldDescriptor* FieldOf(const PlanOption& option, const Message& message) {
  const std::string name(option.json_name);
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr)
    throw std::logic_error(fmt::format("{} has no field {}", message.GetDescriptor()->full_name(), name));
  return field;
}

// The value as text, in the form of OptionForm; empty for the default of protobuf.
std::string TextOfField(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return reflection->GetBool(message, field) ? "1" : "";
    case FieldDescriptor::CPPTYPE_INT64: {
      const std::int64_t value = reflection->GetInt64(message, field);
      return value == 0 ? "" : fmt::format("{}", value);
    }
    default: return reflection->GetString(message, field);
  }
}

// Sets the fields that few models have, where they differ from their defaults.
void SetFeatures(const ModelSpec& model, v1::ModelSpec& message) {
  if (model.qk_norm != QkNorm::kNone) message.set_qk_norm(std::string(Name(model.qk_norm)));
  if (model.norm_placement != NormPlacement::kPre)
    message.set_norm_placement(std::string(Name(model.norm_placement)));
  message.set_parallel_residual(model.parallel_residual);
  message.set_shared_norm(model.shared_norm);
  message.set_embedding_norm(model.embedding_norm);
  if (model.partial_rotary_factor != 1) message.set_partial_rotary_factor(model.partial_rotary_factor);
  if (model.embedding_scale != 1) message.set_embedding_scale(model.embedding_scale);
  message.set_attention_scale(model.attention_scale);
  if (model.residual_scale != 1) message.set_residual_scale(model.residual_scale);
  if (model.logit_scale != 1) message.set_logit_scale(model.logit_scale);
  message.set_attention_softcap(model.attention_softcap);
  message.set_output_softcap(model.output_softcap);
  message.set_sliding_window(model.sliding_window);
  message.set_sliding_window_pattern(model.sliding_window_pattern);
  message.set_no_rope_layer_interval(model.no_rope_layer_interval);
}

absl::Status ReadFeatures(const v1::ModelSpec& message, ModelSpec& model) {
  if (!message.qk_norm().empty()) {
    const auto norm = ParseQkNorm(message.qk_norm());
    if (!norm) return UnknownInModel("qk_norm", message.qk_norm(), {"none", "head", "full"});
    model.qk_norm = *norm;
  }
  if (!message.norm_placement().empty()) {
    const auto placement = ParseNormPlacement(message.norm_placement());
    if (!placement)
      return UnknownInModel("norm_placement", message.norm_placement(), {"pre", "output", "sandwich"});
    model.norm_placement = *placement;
  }
  model.parallel_residual = message.parallel_residual();
  model.shared_norm = message.shared_norm();
  model.embedding_norm = message.embedding_norm();
  if (message.partial_rotary_factor() != 0) model.partial_rotary_factor = message.partial_rotary_factor();
  if (message.embedding_scale() != 0) model.embedding_scale = message.embedding_scale();
  model.attention_scale = message.attention_scale();
  if (message.residual_scale() != 0) model.residual_scale = message.residual_scale();
  if (message.logit_scale() != 0) model.logit_scale = message.logit_scale();
  model.attention_softcap = message.attention_softcap();
  model.output_softcap = message.output_softcap();
  model.sliding_window = message.sliding_window();
  model.sliding_window_pattern = message.sliding_window_pattern();
  model.no_rope_layer_interval = message.no_rope_layer_interval();
  return absl::OkStatus();
}

}  // namespace

v1::ModelSpec ToProto(const ModelSpec& model) {
  v1::ModelSpec message;
  message.set_name(model.name);
  message.set_layers(model.layers);
  message.set_hidden(model.hidden);
  message.set_heads(model.heads);
  message.set_kv_heads(model.kv_heads);
  message.set_head_dim(model.head_dim);
  message.set_ffn_hidden(model.ffn_hidden);
  message.set_vocab(model.vocab);
  message.set_max_seq_len(model.max_seq_len);
  message.set_activation(std::string(Name(model.activation)));
  message.set_norm(std::string(Name(model.norm)));
  message.set_norm_eps(model.norm_eps);
  message.set_position(std::string(Name(model.position)));
  message.set_rope_theta(model.rope_theta);
  if (model.qkv_bias == model.attention_out_bias && model.qkv_bias == model.mlp_bias) {
    message.set_bias(model.qkv_bias);
  } else {
    message.set_qkv_bias(model.qkv_bias);
    message.set_attention_out_bias(model.attention_out_bias);
    message.set_mlp_bias(model.mlp_bias);
  }
  message.set_tied_embeddings(model.tied_embeddings);
  message.set_init_std(model.init_std);
  message.set_vocab_multiple(model.vocab_multiple);
  message.set_rope_scaling(model.rope_scaling);
  SetFeatures(model, message);
  return message;
}

absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message) {
  ModelSpec model;
  model.name = message.name();
  model.layers = message.layers();
  model.hidden = message.hidden();
  model.heads = message.heads();
  model.kv_heads = message.kv_heads();
  model.head_dim = message.head_dim();
  model.ffn_hidden = message.ffn_hidden();
  model.vocab = message.vocab();
  model.max_seq_len = message.max_seq_len();
  model.rope_scaling = message.rope_scaling();
  if (!message.activation().empty()) {
    const auto activation = ParseActivation(message.activation());
    if (!activation) {
      return UnknownInModel("activation", message.activation(),
                            {"gelu", "gelu_erf", "relu", "swiglu", "geglu"});
    }
    model.activation = *activation;
  }
  if (!message.norm().empty()) {
    const auto norm = ParseNorm(message.norm());
    if (!norm) return UnknownInModel("norm", message.norm(), {"layernorm", "rmsnorm"});
    model.norm = *norm;
  }
  if (!message.position().empty()) {
    const auto position = ParsePosition(message.position());
    if (!position)
      return UnknownInModel("position", message.position(), {"learned", "rope", "alibi", "none"});
    model.position = *position;
  }
  if (message.norm_eps() != 0) model.norm_eps = message.norm_eps();
  if (message.rope_theta() != 0) model.rope_theta = message.rope_theta();
  if (message.init_std() != 0) model.init_std = message.init_std();
  if (message.vocab_multiple() != 0) model.vocab_multiple = message.vocab_multiple();
  if (message.has_bias()) SetBiases(model, message.bias());
  if (message.has_qkv_bias()) model.qkv_bias = message.qkv_bias();
  if (message.has_attention_out_bias()) model.attention_out_bias = message.attention_out_bias();
  if (message.has_mlp_bias()) model.mlp_bias = message.mlp_bias();
  AUTOCFG_RETURN_IF_ERROR(ReadFeatures(message, model));
  if (message.has_tied_embeddings()) model.tied_embeddings = message.tied_embeddings();

  // Sizes that FillDefaults will fill later may be zero. The completed model must be valid.
  ModelSpec complete = model;
  FillDefaults(complete);
  AUTOCFG_RETURN_IF_ERROR(Validate(complete));
  return model;
}

v1::Workload ToProto(const Workload& workload) {
  v1::Workload message;
  message.set_global_batch(workload.global_batch);
  message.set_seq_len(workload.seq_len);
  message.set_precision(std::string(Name(workload.precision)));
  return message;
}

absl::StatusOr<Workload> FromProto(const v1::Workload& message) {
  const auto precision = ParsePrecision(message.precision());
  if (!precision) return base::InvalidArgument("workload", UnknownPrecision(message.precision()));
  if (message.global_batch() < 1) {
    return base::InvalidArgument(
        "workload", fmt::format("global_batch is {}; it must be at least 1", message.global_batch()));
  }
  if (message.seq_len() < 1) {
    return base::InvalidArgument("workload",
                                 fmt::format("seq_len is {}; it must be at least 1", message.seq_len()));
  }
  return Workload{message.global_batch(), message.seq_len(), *precision};
}

v1::ClusterSpec ToProto(const ClusterSpec& cluster) {
  v1::ClusterSpec message;
  message.set_name(cluster.name);
  message.set_local(cluster.local);
  for (const NodeGroup& group : cluster.groups) {
    v1::NodeGroup& out = *message.add_groups();
    v1::DeviceSpec& device = *out.mutable_device();
    device.set_name(group.device.name);
    device.set_kind(std::string(Name(group.device.kind)));
    device.set_memory_bytes(group.device.memory_bytes);
    device.set_memory_bytes_per_s(group.device.memory_bytes_per_s);
    auto& rates = *device.mutable_flops_per_s();
    for (const auto& [name, rate] : {std::pair<const char*, double>{"fp64", group.device.flops_per_s_fp64},
                                     {"fp32", group.device.flops_per_s_fp32},
                                     {"bf16", group.device.flops_per_s_bf16},
                                     {"fp16", group.device.flops_per_s_fp16},
                                     {"fp8", group.device.flops_per_s_fp8}}) {
      if (rate != 0) rates[name] = rate;
    }
    device.set_multiprocessors(group.device.multiprocessors);
    if (group.device.overhead_bytes) device.set_overhead_bytes(*group.device.overhead_bytes);
    *device.mutable_efficiency() = ToProto(group.device.efficiency);
    out.set_nodes(group.nodes);
    out.set_gpus_per_node(group.gpus_per_node);
    out.set_intra_node_bytes_per_s(group.intra_node_bytes_per_s);
    out.set_inter_node_bytes_per_s(group.inter_node_bytes_per_s);
    if (group.intra_node_latency_s) out.set_intra_node_latency_s(*group.intra_node_latency_s);
    if (group.inter_node_latency_s) out.set_inter_node_latency_s(*group.inter_node_latency_s);
    out.set_ranks_per_core(group.ranks_per_core);
    if (group.host_op_s) out.set_host_op_s(*group.host_op_s);
  }
  if (cluster.engine.name != kOwnEngine) message.set_engine(cluster.engine.name);
  if (cluster.calibration) *message.mutable_calibration() = ToProto(*cluster.calibration);
  return message;
}

absl::StatusOr<ClusterSpec> FromProto(const v1::ClusterSpec& message) {
  ClusterSpec cluster;
  cluster.name = message.name();
  cluster.local = message.local();
  if (!message.engine().empty()) {
    absl::StatusOr<EngineProfile> engine =
        message.local() ? EngineOfWorkers(message.engine()) : EngineNamed(message.engine());
    if (!engine.ok()) return base::WithSubject("cluster", engine.status());
    cluster.engine = *std::move(engine);
  }
  if (message.has_calibration()) cluster.calibration = FromProto(message.calibration());
  for (const v1::NodeGroup& in : message.groups()) {
    NodeGroup group;
    group.device.name = in.device().name();
    const std::optional<DeviceKind> kind = ParseDeviceKind(in.device().kind());
    if (!kind) {
      return base::InvalidArgument("cluster", fmt::format("unknown device kind '{}'; expected cpu or cuda",
                                                          base::Printable(in.device().kind())));
    }
    group.device.kind = *kind;
    group.device.memory_bytes = in.device().memory_bytes();
    group.device.memory_bytes_per_s = in.device().memory_bytes_per_s();
    for (const auto& [name, rate] : in.device().flops_per_s()) {
      if (name == "fp64") {
        group.device.flops_per_s_fp64 = rate;
      } else if (name == "fp32") {
        group.device.flops_per_s_fp32 = rate;
      } else if (name == "bf16") {
        group.device.flops_per_s_bf16 = rate;
      } else if (name == "fp16") {
        group.device.flops_per_s_fp16 = rate;
      } else if (name == "fp8") {
        group.device.flops_per_s_fp8 = rate;
      } else {
        return base::InvalidArgument("cluster", "flops_per_s: " + UnknownPrecision(name));
      }
    }
    group.device.multiprocessors = in.device().multiprocessors();
    if (in.device().has_overhead_bytes()) group.device.overhead_bytes = in.device().overhead_bytes();
    group.device.efficiency = FromProto(in.device().efficiency());
    group.nodes = in.nodes();
    group.gpus_per_node = in.gpus_per_node();
    group.intra_node_bytes_per_s = in.intra_node_bytes_per_s();
    group.inter_node_bytes_per_s = in.inter_node_bytes_per_s();
    if (in.has_intra_node_latency_s()) group.intra_node_latency_s = in.intra_node_latency_s();
    if (in.has_inter_node_latency_s()) group.inter_node_latency_s = in.inter_node_latency_s();
    if (in.ranks_per_core() != 0) group.ranks_per_core = in.ranks_per_core();  // 0: unset
    if (in.has_host_op_s()) group.host_op_s = in.host_op_s();
    cluster.groups.push_back(std::move(group));
  }
  AUTOCFG_RETURN_IF_ERROR(Validate(cluster));
  return cluster;
}

void PlanToMessage(const ParallelPlan& plan, Message& message, PlanOptionTable options) {
  const auto* reflection = message.GetReflection();
  for (const PlanOption& option : options) {
    const FieldDescriptor* field = FieldOf(option, message);
    const std::string text = option.print(plan);
    switch (option.form) {
      case OptionForm::kSize:
      case OptionForm::kNumber: reflection->SetInt64(&message, field, std::stoll(text)); break;
      case OptionForm::kFlag: reflection->SetBool(&message, field, text == "1"); break;
      case OptionForm::kName:
      case OptionForm::kSplit: reflection->SetString(&message, field, text); break;
    }
  }
}

absl::StatusOr<ParallelPlan> PlanFromMessage(const Message& message, PlanOptionTable options) {
  ParallelPlan plan;
  bool has_schedule = false;
  for (const PlanOption& option : options) {
    const std::string text = TextOfField(message, FieldOf(option, message));
    if (text.empty()) continue;
    if (option.name == "schedule") has_schedule = true;
    AUTOCFG_RETURN_IF_ERROR(option.parse(option, text, plan));
  }
  if (!has_schedule) SetDependentDefaults(plan);
  DropRestatedDefaults(plan);
  return plan;
}

v1::ParallelPlan ToProto(const ParallelPlan& plan) {
  v1::ParallelPlan message;
  PlanToMessage(plan, message);
  return message;
}

absl::StatusOr<ParallelPlan> FromProto(const v1::ParallelPlan& message) { return PlanFromMessage(message); }

}  // namespace autocfg
