// What a fit to measured steps says about a cluster beside its figures: how far blocks of each measured shape
// are from the model, and how far whole steps are. Plain values; search/fit makes them,
// search/cost/shape_corrections.h applies them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/fields.h"

namespace autocfg {

// What the time of a block of a model (a layer, the output layer) depends on most.
struct BlockShape {
  std::int64_t hidden = 1;
  std::int64_t seq_len = 1;
  std::int64_t micro_batch = 1;
  std::int64_t tp = 1;

  bool operator==(const BlockShape&) const = default;
  auto operator<=>(const BlockShape&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// The logarithm of a block's time over the model's, and its standard deviation.
struct ShapeCorrection {
  BlockShape shape;
  double log_factor = 0;
  double sigma = 0;

  bool operator==(const ShapeCorrection&) const = default;
};

// Shapes whose blocks are far from the model: an effect that nothing models, such as a kernel that a library
// chooses badly for them. A shape, or with it all that differ from it in micro_batch alone.
struct IrregularShapes {
  BlockShape shape;  // with all microbatches: that of 1
  bool all_micro_batches = false;
  double sigma = 0;  // standard deviation of the log factor that they share

  bool Holds(BlockShape other) const;

  bool operator==(const IrregularShapes&) const = default;
};

// The corrections of one block, and how those of other shapes are related: before any measurement, a log
// factor has the variance prior_sigma^2, of which the share `own` is the shape's alone; the rest is
// correlated between shapes, by exp(-d / octaves), where d is the sum of the doublings between their sizes.
// Irregular shapes have a factor more, which they share.
struct BlockCorrections {
  double prior_sigma = 0;  // 0: no corrections
  double own = 0;
  double octaves = 1;
  std::vector<ShapeCorrection> shapes;
  std::vector<IrregularShapes> irregular = {};

  bool operator==(const BlockCorrections&) const = default;
};

// How far shapes of a model's blocks may be from the model before they are measured.
struct ShapePriors {
  BlockCorrections layers{.prior_sigma = 0.1, .own = 0.2, .octaves = 3, .shapes = {}};
  BlockCorrections output_layers{.prior_sigma = 0.4, .own = 0.2, .octaves = 3, .shapes = {}};
};

// One figure of the cluster that was fitted.
struct FittedFigure {
  std::string name;    // as in the cluster's JSON: "efficiency.matmul"
  double prior = 0;    // before the fit
  double value = 0;    // after it
  double sigma = 0;    // standard deviation of its logarithm
  bool known = false;  // the measurements determine it; otherwise `value` is near the prior

  bool operator==(const FittedFigure&) const = default;
};

struct Calibration {
  std::int64_t measurements = 0;
  // Standard deviations of the logarithm of measured over predicted time, of steps whose shapes were
  // measured: within one node, and of slower ones over several (search/predict/prediction_interval.h). 0: no
  // such step was measured.
  double one_node_sigma = 0;
  double many_nodes_sigma = 0;
  std::vector<FittedFigure> figures;
  BlockCorrections layers;
  BlockCorrections output_layers;

  bool operator==(const Calibration&) const = default;
};

// The rows of fields that are numbers or texts. JSON and messages follow from them.
inline constexpr base::Field<BlockShape> kShapeFields[] = {
    base::FieldOf<&BlockShape::hidden>({.name = "hidden", .least = 1, .required = true}),
    base::FieldOf<&BlockShape::seq_len>({.name = "seq_len", .least = 1, .required = true}),
    base::FieldOf<&BlockShape::micro_batch>({.name = "micro_batch", .least = 1, .required = true}),
    base::FieldOf<&BlockShape::tp>({.name = "tp", .least = 1, .required = true})};
inline constexpr base::Field<ShapeCorrection> kCorrectionFields[] = {
    base::FieldOf<&ShapeCorrection::log_factor>({.name = "log_factor", .least = -10, .required = true}),
    base::FieldOf<&ShapeCorrection::sigma>({.name = "sigma", .required = true})};
inline constexpr base::Field<IrregularShapes> kIrregularFields[] = {
    base::FieldOf<&IrregularShapes::all_micro_batches>({.name = "all_micro_batches", .always_written = true}),
    base::FieldOf<&IrregularShapes::sigma>({.name = "sigma", .required = true})};
inline constexpr base::Field<BlockCorrections> kBlockFields[] = {
    base::FieldOf<&BlockCorrections::prior_sigma>({.name = "prior_sigma", .required = true}),
    base::FieldOf<&BlockCorrections::own>({.name = "own", .required = true}),
    base::FieldOf<&BlockCorrections::octaves>({.name = "octaves", .required = true})};
inline constexpr base::Field<FittedFigure> kFittedFigureFields[] = {
    base::FieldOf<&FittedFigure::name>({.name = "name", .required = true}),
    base::FieldOf<&FittedFigure::prior>({.name = "prior", .always_written = true}),
    base::FieldOf<&FittedFigure::value>({.name = "value", .required = true}),
    base::FieldOf<&FittedFigure::sigma>({.name = "sigma", .always_written = true}),
    base::FieldOf<&FittedFigure::known>({.name = "known", .always_written = true})};
inline constexpr base::Field<Calibration> kCalibrationFields[] = {
    base::FieldOf<&Calibration::measurements>({.name = "measurements", .required = true}),
    base::FieldOf<&Calibration::one_node_sigma>({.name = "one_node_sigma", .required = true}),
    base::FieldOf<&Calibration::many_nodes_sigma>({.name = "many_nodes_sigma", .required = true})};

// InvalidArgument with the subject "cluster" names a figure out of bounds: sizes from 1 to 2^40, deviations
// and log factors of a magnitude of at most 10, prior_sigma 0 or at least 1e-6, `own` from 0 to 1, octaves
// above 0, at most 4096 shapes of a block, each once, at most 64 groups of irregular shapes, each once, with
// a micro_batch of 1 if they hold all.
absl::Status Validate(const Calibration& calibration);

}  // namespace autocfg
