#include "proto/convert/calibration_convert.h"

namespace autocfg {
namespace {

v1::Calibration::Block BlockToProto(const BlockCorrections& block) {
  v1::Calibration::Block message;
  message.set_prior_sigma(block.prior_sigma);
  message.set_own(block.own);
  message.set_octaves(block.octaves);
  for (const ShapeCorrection& correction : block.shapes) {
    v1::Calibration::Shape& shape = *message.add_shapes();
    shape.set_hidden(correction.shape.hidden);
    shape.set_seq_len(correction.shape.seq_len);
    shape.set_micro_batch(correction.shape.micro_batch);
    shape.set_tp(correction.shape.tp);
    shape.set_log_factor(correction.log_factor);
    shape.set_sigma(correction.sigma);
  }
  return message;
}

BlockCorrections BlockFromProto(const v1::Calibration::Block& message) {
  BlockCorrections block{
      .prior_sigma = message.prior_sigma(), .own = message.own(), .octaves = message.octaves(), .shapes = {}};
  for (const v1::Calibration::Shape& shape : message.shapes()) {
    block.shapes.push_back({.shape = {.hidden = shape.hidden(),
                                      .seq_len = shape.seq_len(),
                                      .micro_batch = shape.micro_batch(),
                                      .tp = shape.tp()},
                            .log_factor = shape.log_factor(),
                            .sigma = shape.sigma()});
  }
  return block;
}

}  // namespace

v1::Calibration ToProto(const Calibration& calibration) {
  v1::Calibration message;
  message.set_measurements(calibration.measurements);
  message.set_one_node_sigma(calibration.one_node_sigma);
  message.set_many_nodes_sigma(calibration.many_nodes_sigma);
  for (const FittedFigure& fitted : calibration.figures) {
    v1::Calibration::Figure& figure = *message.add_figures();
    figure.set_name(fitted.name);
    figure.set_prior(fitted.prior);
    figure.set_value(fitted.value);
    figure.set_sigma(fitted.sigma);
    figure.set_known(fitted.known);
  }
  *message.mutable_layers() = BlockToProto(calibration.layers);
  *message.mutable_output_layers() = BlockToProto(calibration.output_layers);
  return message;
}

Calibration FromProto(const v1::Calibration& message) {
  Calibration calibration{.measurements = message.measurements(),
                          .one_node_sigma = message.one_node_sigma(),
                          .many_nodes_sigma = message.many_nodes_sigma(),
                          .figures = {},
                          .layers = BlockFromProto(message.layers()),
                          .output_layers = BlockFromProto(message.output_layers())};
  for (const v1::Calibration::Figure& figure : message.figures()) {
    calibration.figures.push_back({.name = figure.name(),
                                   .prior = figure.prior(),
                                   .value = figure.value(),
                                   .sigma = figure.sigma(),
                                   .known = figure.known()});
  }
  return calibration;
}

}  // namespace autocfg
