#include "search/text/engines.h"

#include <algorithm>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/text/presets.h"

namespace autocfg {

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
    return ParseEngineJson(json);
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
  reader.Require("name");
  reader.String("name", engine.name);
  if (reader.Find("host_op_s") != nullptr) reader.Number("host_op_s", engine.host_op_s.emplace());
  reader.Number("matmul", engine.matmul);
  reader.Number("matmul_k_half", engine.matmul_k_half);
  reader.Number("memory", engine.memory);
  reader.Number("intra_node", engine.intra_node);
  reader.Number("inter_node", engine.inter_node);
  reader.Number("forward_passes", engine.forward_passes);
  reader.Number("backward_passes", engine.backward_passes);
  reader.Bool("recomputes_whole_layers", engine.recomputes_whole_layers);
  reader.Bool("hides_backward_gathers", engine.hides_backward_gathers);
  reader.Bool("overlaps_gradients", engine.overlaps_gradients);
  reader.Bool("overlaps_parameters", engine.overlaps_parameters);
  reader.Number("step_s", engine.step_s);
  reader.Number("bf16_gradient_bytes", engine.bf16_gradient_bytes);
  reader.Number("fp16_gradient_bytes", engine.fp16_gradient_bytes);
  reader.Number("fp16_update_bytes", engine.fp16_update_bytes);
  reader.Number("logit_bytes", engine.logit_bytes);
  reader.Number("activation_share", engine.activation_share);
  reader.Size("overhead_bytes", engine.overhead_bytes, 0);
  if (json.is_object()) ReadSources(reader, json);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  AUTOCFG_RETURN_IF_ERROR(Validate(engine));
  return engine;
}

}  // namespace autocfg
