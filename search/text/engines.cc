#include "search/text/engines.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/json_fields.h"
#include "base/json_reader.h"
#include "base/numbers.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/text/presets.h"

namespace autocfg {

namespace {

using Field = base::Field<EngineProfile>;

// Of a file without figures of its own: the engine whose figures it has.
constexpr char kFiguresOf[] = "figures_of";

absl::StatusOr<EngineProfile> EngineOfFile(std::string_view name) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind != "engines" || preset.name != name) continue;
    AUTOCFG_ASSIGN_OR_RETURN(const nlohmann::ordered_json json, base::ParseJson("engine", preset.json));
    if (!json.contains(kFiguresOf)) return ParseEngineJson(json);
    auto engine = EngineOfFile(json.at(kFiguresOf).get<std::string>());
    if (engine.ok()) engine->name = name;
    return engine;
  }
  return base::NotFound("engine", fmt::format("unknown engine '{}'; expected {}", base::Printable(name),
                                              base::ChoiceText(EngineNames())));
}

// The name is not a setting.
std::span<const Field> SettableFields() { return EngineFields().subspan(1); }

std::optional<base::FieldValue> ParseSetting(const Field& field, std::string_view text) {
  switch (field.type) {
    case base::FieldType::kFlag:
      if (text == "0" || text == "1") return text == "1";
      break;
    case base::FieldType::kSize:
      if (const auto size = base::ParseNumber<std::int64_t>(text)) return *size;
      break;
    case base::FieldType::kNumber:
      if (const auto number = base::ParseNumber<double>(text)) return *number;
      break;
    default: break;
  }
  return std::nullopt;
}

std::string SettingText(const base::FieldValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "1" : "0";
  if (const auto* size = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *size);
  return fmt::format("{}", std::get<double>(value));
}

absl::Status Apply(std::string_view setting, std::vector<std::string_view>& set, EngineProfile& engine) {
  const std::size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const auto field =
      std::ranges::find_if(SettableFields(), [&](const Field& row) { return row.name == name; });
  if (field == SettableFields().end()) {
    std::vector<std::string> names;
    for (const Field& row : SettableFields()) names.emplace_back(row.name);
    return base::InvalidArgument(
        "engine", fmt::format("{} has no setting '{}'; {}", engine.name, base::Printable(name),
                              name.empty() ? "write one as NAME=VALUE" : base::DidYouMean(name, names)));
  }
  if (std::ranges::find(set, name) != set.end())
    return base::InvalidArgument("engine", fmt::format("{} is set twice; leave one of them", name));
  const auto value =
      equals == std::string_view::npos ? std::nullopt : ParseSetting(*field, setting.substr(equals + 1));
  if (!value) {
    return base::InvalidArgument(
        "engine", fmt::format("'{}' cannot be read; write {}={}", base::Printable(setting), name,
                              field->type == base::FieldType::kFlag ? "0 or 1" : "NUMBER"));
  }
  set.push_back(field->name);
  field->Set(engine, *value);
  return absl::OkStatus();
}

// Sets the engine's settings to how it differs from its file.
void NameSettings(const EngineProfile& file, EngineProfile& engine) {
  std::vector<std::string> settings;
  for (const Field& field : SettableFields()) {
    const std::optional<base::FieldValue> value = field.Get(engine);
    if (value && value != field.Get(file))
      settings.push_back(fmt::format("{}={}", field.name, SettingText(*value)));
  }
  engine.settings = fmt::format("{}", fmt::join(settings, ","));
}

}  // namespace

std::vector<std::string> EngineNames() {
  std::vector<std::string> names = {std::string(kOwnEngine)};
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == "engines" && preset.name != kOwnEngine) names.emplace_back(preset.name);
  }
  return names;
}

absl::StatusOr<EngineProfile> EngineNamed(std::string_view text) {
  const std::size_t colon = text.find(':');
  AUTOCFG_ASSIGN_OR_RETURN(const EngineProfile file, EngineOfFile(text.substr(0, colon)));
  if (colon == std::string_view::npos) return file;
  EngineProfile engine = file;
  std::vector<std::string_view> set;
  for (std::size_t begin = colon + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    AUTOCFG_RETURN_IF_ERROR(Apply(text.substr(begin, end - begin), set, engine));
    begin = end + 1;
  }
  AUTOCFG_RETURN_IF_ERROR(Validate(engine));
  NameSettings(file, engine);
  return engine;
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
