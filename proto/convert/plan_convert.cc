#include "proto/convert/plan_convert.h"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/subject.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace autocfg {
namespace {

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

}  // namespace

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
    if (absl::Status status = option.parse(option, text, plan); !status.ok()) return status;
  }
  if (!has_schedule) SetDependentDefaults(plan);
  return plan;
}

v1::ParallelPlan ToProto(const ParallelPlan& plan) {
  v1::ParallelPlan message;
  PlanToMessage(plan, message);
  return message;
}

absl::StatusOr<ParallelPlan> FromProto(const v1::ParallelPlan& message) { return PlanFromMessage(message); }

}  // namespace autocfg
