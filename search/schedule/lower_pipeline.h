// The program of a plan, of one rank for each pipeline coordinate. Pure, thread-safe.
#pragma once

#include "search/schedule/program.h"

namespace autocfg {

// Of Lower's program (program.h) the ranks at tensor and data coordinate 0, numbered by their pipeline
// coordinate, as if the plan had no other axes. They show what all ranks do, and when, since those that
// differ in tensor and data coordinate alone do the same at the same time. The reductions over such ranks are
// in it.
Program LowerPipeline(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

}  // namespace autocfg
