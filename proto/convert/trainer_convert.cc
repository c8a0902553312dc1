#include "proto/convert/trainer_convert.h"

#include <cmath>
#include <string>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/convert/spec_convert.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

absl::Status Invalid(std::string_view field, std::string_view value, std::string_view wanted) {
  return absl::InvalidArgumentError(fmt::format("op: {} is {}; it must be {}", field, value, wanted));
}

absl::Status Unknown(std::string_view field, const std::string& name) {
  return absl::InvalidArgumentError(fmt::format("op: unknown {} '{}'", field, base::Printable(name)));
}

}  // namespace

v1::OptimizerSpec DefaultOptimizer() {
  v1::OptimizerSpec optimizer;
  optimizer.set_lr(3e-4);
  optimizer.set_min_lr(0);
  optimizer.set_lr_schedule("constant");
  optimizer.set_warmup_steps(0);
  optimizer.set_weight_decay(0.1);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_adam_eps(1e-8);
  optimizer.set_clip_norm(1.0);
  return optimizer;
}

v1::TrainSpec MakeTrainSpec(const RunView& run) {
  v1::TrainSpec spec;
  *spec.mutable_model() = ToProto(run.model);
  *spec.mutable_workload() = ToProto(run.workload);
  *spec.mutable_plan() = ToProto(run.plan);
  spec.set_program_fingerprint(Fingerprint(Lower(run)));
  *spec.mutable_optimizer() = DefaultOptimizer();
  return spec;
}

v1::OpDesc ToProto(const OpDesc& op) {
  // Names every field, so that a new one does not compile until the message has it.
  const auto& [kind, dtype, transpose_a, transpose_b, accumulate, epilogue, bias, window, alibi, softcap,
               gradients, moments, master, activation, group, group_size, dims] = op;
  v1::OpDesc message;
  message.set_kind(std::string(Name(kind)));
  message.set_dtype(std::string(Name(dtype)));
  message.set_transpose_a(transpose_a);
  message.set_transpose_b(transpose_b);
  message.set_accumulate(accumulate);
  message.set_bias(bias);
  message.set_alibi(alibi);
  message.set_softcap(softcap);
  message.set_window(window);
  if (gradients) message.set_gradients(std::string(Name(*gradients)));
  if (moments) message.set_moments(std::string(Name(*moments)));
  if (master) message.set_master(std::string(Name(*master)));
  if (epilogue != Epilogue::kNone) message.set_epilogue(std::string(Name(epilogue)));
  if (HasActivation(op)) message.set_activation(std::string(Name(activation)));
  message.set_group(std::string(Name(group)));
  message.set_group_size(group_size);
  for (int i = 0; i < DimCount(kind); ++i) message.add_dims(dims[static_cast<std::size_t>(i)]);
  return message;
}

absl::StatusOr<OpDesc> FromProto(const v1::OpDesc& message) {
  OpDesc op;
  const auto kind = ParseOpKind(message.kind());
  if (!kind) return Unknown("kind", message.kind());
  const auto dtype = ParseDType(message.dtype());
  if (!dtype) return Unknown("dtype", message.dtype());
  const auto group = ParseCommGroup(message.group());
  if (!group) return Unknown("group", message.group());
  op.kind = *kind;
  op.dtype = *dtype;
  op.group = *group;
  if (IsCommunication(op.kind) == (op.group == CommGroup::kNone)) {
    return Invalid("group", message.group(), "set for communication ops only");
  }
  if (message.group_size() < 1)
    return Invalid("group_size", fmt::format("{}", message.group_size()), "at least 1");
  op.group_size = message.group_size();
  op.transpose_a = message.transpose_a();
  op.transpose_b = message.transpose_b();
  op.accumulate = message.accumulate();
  if (op.kind != OpKind::kMatmul && (op.transpose_a || op.transpose_b)) {
    return Invalid("kind", Name(op.kind), "matmul if transpose_a or transpose_b is set");
  }
  if (op.accumulate && !TakesAccumulate(op)) {
    return Invalid("kind", Name(op.kind), "matmul or a gradient of parameters if accumulate is set");
  }
  if (!message.epilogue().empty()) {
    const auto epilogue = ParseEpilogue(message.epilogue());
    if (!epilogue) return Unknown("epilogue", message.epilogue());
    if (op.kind != OpKind::kMatmul) return Invalid("kind", Name(op.kind), "matmul if epilogue is set");
    const OpDesc given = op;
    SetEpilogue(op, *epilogue);
    if (op.transpose_a != given.transpose_a || op.transpose_b != given.transpose_b ||
        op.accumulate != given.accumulate) {
      return Invalid("epilogue", message.epilogue(),
                     "one that allows these transpose_a, transpose_b and accumulate");
    }
  }
  op.bias = message.bias();
  if (op.bias && !TakesBias(op)) {
    return Invalid("kind", Name(op.kind),
                   "activation_forward, or matmul with epilogue activation or residual, if bias is set");
  }
  op.window = message.window();
  if (op.window < 0) return Invalid("window", fmt::format("{}", op.window), "at least 0");
  if (op.window > 0 && !IsAttention(op.kind))
    return Invalid("kind", Name(op.kind), "attention if window is set");
  op.alibi = message.alibi();
  if (op.alibi && !IsAttention(op.kind)) return Invalid("kind", Name(op.kind), "attention if alibi is set");
  op.softcap = message.softcap();
  if (op.softcap && !TakesSoftCap(op.kind))
    return Invalid("kind", Name(op.kind), "attention, or cross-entropy of logits, if softcap is set");
  for (const auto& [name, text, type, applies] :
       {std::tuple("gradients", &message.gradients(), &op.gradients, UsesGradients(op)),
        std::tuple("moments", &message.moments(), &op.moments, UpdatesParameters(op.kind)),
        std::tuple("master", &message.master(), &op.master, UpdatesParameters(op.kind))}) {
    if (text->empty()) continue;
    *type = ParseDType(*text);
    if (!*type) return Unknown(name, *text);
    if (!applies)
      return Invalid("kind", Name(op.kind), fmt::format("one that uses {} if they are set", name));
  }
  if (op.kind == OpKind::kAdamW && !op.moments) return Invalid("moments", "", "set for adamw");
  if (HasActivation(op)) {
    const auto activation = ParseActivation(message.activation());
    if (!activation) return Unknown("activation", message.activation());
    if (op.kind == OpKind::kMatmul && IsGated(*activation))
      return Invalid("activation", Name(*activation), "ungated in an epilogue");
    if (op.kind == OpKind::kActivationBackward && !IsGated(*activation))
      return Invalid("activation", Name(*activation), "gated");
    op.activation = *activation;
  } else if (!message.activation().empty()) {
    return Invalid("kind", Name(op.kind), "an activation op if activation is set");
  }
  // Earlier versions rotated whole heads and did not say how many dims.
  const bool rotates_all = op.kind == OpKind::kRope && message.dims_size() == DimCount(op.kind) - 1;
  if (message.dims_size() != DimCount(op.kind) && !rotates_all) {
    return Invalid("dims", fmt::format("a list of {} sizes", message.dims_size()),
                   fmt::format("a list of {} for {}", DimCount(op.kind), Name(op.kind)));
  }
  for (int i = 0; i < message.dims_size(); ++i) {
    if (message.dims(i) < 1) return Invalid("dims", fmt::format("{}", message.dims(i)), "at least 1 each");
    op.dims[static_cast<std::size_t>(i)] = message.dims(i);
  }
  if (rotates_all) op.dims[3] = op.dims[2];
  return op;
}

v1::OpTime ToProto(const OpTime& time) {
  v1::OpTime message;
  *message.mutable_op() = ToProto(time.op);
  message.set_seconds(time.seconds);
  message.set_host_s(time.host_s);
  return message;
}

absl::StatusOr<OpTime> FromProto(const v1::OpTime& message) {
  AUTOCFG_ASSIGN_OR_RETURN(OpDesc op, FromProto(message.op()));
  if (!std::isfinite(message.seconds()) || message.seconds() < 0) {
    return Invalid("seconds", fmt::format("{}", message.seconds()), "finite and not negative");
  }
  if (!std::isfinite(message.host_s()) || message.host_s() < 0) {
    return Invalid("host_s", fmt::format("{}", message.host_s()), "finite and not negative");
  }
  return OpTime{op, message.seconds(), message.host_s()};
}

v1::TraceRow ToProto(const TraceRow& row) {
  v1::TraceRow message;
  message.set_rank(row.rank);
  message.set_lane(std::string(Name(row.lane)));
  message.set_action(row.action);
  message.set_start_s(row.start_s);
  message.set_end_s(row.end_s);
  message.set_step(row.step);
  return message;
}

absl::StatusOr<TraceRow> FromProto(const v1::TraceRow& message) {
  for (const Lane lane : {Lane::kCompute, Lane::kPipelineSend, Lane::kPipelineRecv, Lane::kReduce}) {
    if (Name(lane) != message.lane()) continue;
    if (message.rank() < 0 || message.action() < 0 || message.step() < 0)
      return absl::InvalidArgumentError("trace row: rank, action or step is negative");
    if (!std::isfinite(message.start_s()) || !std::isfinite(message.end_s()) ||
        message.end_s() < message.start_s())
      return absl::InvalidArgumentError(fmt::format(
          "trace row: invalid time span from start_s {} to end_s {}", message.start_s(), message.end_s()));
    return TraceRow{message.rank(),  lane,          message.action(), message.start_s(),
                    message.end_s(), message.step()};
  }
  return absl::InvalidArgumentError(fmt::format("trace row: unknown lane '{}'", message.lane()));
}

}  // namespace autocfg
