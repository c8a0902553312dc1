// The fields of a struct of plain values as rows of a table. Reading and writing as JSON (base/json_fields.h)
// and as messages (proto/convert/message_fields.h) follow from the rows:
//
//   constexpr Field<Wheel> kWheel[] = {
//       FieldOf<&Wheel::name>({.name = "name", .always_written = true}),
//       FieldOf<&Wheel::spokes>({.name = "spokes", .least = 1, .most = 100}),
//   };
//
// Plain values, thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/units.h"

namespace autocfg::base {

enum class FieldType : std::uint8_t { kFlag, kSize, kNumber, kNumbers, kText, kName };

// A value of any field; of an enum, its name.
using FieldValue = std::variant<bool, std::int64_t, double, std::vector<double>, std::string>;

// What a row says, whatever struct has the field.
struct FieldTraits {
  std::string_view name = {};  // in JSON, CSV and messages
  double least = 0;            // bounds of a size, a number or each number of a list
  double most = std::numeric_limits<double>::infinity();
  std::span<const std::string_view> names = {};  // of the values of an enum, in its order
  bool required = false;                         // in JSON
  bool always_written = false;                   // at its default too
  bool unknown_at_zero = false;                  // JSON leaves a number of 0 out
  std::optional<Quantity> quantity = {};         // JSON also takes a text with such a unit
  std::string_view unit = {};                    // for messages: "bytes per second"
  std::string_view summary = {};                 // for the documentation
  std::string_view default_note = {};            // the same, if the default depends on other fields
  FieldType type = FieldType::kText;             // follows from the member
};

template <typename Struct>
struct Field : FieldTraits {
  // Returns nothing if the value is unknown, or if other fields say it.
  std::optional<FieldValue> (*get)(const FieldTraits& field, const Struct& from) = nullptr;
  // Requires a value of the field's type, one of its names if it has some.
  void (*set)(const FieldTraits& field, Struct& to, const FieldValue& value) = nullptr;

  std::optional<FieldValue> Get(const Struct& from) const { return get(*this, from); }
  void Set(Struct& to, const FieldValue& value) const { set(*this, to, value); }
  bool IsDefault(const Struct& in) const { return Get(in) == Get(Struct{}); }
  // Whether JSON and messages have the field, if its value is known.
  bool IsWritten(const Struct& in) const { return required || always_written || !IsDefault(in); }
};

// The type of a field's value while it is known.
template <typename Value>
struct KnownValue {
  using Type = Value;
};
template <typename Value>
struct KnownValue<std::optional<Value>> {
  using Type = Value;
};

template <typename Value>
constexpr FieldType TypeOfField() {
  if constexpr (std::is_enum_v<Value>) return FieldType::kName;
  if constexpr (std::is_same_v<Value, bool>) return FieldType::kFlag;
  if constexpr (std::is_same_v<Value, std::int64_t>) return FieldType::kSize;
  if constexpr (std::is_same_v<Value, double>) return FieldType::kNumber;
  if constexpr (std::is_same_v<Value, std::vector<double>>) return FieldType::kNumbers;
  return FieldType::kText;
}

template <auto kMember, typename Struct, typename Value>
constexpr Field<Struct> FieldOfMember(FieldTraits traits, Value Struct::* /*member*/) {
  using Known = typename KnownValue<Value>::Type;
  Field<Struct> field{traits};
  field.type = TypeOfField<Known>();
  field.get = [](const FieldTraits& row, const Struct& from) -> std::optional<FieldValue> {
    if constexpr (std::is_enum_v<Value>) {
      return std::string(row.names[static_cast<std::size_t>(from.*kMember)]);
    } else if constexpr (!std::is_same_v<Known, Value>) {
      if (!(from.*kMember)) return std::nullopt;
      return *(from.*kMember);
    } else {
      return from.*kMember;
    }
  };
  field.set = [](const FieldTraits& row, Struct& to, const FieldValue& value) {
    if constexpr (std::is_enum_v<Value>) {
      const auto found = std::ranges::find(row.names, std::get<std::string>(value));
      to.*kMember = static_cast<Value>(found - row.names.begin());
    } else {
      to.*kMember = std::get<Known>(value);
    }
  };
  return field;
}

// Returns the row of a member: a bool, std::int64_t, double, list of double, std::string, enum, or an
// std::optional of such a type, which is unknown while it is empty.
template <auto kMember>
constexpr auto FieldOf(FieldTraits traits) {
  return FieldOfMember<kMember>(traits, kMember);
}

}  // namespace autocfg::base
