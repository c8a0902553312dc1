#include "search/text/calibration_json.h"

#include <string_view>

#include "base/json_reader.h"
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
  for (const Json& entry : *list) {
    base::FieldReader fields("cluster", entry, path);
    read(fields);
    reader.Fail(fields.Finish());
  }
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
    for (const std::string_view needed : {"hidden", "seq_len", "micro_batch", "tp", "log_factor", "sigma"})
      shape.Require(needed);
    ShapeCorrection& correction = block.shapes.emplace_back();
    shape.Size("hidden", correction.shape.hidden);
    shape.Size("seq_len", correction.shape.seq_len);
    shape.Size("micro_batch", correction.shape.micro_batch);
    shape.Size("tp", correction.shape.tp);
    Signed(shape, "log_factor", correction.log_factor);
    shape.Number("sigma", correction.sigma);
  });
  reader.Fail(fields.Finish());
}

Json BlockJson(const BlockCorrections& block) {
  Json json{{"prior_sigma", block.prior_sigma},
            {"own", block.own},
            {"octaves", block.octaves},
            {"shapes", Json::array()}};
  for (const ShapeCorrection& correction : block.shapes) {
    json["shapes"].push_back({{"hidden", correction.shape.hidden},
                              {"seq_len", correction.shape.seq_len},
                              {"micro_batch", correction.shape.micro_batch},
                              {"tp", correction.shape.tp},
                              {"log_factor", correction.log_factor},
                              {"sigma", correction.sigma}});
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
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
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
