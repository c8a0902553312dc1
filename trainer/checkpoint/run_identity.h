// What the numbers of a run's steps depend on, beside the plan: model, workload, optimizer, seed and data. A
// checkpoint stores it, and a run that resumes must have the same. Pure functions, thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/config/train_config.h"

namespace autocfg::trainer {

// Names and values as texts, in a fixed order: {"model.layers", "12"}, ...
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

// Returns the identity of a run on `data` (TokenSource::Identity). Has every field of the model, except its
// name, every field of the workload, and every option of the optimizer that has an effect: a constant rate
// depends on neither the number of steps nor on min_lr, so such a run may be prolonged.
RunIdentity IdentityOf(const TrainConfig& config, const std::string& data);

// Returns the first field that differs, as "model.layers is 12 in the checkpoint and 24 in this run"; empty
// if the two are equal.
std::string FirstDifference(const RunIdentity& checkpoint, const RunIdentity& run);

}  // namespace autocfg::trainer
