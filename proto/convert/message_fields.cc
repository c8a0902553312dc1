#include "proto/convert/message_fields.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/reflection.h"

namespace autocfg {

using base::FieldType;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& FieldNamed(const Message& message, std::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr)
    throw std::logic_error(fmt::format("{} has no field {}", message.GetDescriptor()->full_name(), name));
  return *field;
}

void SetInMessage(const base::FieldTraits& field, const base::FieldValue& value, Message& message) {
  const FieldDescriptor* to = &FieldNamed(message, field.name);
  const auto* reflection = message.GetReflection();
  switch (field.type) {
    case FieldType::kFlag: return reflection->SetBool(&message, to, std::get<bool>(value));
    case FieldType::kSize: return reflection->SetInt64(&message, to, std::get<std::int64_t>(value));
    case FieldType::kNumber: return reflection->SetDouble(&message, to, std::get<double>(value));
    case FieldType::kNumbers:
      for (const double number : std::get<std::vector<double>>(value))
        reflection->AddDouble(&message, to, number);
      return;
    case FieldType::kText:
    case FieldType::kName: return reflection->SetString(&message, to, std::get<std::string>(value));
  }
}

absl::Status GetFromMessage(std::string_view subject, const base::FieldTraits& field, const Message& message,
                            std::optional<base::FieldValue>& value) {
  const FieldDescriptor* from = &FieldNamed(message, field.name);
  const auto* reflection = message.GetReflection();
  const bool has =
      from->is_repeated() ? reflection->FieldSize(message, from) > 0 : reflection->HasField(message, from);
  if (!has && !field.required) return absl::OkStatus();
  switch (field.type) {
    case FieldType::kFlag: value = reflection->GetBool(message, from); break;
    case FieldType::kSize: value = reflection->GetInt64(message, from); break;
    case FieldType::kNumber: value = reflection->GetDouble(message, from); break;
    case FieldType::kNumbers: {
      const auto& numbers = reflection->GetRepeatedFieldRef<double>(message, from);
      value = std::vector<double>(numbers.begin(), numbers.end());
      break;
    }
    case FieldType::kText: value = reflection->GetString(message, from); break;
    case FieldType::kName: {
      const std::string name = reflection->GetString(message, from);
      if (std::find(field.names.begin(), field.names.end(), name) == field.names.end()) {
        const std::vector<std::string> known(field.names.begin(), field.names.end());
        return base::InvalidArgument(subject, fmt::format("unknown {} '{}'; expected {}", field.name,
                                                          base::Printable(name), base::ChoiceText(known)));
      }
      value = name;
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
