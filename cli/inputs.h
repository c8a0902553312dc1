// What people name on the command line -> the structs of search/plan. Errors say what is wrong, in which
// option or file, and what to do; NotFound lists the nearest names; Unimplemented names what "is not
// supported yet". Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/devices.h"
#include "kernels/nvml/gpus.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/space/search_space.h"

namespace autocfg {

// Of --seq-len; 0 where nothing is named, and the model's own holds.
absl::StatusOr<std::int64_t> LoadSeqLen(const std::string& text);

// A preset's name, or a file, ours or a Hugging Face config.json: what has a slash, ends in .json, or exists.
// Defaults are filled in (for `seq_len` where it is not 0) and the model is valid and one that is predicted;
// whether the engine runs it too is the caller's to ask (CheckEngineSupports).
absl::StatusOr<ModelSpec> LoadModel(const std::string& text, std::int64_t seq_len);

// `local`, `local:1xRANKS` (of `machine`'s GPUs where it has any, else of the CPU), a preset with its size,
// or a file: as it is described there; without a name it has the file's, less its ending.
absl::StatusOr<ClusterSpec> LoadCluster(const std::string& text, const GpuList& machine = {});

// A cluster that is predicted: as LoadCluster, but not `local`, which has no figures.
absl::StatusOr<ClusterSpec> LoadDescribedCluster(const std::string& text);

// A cluster whose node this machine is to stand for: `local` where it is one node. A rank's memory is bounded
// by this machine's own limit. On the CPU the ranks of a single node share this machine's cores; on GPUs each
// has one, as described, so that the cluster is `local` only where this machine has as many as the node.
// InvalidArgument where the cluster's devices are not what the device is made of, or other GPUs than this
// machine's, saying what to do; `text` names the cluster.
absl::StatusOr<ClusterSpec> MeasuredHere(const std::string& text, const ClusterSpec& cluster,
                                         const RunDevice& device);

// Of what the CPU engine runs: "fp32" where empty; it takes fp64 and fp32.
absl::StatusOr<Precision> LoadPrecision(const std::string& text);
// Of what the GPU engine runs: "bf16" where empty; it takes bf16 and fp32.
absl::StatusOr<Precision> LoadGpuPrecision(const std::string& text);
// Of what the dry device plans: "fp32" where empty; any of the four.
absl::StatusOr<Precision> LoadPlannedPrecision(const std::string& text);
// Of what is predicted: where empty as DefaultPredictedPrecision (search/text/prediction_json.h); any of the
// four.
absl::StatusOr<Precision> LoadPredictedPrecision(const std::string& text, const ClusterSpec& cluster);

// The text form, or an object of JSON. In canonical form and complete, and one that the engine runs for this
// model and workload on `max_ranks` ranks; an illegal plan is InvalidArgument with the reason.
absl::StatusOr<ParallelPlan> LoadPlan(const std::string& text);
absl::StatusOr<ParallelPlan> CheckPlan(const ModelSpec& model, const Workload& workload,
                                       std::int64_t max_ranks, const ParallelPlan& plan);

// OK for auto, cpu, cuda, paced and (where `dry` is) dry. Empty = auto. Whether the machine has it:
// ChooseDevice.
absl::StatusOr<std::string> LoadDevice(const std::string& text, bool dry);

// "AXIS=V1,V2".
absl::StatusOr<AxisValues> LoadSpace(const std::vector<std::string>& texts);

}  // namespace autocfg
