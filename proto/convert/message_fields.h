// Reads and writes the fields of a table (base/fields.h) as those of a message with the same names.
// Thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "base/fields.h"
#include "base/status_macros.h"
#include "google/protobuf/message.h"

namespace autocfg {

// Returns the message's field. Throws std::logic_error if there is none: a table whose field the message
// lacks is a bug, and tests convert every row.
const google::protobuf::FieldDescriptor& FieldNamed(const google::protobuf::Message& message,
                                                    std::string_view name);

void SetInMessage(const base::FieldTraits& field, const base::FieldValue& value,
                  google::protobuf::Message& message);

// Reads the value; nothing if it is unset and not required. InvalidArgument with this subject for an unknown
// name.
absl::Status GetFromMessage(std::string_view subject, const base::FieldTraits& field,
                            const google::protobuf::Message& message, std::optional<base::FieldValue>& value);

// Leaves out what is unknown, and what is at its default unless it is always written.
template <typename Rows, typename Struct>
void FieldsToMessage(const Rows& rows, const Struct& from, google::protobuf::Message& message) {
  for (const auto& field : rows) {
    if (!field.IsWritten(from)) continue;
    if (const auto value = field.Get(from); value) SetInMessage(field, *value, message);
  }
}

// Leaves fields that are unset as they are; required ones become 0.
template <typename Rows, typename Struct>
absl::Status FieldsFromMessage(std::string_view subject, const Rows& rows,
                               const google::protobuf::Message& message, Struct& to) {
  for (const auto& field : rows) {
    std::optional<base::FieldValue> value;
    AUTOCFG_RETURN_IF_ERROR(GetFromMessage(subject, field, message, value));
    if (value) field.Set(to, *value);
  }
  return absl::OkStatus();
}

}  // namespace autocfg
