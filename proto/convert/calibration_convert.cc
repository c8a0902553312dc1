#include "proto/convert/calibration_convert.h"

#include "base/status_macros.h"
#include "proto/convert/message_fields.h"

namespace autocfg {
namespace {

void BlockToProto(const BlockCorrections& block, v1::Calibration::Block& message) {
  FieldsToMessage(kBlockFields, block, message);
  for (const ShapeCorrection& correction : block.shapes) {
    v1::Calibration::Shape& shape = *message.add_shapes();
    FieldsToMessage(kShapeFields, correction.shape, shape);
    FieldsToMessage(kCorrectionFields, correction, shape);
  }
  for (const IrregularShapes& irregular : block.irregular) {
    v1::Calibration::IrregularShapes& group = *message.add_irregular();
    FieldsToMessage(kShapeFields, irregular.shape, group);
    FieldsToMessage(kIrregularFields, irregular, group);
  }
}

absl::Status BlockFromProto(const v1::Calibration::Block& message, BlockCorrections& block) {
  AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", kBlockFields, message, block));
  for (const v1::Calibration::Shape& shape : message.shapes()) {
    ShapeCorrection& correction = block.shapes.emplace_back();
    AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", kShapeFields, shape, correction.shape));
    AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", kCorrectionFields, shape, correction));
  }
  for (const v1::Calibration::IrregularShapes& group : message.irregular()) {
    IrregularShapes& irregular = block.irregular.emplace_back();
    AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", kShapeFields, group, irregular.shape));
    AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", kIrregularFields, group, irregular));
  }
  return absl::OkStatus();
}

}  // namespace

v1::Calibration ToProto(const Calibration& calibration) {
  v1::Calibration message;
  FieldsToMessage(kCalibrationFields, calibration, message);
  for (const FittedFigure& figure : calibration.figures)
    FieldsToMessage(kFittedFigureFields, figure, *message.add_figures());
  BlockToProto(calibration.layers, *message.mutable_layers());
  BlockToProto(calibration.output_layers, *message.mutable_output_layers());
  return message;
}

absl::StatusOr<Calibration> FromProto(const v1::Calibration& message) {
  Calibration calibration;
  AUTOCFG_RETURN_IF_ERROR(FieldsFromMessage("cluster", kCalibrationFields, message, calibration));
  for (const v1::Calibration::Figure& figure : message.figures())
    AUTOCFG_RETURN_IF_ERROR(
        FieldsFromMessage("cluster", kFittedFigureFields, figure, calibration.figures.emplace_back()));
  AUTOCFG_RETURN_IF_ERROR(BlockFromProto(message.layers(), calibration.layers));
  AUTOCFG_RETURN_IF_ERROR(BlockFromProto(message.output_layers(), calibration.output_layers));
  return calibration;
}

}  // namespace autocfg
