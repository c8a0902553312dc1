#include "search/text/sources.h"

#include <string>

#include "fmt/format.h"

namespace autocfg {

void ReadSources(FieldReader& reader, const nlohmann::ordered_json& json) {
  std::string source;
  reader.String("source", source);
  const nlohmann::ordered_json* sources = reader.Find("sources");
  if (sources == nullptr) return;
  if (!sources->is_object()) return reader.Fail(absl::InvalidArgumentError("sources: it must be a JSON object"));
  for (const auto& [field, text] : sources->items()) {
    if (!text.is_string()) {
      return reader.Fail(absl::InvalidArgumentError(fmt::format("sources: {} must be a string", Printable(field))));
    }
    if (!json.contains(field)) {
      return reader.Fail(
          absl::InvalidArgumentError(fmt::format("sources: {} is not a field of this object", Printable(field))));
    }
  }
}

}  // namespace autocfg
