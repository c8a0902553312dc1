#include "search/text/calibration_json.h"

#include <string_view>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

// Reads a number of either sign.
void Signed(base::FieldReader& reader, std::string_view name, double& value) {
  const Json* field = reader.Find(name);
  if (field == nullptr) return;
  if (!field->is_number()) return reader.Invalid(fmt::format("{} must be a number", name));
  value = field->get<double>();
}

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

void ReadShape(base::FieldReader& reader, BlockShape& shape) {
  for (const std::string_view needed : {"hidden", "seq_len", "micro_batch", "tp"}) reader.Require(needed);
  reader.Size("hidden", shape.hidden);
  reader.Size("seq_len", shape.seq_len);
  reader.Size("micro_batch", shape.micro_batch);
  reader.Size("tp", shape.tp);
}

void ReadBlock(base::FieldReader& reader, std::string_view name, BlockCorrections& block) {
  const Json* json = reader.Find(name);
  if (json == nullptr) return;
  const std::string path = fmt::format("calibration: {}", name);
  base::FieldReader fields("cluster", *json, path);
  for (const std::string_view needed : {"prior_sigma", "own", "octaves", "shapes"}) fields.Require(needed);
  fields.Number("prior_sigma", block.prior_sigma);
  fields.Number("own", block.own);
  fields.Number("octaves", block.octaves);
  Each(fields, "shapes", path + ": shapes", [&](base::FieldReader& shape) {
    for (const std::string_view needed : {"log_factor", "sigma"}) shape.Require(needed);
    ShapeCorrection& correction = block.shapes.emplace_back();
    ReadShape(shape, correction.shape);
    Signed(shape, "log_factor", correction.log_factor);
    shape.Number("sigma", correction.sigma);
  });
  Each(fields, "irregular", path + ": irregular", [&](base::FieldReader& group) {
    group.Require("sigma");
    IrregularShapes& irregular = block.irregular.emplace_back();
    ReadShape(group, irregular.shape);
    group.Bool("all_micro_batches", irregular.all_micro_batches);
    group.Number("sigma", irregular.sigma);
  });
  reader.Fail(fields.Finish());
}

Json ShapeJson(const BlockShape& shape) {
  return {{"hidden", shape.hidden},
          {"seq_len", shape.seq_len},
          {"micro_batch", shape.micro_batch},
          {"tp", shape.tp}};
}

Json BlockJson(const BlockCorrections& block) {
  Json json{{"prior_sigma", block.prior_sigma},
            {"own", block.own},
            {"octaves", block.octaves},
            {"shapes", Json::array()}};
  for (const ShapeCorrection& correction : block.shapes) {
    Json& shape = json["shapes"].emplace_back(ShapeJson(correction.shape));
    shape["log_factor"] = correction.log_factor;
    shape["sigma"] = correction.sigma;
  }
  for (const IrregularShapes& irregular : block.irregular) {
    Json& group = json["irregular"].emplace_back(ShapeJson(irregular.shape));
    group["all_micro_batches"] = irregular.all_micro_batches;
    group["sigma"] = irregular.sigma;
  }
  return json;
}

}  // namespace

absl::StatusOr<Calibration> ParseCalibrationJson(const Json& json) {
  Calibration calibration;
  base::FieldReader reader("cluster", json, "calibration");
  for (const std::string_view needed :
       {"measurements", "one_node_sigma", "many_nodes_sigma", "layers", "output_layers"})
    reader.Require(needed);
  reader.Size("measurements", calibration.measurements, 0);
  reader.Number("one_node_sigma", calibration.one_node_sigma);
  reader.Number("many_nodes_sigma", calibration.many_nodes_sigma);
  Each(reader, "figures", "calibration: figures", [&](base::FieldReader& figure) {
    FittedFigure& fitted = calibration.figures.emplace_back();
    for (const std::string_view needed : {"name", "value"}) figure.Require(needed);
    figure.String("name", fitted.name);
    figure.Number("prior", fitted.prior);
    figure.Number("value", fitted.value);
    figure.Number("sigma", fitted.sigma);
    figure.Bool("known", fitted.known);
  });
  ReadBlock(reader, "layers", calibration.layers);
  ReadBlock(reader, "output_layers", calibration.output_layers);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  return calibration;
}

Json CalibrationJson(const Calibration& calibration) {
  Json json{{"measurements", calibration.measurements},
            {"one_node_sigma", calibration.one_node_sigma},
            {"many_nodes_sigma", calibration.many_nodes_sigma},
            {"figures", Json::array()},
            {"layers", BlockJson(calibration.layers)},
            {"output_layers", BlockJson(calibration.output_layers)}};
  for (const FittedFigure& figure : calibration.figures) {
    json["figures"].push_back({{"name", figure.name},
                               {"prior", figure.prior},
                               {"value", figure.value},
                               {"sigma", figure.sigma},
                               {"known", figure.known}});
  }
  return json;
}

}  // namespace autocfg
