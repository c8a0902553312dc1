// What a calibration says, for people: the figures that were fitted, how well each is known, and how far the
// measured steps are from the fit.
#pragma once

#include <string>

#include "search/fit/cluster_fit.h"
#include "search/fit/measurements.h"

namespace autocfg::cli {

std::string CalibrationReport(const Measurements& measurements, const ClusterFit& fit);

// Returns a line if the fit leaves half of the steps more than a tenth away; else empty.
std::string UnexplainedText(const ClusterFit& fit);

// One line for each reason for which rows were skipped: how many, and the lines of the first.
std::string SkippedText(const Measurements& measurements);

}  // namespace autocfg::cli
