// Values of structs with a table of fields (base/fields.h), for tests that go through its rows.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

namespace autocfg::test {

// Returns values of the field within its bounds, other than `now`: every other name of an enum, else one.
inline std::vector<base::FieldValue> OtherValues(const base::FieldTraits& field,
                                                 const std::optional<base::FieldValue>& now) {
  using base::FieldType;
  switch (field.type) {
    case FieldType::kFlag: return {now && !std::get<bool>(*now)};
    case FieldType::kSize: {
      const auto least = static_cast<std::int64_t>(field.least);
      return {now && std::get<std::int64_t>(*now) == least ? least + 2 : least};
    }
    case FieldType::kNumber: {
      const double value = std::clamp(0.5, field.least, field.most);
      return {now && std::get<double>(*now) == value ? std::clamp(0.75, field.least, field.most) : value};
    }
    case FieldType::kNumbers: return {std::vector<double>{field.least, field.least + 1.5}};
    case FieldType::kText: return {std::string("llama3")};
    case FieldType::kName: break;
  }
  std::vector<base::FieldValue> others;
  for (const std::string_view name : field.names) {
    if (base::FieldValue other{std::string(name)}; other != now) others.push_back(std::move(other));
  }
  return others;
}

// Returns copies of `from` that differ in the row's field.
template <typename Row, typename Struct>
std::vector<Struct> ChangedIn(const Row& row, const Struct& from) {
  std::vector<Struct> changed;
  for (const base::FieldValue& value : OtherValues(row, row.Get(from)))
    row.Set(changed.emplace_back(from), value);
  return changed;
}

}  // namespace autocfg::test
