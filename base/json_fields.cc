#include "base/json_fields.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"

namespace autocfg::base {

std::optional<FieldValue> ReadField(FieldReader& reader, const FieldTraits& field, bool zeros) {
  if (reader.Find(field.name) == nullptr) return std::nullopt;
  switch (field.type) {
    case FieldType::kFlag: {
      bool value = false;
      reader.Bool(field.name, value);
      return value;
    }
    case FieldType::kSize: {
      std::int64_t value = 0;
      const auto least = static_cast<std::int64_t>(field.least);
      if (field.quantity) {
        reader.SizeOrText(field.name, *field.quantity, value, least);
      } else {
        reader.Size(field.name, value, least);
      }
      return value;
    }
    case FieldType::kNumber: {
      double value = 0;
      if (field.least < 0) {
        const nlohmann::ordered_json& given = *reader.Find(field.name);
        if (!given.is_number()) reader.Invalid(fmt::format("{} must be a number", field.name));
        return given.is_number() ? given.get<double>() : value;
      }
      if (field.quantity) {
        reader.NumberOrText(field.name, *field.quantity, value);
      } else {
        reader.Number(field.name, value);
      }
      if (value == 0 && field.unknown_at_zero && !zeros)
        reader.Invalid(fmt::format("{} is 0; it must be positive; leave it out if unknown", field.name));
      return value;
    }
    case FieldType::kNumbers: {
      std::vector<double> value;
      reader.Numbers(field.name, value);
      return value;
    }
    case FieldType::kName: {
      const std::vector<std::string> names(field.names.begin(), field.names.end());
      std::optional<FieldValue> value;
      reader.Named(
          field.name, value,
          [&](std::string_view text) -> std::optional<FieldValue> {
            if (std::find(names.begin(), names.end(), text) == names.end()) return std::nullopt;
            return std::string(text);
          },
          names);
      return value;
    }
    case FieldType::kText: {
      std::string value;
      reader.String(field.name, value);
      return value;
    }
  }
  return std::nullopt;
}

nlohmann::ordered_json JsonOf(const FieldValue& value) {
  return std::visit([](const auto& alternative) { return nlohmann::ordered_json(alternative); }, value);
}

}  // namespace autocfg::base
