#include "search/text/engines.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/text/presets.h"

namespace autocfg {

namespace {

// Of a file without figures of its own: the engine whose figures it has.
constexpr char kFiguresOf[] = "figures_of";

}  // namespace

std::vector<std::string> EngineNames() {
  std::vector<std::string> names = {std::string(kOwnEngine)};
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == "engines" && preset.name != kOwnEngine) names.emplace_back(preset.name);
  }
  return names;
}

absl::StatusOr<EngineProfile> EngineNamed(std::string_view name) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind != "engines" || preset.name != name) continue;
    AUTOCFG_ASSIGN_OR_RETURN(const nlohmann::ordered_json json, base::ParseJson("engine", preset.json));
    if (!json.contains(kFiguresOf)) return ParseEngineJson(json);
    auto engine = EngineNamed(json.at(kFiguresOf).get<std::string>());
    if (engine.ok()) engine->name = name;
    return engine;
  }
  return base::NotFound("engine", fmt::format("unknown engine '{}'; expected {}", base::Printable(name),
                                              base::ChoiceText(EngineNames())));
}

absl::StatusOr<EngineProfile> EngineOfWorkers(std::string_view name) {
  if (absl::Status status = CheckEngineName(name); !status.ok()) return base::WithSubject("engine", status);
  absl::StatusOr<EngineProfile> known = EngineNamed(name);
  if (!absl::IsNotFound(known.status())) return known;
  EngineProfile engine;
  engine.name = name;
  return engine;
}

absl::StatusOr<EngineProfile> ParseEngineJson(const nlohmann::ordered_json& json) {
  EngineProfile engine;
  base::FieldReader reader("engine", json);
  base::RequireFields(reader, EngineFields());
  base::ReadFields(reader, EngineFields(), engine);
  if (json.is_object()) ReadSources(reader, json);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  AUTOCFG_RETURN_IF_ERROR(Validate(engine));
  return engine;
}

}  // namespace autocfg
