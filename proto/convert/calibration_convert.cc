#include "proto/convert/calibration_convert.h"

namespace autocfg {
namespace {

// `message`: a Shape or IrregularShapes.
template <typename Message>
void FillShape(const BlockShape& shape, Message& message) {
  message.set_hidden(shape.hidden);
  message.set_seq_len(shape.seq_len);
  message.set_micro_batch(shape.micro_batch);
  message.set_tp(shape.tp);
}

template <typename Message>
BlockShape ShapeOf(const Message& message) {
  return {.hidden = message.hidden(),
          .seq_len = message.seq_len(),
          .micro_batch = message.micro_batch(),
          .tp = message.tp()};
}

v1::Calibration::Block BlockToProto(const BlockCorrections& block) {
  v1::Calibration::Block message;
  message.set_prior_sigma(block.prior_sigma);
  message.set_own(block.own);
  message.set_octaves(block.octaves);
  for (const ShapeCorrection& correction : block.shapes) {
    v1::Calibration::Shape& shape = *message.add_shapes();
    FillShape(correction.shape, shape);
    shape.set_log_factor(correction.log_factor);
    shape.set_sigma(correction.sigma);
  }
  for (const IrregularShapes& irregular : block.irregular) {
    v1::Calibration::IrregularShapes& group = *message.add_irregular();
    FillShape(irregular.shape, group);
    group.set_all_micro_batches(irregular.all_micro_batches);
    group.set_sigma(irregular.sigma);
  }
  return message;
}

BlockCorrections BlockFromProto(const v1::Calibration::Block& message) {
  BlockCorrections block{
      .prior_sigma = message.prior_sigma(), .own = message.own(), .octaves = message.octaves(), .shapes = {}};
  for (const v1::Calibration::Shape& shape : message.shapes()) {
    block.shapes.push_back(
        {.shape = ShapeOf(shape), .log_factor = shape.log_factor(), .sigma = shape.sigma()});
  }
  for (const v1::Calibration::IrregularShapes& group : message.irregular()) {
    block.irregular.push_back(
        {.shape = ShapeOf(group), .all_micro_batches = group.all_micro_batches(), .sigma = group.sigma()});
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
