#include "proto/convert/spec_convert.h"

#include <algorithm>
#include <cstdint>
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
#include "proto/convert/message_fields.h"
#include "search/text/engines.h"

namespace autocfg {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

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

}  // namespace

v1::ModelSpec ToProto(const ModelSpec& model) {
  v1::ModelSpec message;
  FieldsToMessage(ModelFields(), model, message);
  if (model.rope_scaling_parameters != RopeScalingParameters{}) {
    FieldsToMessage(RopeScalingFields(), model.rope_scaling_parameters,
                    *message.mutable_rope_scaling_parameters());
  }
  for (const LayerRun& run : model.layer_kinds)
    FieldsToMessage(LayerRunFields(), run, *message.add_layer_kinds());
  return message;
}

absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message) {
  ModelSpec model;
  AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("model", ModelFields(), message, model));
  AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("model", RopeScalingFields(), message.rope_scaling_parameters(),
                                            model.rope_scaling_parameters));
  for (const v1::LayerRun& run : message.layer_kinds())
    AUTOCFG_RETURN_IF_ERROR(
        FieldsFromMessage("model", LayerRunFields(), run, model.layer_kinds.emplace_back()));
  LayerPattern pattern;
  AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("model", LayerPatternFields(), message, pattern));
  AUTOCFG_RETURN_IF_ERROR(ApplyPattern(pattern, model));
  // Sizes that FillDefaults will fill later may be zero. The completed model must be valid.
  ModelSpec complete = model;
  FillDefaults(complete);
  AUTOCFG_RETURN_IF_ERROR(Validate(complete));
  NormalizeKinds(model);
  return model;
}

v1::Workload ToProto(const Workload& workload) {
  v1::Workload message;
  message.set_global_batch(workload.global_batch);
  message.set_seq_len(workload.seq_len);
  message.set_precision(PrecisionText(workload.precision));
  if (workload.optimizer != Optimizer{}) {
    message.mutable_optimizer()->set_name(std::string(Name(workload.optimizer.kind)));
    message.mutable_optimizer()->set_momentum(workload.optimizer.momentum);
  }
  return message;
}

absl::StatusOr<Workload> FromProto(const v1::Workload& message) {
  const auto precision = ParsePrecision(message.precision());
  if (!precision.ok()) return base::WithSubject("workload", precision.status());
  if (message.global_batch() < 1) {
    return base::InvalidArgument(
        "workload", fmt::format("global_batch is {}; it must be at least 1", message.global_batch()));
  }
  if (message.seq_len() < 1) {
    return base::InvalidArgument("workload",
                                 fmt::format("seq_len is {}; it must be at least 1", message.seq_len()));
  }
  Workload workload{message.global_batch(), message.seq_len(), *precision};
  const v1::Optimizer& optimizer = message.optimizer();
  if (const auto set = SetOptimizer(optimizer.name(), optimizer.momentum(), workload); !set.ok())
    return base::WithSubject("workload", set);
  return workload;
}

v1::ClusterSpec ToProto(const ClusterSpec& cluster) {
  v1::ClusterSpec message;
  message.set_name(cluster.name);
  message.set_local(cluster.local);
  for (const NodeGroup& group : cluster.groups) {
    v1::NodeGroup& out = *message.add_groups();
    v1::DeviceSpec& device = *out.mutable_device();
    FieldsToMessage(NodeGroupFields(), group, out);
    FieldsToMessage(DeviceFields(), group.device, device);
    FieldsToMessage(EfficiencyFields(), group.device.efficiency, *device.mutable_efficiency());
    for (const auto& rate : RateFields()) {
      if (!rate.IsDefault(group.device))
        (*device.mutable_flops_per_s())[std::string(rate.name)] = std::get<double>(*rate.Get(group.device));
    }
  }
  if (cluster.engine.name != kOwnEngine) message.set_engine(EngineText(cluster.engine));
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
  if (message.has_calibration()) {
    AUTOCFG_ASSIGN_OR_RETURN(cluster.calibration, FromProto(message.calibration()));
  }
  for (const v1::NodeGroup& in : message.groups()) {
    NodeGroup group{.gpus_per_node = 0};  // required, though a preset's name implies it in JSON
    if (!ParseDeviceKind(in.device().kind())) {
      return base::InvalidArgument("cluster", fmt::format("unknown device kind '{}'; expected cpu or cuda",
                                                          base::Printable(in.device().kind())));
    }
    DeviceSpec& device = group.device;
    AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", NodeGroupFields(), in, group));
    AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", DeviceFields(), in.device(), device));
    AUTOCFG_RETURN_IF_ERROR(
        FieldsFromMessage("cluster", EfficiencyFields(), in.device().efficiency(), device.efficiency));
    for (const auto& entry : in.device().flops_per_s()) {
      const auto field = std::find_if(RateFields().begin(), RateFields().end(),
                                      [&](const auto& row) { return row.name == entry.first; });
      if (field == RateFields().end())
        return base::InvalidArgument("cluster", "flops_per_s: " + UnknownBase(entry.first));
      field->Set(device, entry.second);
    }
    cluster.groups.push_back(std::move(group));
  }
  AUTOCFG_RETURN_IF_ERROR(Validate(cluster));
  return cluster;
}

void PlanToMessage(const ParallelPlan& plan, Message& message, PlanOptionTable options) {
  const auto* reflection = message.GetReflection();
  for (const PlanOption& option : options) {
    const FieldDescriptor* field = &FieldNamed(message, option.json_name);
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
    const std::string text = TextOfField(message, &FieldNamed(message, option.json_name));
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
