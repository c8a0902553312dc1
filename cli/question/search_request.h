// Converts the options of `autocfg search` to a validated request in the server's format. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/client/worker_pool.h"
#include "cli/input/optimizer_choice.h"
#include "cli/input/service_options.h"
#include "cli/input/training_options.h"
#include "kernels/nvml/gpus.h"
#include "proto/answer/answer.h"
#include "search/plan/cluster/engine_device.h"
#include "worker/engines/engine_file.h"

namespace autocfg::cli {

// Most nodes of --nodes, as of a cluster's name.
inline constexpr std::int64_t kMaxNodes = 1'000'000;

struct SearchArgs {
  OptimizerChoice optimizer;
  std::string model, cluster = "local", global_batch, seq_len, precision, device, max_trials, time_budget,
                     output, memory_margin, rejected, engine, weight;
  std::string engines;  // directory of engines' files, of this machine's own worker
  std::string nodes;    // in place of the cluster's own number; empty: not given
  ServiceOptions service;
  TrainingOptions training;
  std::vector<std::string> space;
  bool exhaustive = false;
  bool fresh = false;  // reuse nothing that earlier searches measured
  bool predict_only = false;
  bool save = false;  // keep the study of a prediction too
  bool json = false;
  bool pareto = false;
  std::string program;  // command that starts this program
};

struct SearchRequest {
  SearchQuestion question;
  v1::SearchSpec spec;
  GpuList machine;              // with device kCuda and no coordinator: the GPUs that measure
  worker::EngineOffer engines;  // of this machine's own worker; their versions are not read yet
  // Of an engine that measures: what it can run, each as AXIS=V1,V2, and the form of its file. Empty:
  // unknown.
  std::vector<std::string> engine_space = {};
  std::string engine_format = {};
  TrainingTerms training = {};                    // what is asked about a whole run
  std::optional<EngineDevice> asked_device = {};  // --device; empty: auto
  double weight = 1;                              // of the study
};

// Returns true if predictions use the cluster's own figures instead of this machine's.
bool IsDescribed(const SearchQuestion& question);

// `pool`: the workers of --coordinator, which measure; null if this machine measures. Errors name the option.
absl::StatusOr<SearchRequest> LoadSearch(const SearchArgs& args, const WorkerPool* pool);

}  // namespace autocfg::cli
