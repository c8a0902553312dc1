#include "search/text/presets.h"

#include <string>
#include <string_view>

#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {

void ReadSources(base::FieldReader& reader, const nlohmann::ordered_json& json) {
  std::string source;
  reader.String("source", source);
  const nlohmann::ordered_json* sources = reader.Find("sources");
  if (sources == nullptr) return;
  if (!sources->is_object())
    return reader.Fail(absl::InvalidArgumentError("sources: it must be a JSON object"));
  for (const auto& [field, text] : sources->items()) {
    if (!text.is_string()) {
      return reader.Fail(
          absl::InvalidArgumentError(fmt::format("sources: {} must be a string", base::Printable(field))));
    }
    for (const std::string& name : SourcedFields(field)) {
      if (!json.contains(name)) {
        return reader.Fail(absl::InvalidArgumentError(
            fmt::format("sources: {} is not a field of this object", base::Printable(name))));
      }
    }
  }
}

std::vector<std::string> SourcedFields(const std::string& key) {
  std::vector<std::string> fields;
  constexpr std::string_view kSeparator = ", ";
  std::size_t start = 0;
  for (std::size_t end; (end = key.find(kSeparator, start)) != std::string::npos;
       start = end + kSeparator.size()) {
    fields.push_back(key.substr(start, end - start));
  }
  fields.push_back(key.substr(start));
  return fields;
}

}  // namespace autocfg
