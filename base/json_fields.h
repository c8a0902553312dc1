// Reads and writes the fields of a table (base/fields.h) as JSON. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/fields.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"

namespace autocfg::base {

// Returns the field's value; nothing if it is absent, or if the reader fails. A size is at least the row's
// `least`. A number that is unknown at 0 must not be 0, unless `zeros`.
std::optional<FieldValue> ReadField(FieldReader& reader, const FieldTraits& field, bool zeros = false);

nlohmann::ordered_json JsonOf(const FieldValue& value);

// Requires the fields that must be there. Before the fields are read: an error then names a misspelt one.
template <typename Rows>
void RequireFields(FieldReader& reader, const Rows& rows) {
  for (const FieldTraits& field : rows) {
    if (field.required) reader.Require(field.name);
  }
}

template <typename Rows, typename Struct>
void ReadFields(FieldReader& reader, const Rows& rows, Struct& to, bool zeros = false) {
  for (const auto& field : rows) {
    if (const std::optional<FieldValue> value = ReadField(reader, field, zeros); value) field.Set(to, *value);
  }
}

// Leaves out what is unknown, and what is at its default unless it is always written.
template <typename Rows, typename Struct>
void WriteFields(const Rows& rows, const Struct& from, nlohmann::ordered_json& json) {
  for (const auto& field : rows) {
    if (!field.IsWritten(from)) continue;
    if (const std::optional<FieldValue> value = field.Get(from); value)
      json[std::string(field.name)] = JsonOf(*value);
  }
}

}  // namespace autocfg::base
