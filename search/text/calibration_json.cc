#include "search/text/calibration_json.h"

#include <string_view>

#include "base/json_fields.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

// Reads each object of a list.
template <typename Read>
void Each(base::FieldReader& reader, std::string_view name, std::string_view path, Read read) {
  const Json* list = reader.Find(name);
  if (list == nullptr) return;
  if (!list->is_array()) return reader.Invalid(fmt::format("{} must be a list", name));
  std::size_t number = 0;
  for (const Json& entry : *list) {
    const std::string entry_path = fmt::format("{}[{}]", path, number++);
    base::FieldReader fields("cluster", entry, entry_path);
    read(fields);
    reader.Fail(fields.Finish());
  }
}

template <typename Rows, typename Struct>
void ReadRequired(base::FieldReader& reader, const Rows& rows, Struct& to) {
  base::RequireFields(reader, rows);
  base::ReadFields(reader, rows, to);
}

void ReadBlock(base::FieldReader& reader, std::string_view name, BlockCorrections& block) {
  const Json* json = reader.Find(name);
  if (json == nullptr) return;
  const std::string path = fmt::format("calibration: {}", name);
  base::FieldReader fields("cluster", *json, path);
  ReadRequired(fields, kBlockFields, block);
  fields.Require("shapes");
  Each(fields, "shapes", path + ": shapes", [&](base::FieldReader& shape) {
    ShapeCorrection& correction = block.shapes.emplace_back();
    ReadRequired(shape, kShapeFields, correction.shape);
    ReadRequired(shape, kCorrectionFields, correction);
  });
  Each(fields, "irregular", path + ": irregular", [&](base::FieldReader& group) {
    IrregularShapes& irregular = block.irregular.emplace_back();
    ReadRequired(group, kShapeFields, irregular.shape);
    ReadRequired(group, kIrregularFields, irregular);
  });
  reader.Fail(fields.Finish());
}

Json BlockJson(const BlockCorrections& block) {
  Json json = Json::object();
  base::WriteFields(kBlockFields, block, json);
  json["shapes"] = Json::array();
  for (const ShapeCorrection& correction : block.shapes) {
    Json& shape = json["shapes"].emplace_back(Json::object());
    base::WriteFields(kShapeFields, correction.shape, shape);
    base::WriteFields(kCorrectionFields, correction, shape);
  }
  for (const IrregularShapes& irregular : block.irregular) {
    Json& group = json["irregular"].emplace_back(Json::object());
    base::WriteFields(kShapeFields, irregular.shape, group);
    base::WriteFields(kIrregularFields, irregular, group);
  }
  return json;
}

}  // namespace

absl::StatusOr<Calibration> ParseCalibrationJson(const Json& json) {
  Calibration calibration;
  base::FieldReader reader("cluster", json, "calibration");
  ReadRequired(reader, kCalibrationFields, calibration);
  for (const std::string_view block : {"layers", "output_layers"}) reader.Require(block);
  Each(reader, "figures", "calibration: figures", [&](base::FieldReader& figure) {
    ReadRequired(figure, kFittedFigureFields, calibration.figures.emplace_back());
  });
  ReadBlock(reader, "layers", calibration.layers);
  ReadBlock(reader, "output_layers", calibration.output_layers);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  return calibration;
}

Json CalibrationJson(const Calibration& calibration) {
  Json json = Json::object();
  base::WriteFields(kCalibrationFields, calibration, json);
  json["figures"] = Json::array();
  for (const FittedFigure& figure : calibration.figures)
    base::WriteFields(kFittedFigureFields, figure, json["figures"].emplace_back(Json::object()));
  json["layers"] = BlockJson(calibration.layers);
  json["output_layers"] = BlockJson(calibration.output_layers);
  return json;
}

}  // namespace autocfg
