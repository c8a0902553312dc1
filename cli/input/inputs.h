// Loads the inputs named on the command line into the structs of search/plan. Errors say what is wrong, in
// which option or file, and what to do. NotFound lists the nearest names; Unimplemented says what "is not
// supported yet". Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/input/devices.h"
#include "kernels/nvml/gpus.h"
#include "proto/answer/answer_file.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/run_view.h"
#include "search/space/search_space.h"

namespace autocfg::cli {

// Parses --seq-len, such as 8192 or 8k (k is 1024). Returns 0 if `text` is empty; the model's own length
// applies then.
absl::StatusOr<std::int64_t> LoadSeqLen(const std::string& text);

// Loads a preset or a file: ours, an answer (of search or import), or a Hugging Face config.json. A text with
// a slash, ending in .json, or naming an existing path is a file. Fills in defaults (for `seq_len` if it is
// not 0) and validates that the model can be predicted. Callers check with CheckEngineSupports that the
// engine runs it too. Appends to `notes` what of a file was not taken.
absl::StatusOr<ModelSpec> LoadModel(const std::string& text, std::int64_t seq_len,
                                    std::vector<std::string>& notes);

// Reads the file of --input: what `search --output` wrote. Errors begin with the option.
absl::StatusOr<AnswerFile> LoadAnswerFile(const std::string& path);

// Unimplemented if --init and --save would read or write weights of this model wrongly: of a file whose norms
// store what is added to 1.
absl::Status CheckStoredWeights(const std::string& model);

// Loads `local`, `local:1xRANKS`, a preset with its size, or a file. `local` means the GPUs of `machine` if
// it has any, otherwise the CPU. A file without a name takes its file name without the extension.
absl::StatusOr<ClusterSpec> LoadCluster(const std::string& text, const GpuList& machine = {});

// Loads a cluster for predictions: as LoadCluster, but rejects `local`, which has no figures.
absl::StatusOr<ClusterSpec> LoadDescribedCluster(const std::string& text);

// Returns the cluster with one node emulated by this machine; it is `local` if it has one node. A rank's
// memory is limited by this machine's memory.
//
// On the CPU, the ranks of a single node share this machine's cores. On GPUs, each rank has one GPU as
// described, so the cluster is `local` only if this machine has as many GPUs as the node.
//
// InvalidArgument if the cluster's devices are of another kind than `device`, or other GPUs than this
// machine's; the message says what to do. `text` names the cluster.
absl::StatusOr<ClusterSpec> MeasuredHere(const std::string& text, const ClusterSpec& cluster,
                                         const RunDevice& device);

// Parses a precision of the CPU engine: fp64 or fp32; fp32 if empty.
absl::StatusOr<Precision> LoadPrecision(const std::string& text);
// Parses a precision of the GPU engine: bf16 or fp32; bf16 if empty.
absl::StatusOr<Precision> LoadGpuPrecision(const std::string& text);
// Parses a precision for the dry device: any of the four; fp32 if empty.
absl::StatusOr<Precision> LoadPlannedPrecision(const std::string& text);

// LoadPlan parses the text form or a JSON object. CheckPlan returns the plan complete and in canonical form,
// if the engine runs it for this model and workload on at most `max_ranks` ranks. An illegal plan is
// InvalidArgument with the reason.
absl::StatusOr<ParallelPlan> LoadPlan(const std::string& text);
absl::StatusOr<ParallelPlan> CheckPlan(const RunView& run, std::int64_t max_ranks);

// Returns true if --device leaves the choice of the device to this program: it is auto, or empty.
bool IsAutoDevice(std::string_view text);

// Accepts auto, cpu, cuda, paced and, if `dry`, dry. Returns no value for auto, and if empty. ChooseDevice
// checks if the machine has the device.
absl::StatusOr<std::optional<EngineDevice>> LoadDevice(const std::string& text, bool dry);

// Parses texts of the form "AXIS=V1,V2".
absl::StatusOr<AxisValues> LoadSpace(const std::vector<std::string>& texts);

}  // namespace autocfg::cli
