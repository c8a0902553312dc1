#include "server/studies/search_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/convert/spec_convert.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/op_times/collective_model.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/question/defaults.h"
#include "search/schedule/program.h"
#include "search/space/search_space.h"

namespace autocfg::server {
namespace {

// Limits for measured studies. Beyond them, programs and queues exceed memory, and a step takes hours.
constexpr std::int64_t kMostSequences = 1 << 16;
constexpr std::int64_t kMostRanks = 1024;
// Limits for emulated clusters: each rank is a process of this machine and holds the whole program.
constexpr std::int64_t kMostPacedRanks = 64;
constexpr std::int64_t kMostPacedMicrobatches = 1 << 16;
// Limits on a specification's texts and lists. They keep every response that contains it small.
constexpr std::size_t kLongestSpecName = 200;  // bytes
constexpr int kMostAxes = 100;
constexpr int kMostAxisValues = 1000;
// total size of an axis's values; those of a split can be long
constexpr std::size_t kMostAxisBytes = std::size_t{64} * kMostAxisValues;
// Limits for predict-only studies. Beyond them, enumeration takes hours.
constexpr std::int64_t kMostPredictedRanks = 1 << 20;
constexpr std::int64_t kMostPredictedSequences = 1 << 24;

absl::Status In(const char* field, const absl::Status& status) {
  return base::WithSubject(fmt::format("spec.{}", field), status);
}

absl::Status CheckName(const char* field, const std::string& name) {
  if (name.size() <= kLongestSpecName) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("spec.{} has {} bytes; the limit is {}", field, name.size(), kLongestSpecName));
}

absl::Status CheckSizes(const v1::SearchSpec& spec) {
  if (!spec.has_model()) return absl::InvalidArgumentError("spec.model is missing");
  if (!spec.has_cluster()) return absl::InvalidArgumentError("spec.cluster is missing");
  if (!spec.has_workload()) return absl::InvalidArgumentError("spec.workload is missing");
  AUTOCFG_RETURN_IF_ERROR(CheckName("model.name", spec.model().name()));
  AUTOCFG_RETURN_IF_ERROR(CheckName("cluster.name", spec.cluster().name()));
  for (const v1::NodeGroup& group : spec.cluster().groups()) {
    AUTOCFG_RETURN_IF_ERROR(CheckName("cluster.groups.device.name", group.device().name()));
  }
  if (spec.space_size() > kMostAxes)
    return absl::InvalidArgumentError(
        fmt::format("spec.space has {} axes; the limit is {}", spec.space_size(), kMostAxes));
  for (const v1::SpaceAxis& axis : spec.space()) {
    AUTOCFG_RETURN_IF_ERROR(CheckName("space.name", axis.name()));
    if (axis.values_size() > kMostAxisValues) {
      return base::InvalidArgument(
          "spec.space", fmt::format("axis {} has {} values; the limit is {}", base::Printable(axis.name()),
                                    axis.values_size(), kMostAxisValues));
    }
    std::size_t bytes = 0;
    for (const std::string& value : axis.values()) bytes += value.size();
    if (bytes > kMostAxisBytes) {
      return base::InvalidArgument("spec.space",
                                   fmt::format("the values of axis {} have {} bytes; the limit is {}",
                                               base::Printable(axis.name()), bytes, kMostAxisBytes));
    }
  }
  return absl::OkStatus();
}

bool OnGpus(const v1::ClusterSpec& cluster) {
  return cluster.groups_size() > 0 && ParseDeviceKind(cluster.groups(0).device().kind()) == DeviceKind::kCuda;
}

// Returns the device that measures. Default: the GPU for `local` on GPUs, else the CPU.
absl::StatusOr<EngineDevice> MeasuringDevice(const v1::SearchSpec& spec) {
  if (spec.device().empty())
    return spec.cluster().local() && OnGpus(spec.cluster()) ? EngineDevice::kCuda : EngineDevice::kCpu;
  const std::optional<EngineDevice> device = ParseEngineDevice(spec.device());
  if (device && !IsDry(*device)) return *device;
  return base::InvalidArgument("spec.device",
                               fmt::format("unknown device '{}'; expected {}", base::Printable(spec.device()),
                                           EngineDeviceNames(/*dry=*/false)));
}

absl::Status CheckLimits(const SearchProblem& problem, std::int64_t most_ranks, std::int64_t most_sequences,
                         const char* what) {
  if (const std::int64_t ranks = RankCount(problem.cluster); ranks > most_ranks) {
    return base::InvalidArgument(
        "spec.cluster",
        fmt::format("{} ranks are too many to be {} here; use at most {}", ranks, what, most_ranks));
  }
  if (problem.workload.global_batch > most_sequences) {
    return base::InvalidArgument("spec.workload.global_batch",
                                 fmt::format("{} is too large to be {}; use at most {}",
                                             problem.workload.global_batch, what, most_sequences));
  }
  return absl::OkStatus();
}

// Checks the plan with the largest program: one sequence per microbatch, dp = 1, and as many stages as ranks
// or layers allow.
absl::Status CheckPrograms(const SearchProblem& problem) {
  const std::int64_t ranks = RankCount(problem.cluster);
  ParallelPlan largest{{.pp = ranks}};
  if (ranks > 1 && problem.model.layers > ranks) {
    largest.virtual_stages = (problem.model.layers + ranks - 1) / ranks;
    largest.schedule = Schedule::kInterleaved;
  }
  if (absl::Status status = CheckProgramSize(problem.workload, largest); !status.ok())
    return In("workload.global_batch", status);
  return absl::OkStatus();
}

// Checks that the cluster's devices and the precision match the device that measures.
absl::Status CheckMeasuringDevice(const SearchProblem& problem) {
  const bool on_gpus = UsesGpus(problem.device);
  for (const NodeGroup& group : problem.cluster.groups) {
    if ((group.device.kind == DeviceKind::kCuda) == on_gpus) continue;
    if (on_gpus)
      return base::InvalidArgument("spec.device",
                                   "cuda measures on GPUs, but the cluster's devices are CPUs; give cpu");
    return base::InvalidArgument(
        "spec.cluster",
        "its devices are GPUs, which device cpu cannot measure; use device cuda, predict_only "
        "or device paced");
  }
  return base::WithSubject(
      "spec.workload.precision",
      CheckRuns(on_gpus ? DeviceKind::kCuda : DeviceKind::kCpu, problem.workload.precision));
}

// Checks that the study's own figures are there, without which it would end with a wrong answer.
absl::Status CheckCluster(const SearchProblem& problem) {
  const ClusterSpec& cluster = problem.cluster;
  for (int i = 0; const NodeGroup& group : cluster.groups) {
    if (group.device.memory_bytes <= 0) {
      return base::InvalidArgument(
          "spec.cluster",
          fmt::format("groups[{}].device.memory_bytes is missing; give the bytes that a rank may use", i));
    }
    ++i;
  }
  if (cluster.engine.name == kOwnEngine || problem.options.predict_only != cluster.local)
    return absl::OkStatus();
  if (cluster.local) {
    return base::InvalidArgument(
        "spec.cluster",
        fmt::format("engine is {}, but only {} is predicted on local; leave engine empty, or describe the "
                    "cluster to predict {}, or measure",
                    cluster.engine.name, kOwnEngine, cluster.engine.name));
  }
  return base::InvalidArgument(
      "spec.cluster",
      fmt::format("engine is {}, which measures whole plans on local alone; leave engine empty, make the "
                  "cluster local, or set predict_only to predict {}",
                  cluster.engine.name, cluster.engine.name));
}

// Checks that the study's kind of evidence can be obtained.
absl::Status CheckEvidence(const SearchProblem& problem) {
  const ClusterSpec& cluster = problem.cluster;
  if (problem.machine_ranks < 0)
    return absl::InvalidArgumentError(
        fmt::format("spec.machine_ranks is {}; it must not be negative", problem.machine_ranks));
  if (IsEmulated(problem.device) && cluster.local) {
    return base::InvalidArgument("spec.device",
                                 "paced emulates a described cluster; describe one in place of local");
  }
  // An emulated cluster has no slices: each plan needs as many slots as it has ranks.
  if (problem.machine_ranks > 0 && IsEmulated(problem.device) && !problem.options.predict_only) {
    return absl::InvalidArgumentError(
        fmt::format("spec.machine_ranks is {}, but device paced emulates all {} ranks at once; leave it out",
                    problem.machine_ranks, RankCount(cluster)));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckCluster(problem));
  // Predictions need all of the cluster's figures.
  if (!cluster.local && (problem.options.predict_only || IsEmulated(problem.device))) {
    if (const auto times = ClusterOpTimes::Create(cluster, problem.workload.precision); !times.ok())
      return In("cluster", times.status());
  }
  if (problem.options.predict_only && !cluster.local) {
    return CheckLimits(problem, kMostPredictedRanks, kMostPredictedSequences, "searched");
  }
  if (const absl::Status runs = CheckEngineRuns(problem.workload.optimizer); !runs.ok())
    return base::WithSubject("spec.workload.optimizer", runs);
  if (const absl::Status runs = CheckEngineRuns(problem.workload.precision); !runs.ok())
    return base::WithSubject("spec.workload.precision", runs);
  if (IsEmulated(problem.device)) {
    AUTOCFG_RETURN_IF_ERROR(CheckLimits(problem, kMostPacedRanks, kMostSequences, "emulated"));
    if (RankCount(cluster) * problem.workload.global_batch > kMostPacedMicrobatches) {
      return base::InvalidArgument(
          "spec.workload.global_batch",
          fmt::format("{} sequences on {} ranks are too many to be emulated; "
                      "their product may be {} at most",
                      problem.workload.global_batch, RankCount(cluster), kMostPacedMicrobatches));
    }
    return CheckPrograms(problem);
  }
  AUTOCFG_RETURN_IF_ERROR(CheckMeasuringDevice(problem));
  if (!cluster.local) {
    if (const auto links = LinksOf(cluster); !links.ok()) return In("cluster", links.status());
  }
  AUTOCFG_RETURN_IF_ERROR(CheckLimits(problem, kMostRanks, kMostSequences, "measured"));
  return CheckPrograms(problem);
}

absl::Status ReadModel(const v1::SearchSpec& spec, SearchProblem& problem) {
  auto model = FromProto(spec.model());
  if (!model.ok()) return In("model", model.status());
  problem.model = *std::move(model);
  FillDefaults(problem.model, std::max<std::int64_t>(spec.workload().seq_len(), 0));
  if (absl::Status status = Validate(problem.model); !status.ok()) return In("model", status);
  return In("model",
            spec.predict_only() ? CheckPredictable(problem.model) : CheckEngineSupports(problem.model));
}

// Also reads how the evidence is obtained, from which defaults follow.
absl::Status ReadClusterAndWorkload(const v1::SearchSpec& spec, SearchProblem& problem) {
  auto cluster = FromProto(spec.cluster());
  if (!cluster.ok()) return In("cluster", cluster.status());
  problem.cluster = *std::move(cluster);
  if (absl::Status status = Validate(problem.cluster); !status.ok()) return In("cluster", status);
  problem.options.predict_only = spec.predict_only();
  problem.fresh = spec.fresh();
  AUTOCFG_ASSIGN_OR_RETURN(problem.device, MeasuringDevice(spec));
  problem.machine_ranks = spec.machine_ranks();
  const DeviceTimes times =
      DeviceTimesOfSearch(problem.cluster, problem.device, problem.options.predict_only);
  std::vector<std::string> notes;  // the client makes its own
  const auto precision = ResolveDefaults("", spec.workload().precision(), times, problem.cluster, notes);
  if (!precision.ok()) return In("workload", precision.status());
  v1::Workload message = spec.workload();
  if (message.seq_len() == 0) message.set_seq_len(problem.model.max_seq_len);
  message.set_precision(PrecisionText(*precision));
  auto workload = FromProto(message);
  if (!workload.ok()) return In("workload", workload.status());
  problem.workload = *std::move(workload);
  if (EvidenceOf(problem) == Evidence::kPaced) {
    // The paced device does not emulate it, and what is predicted is what is emulated.
    for (NodeGroup& group : problem.cluster.groups) group.device.efficiency.overlap_contention = 0;
  }
  return In("workload", Validate(problem.workload, problem.model));
}

absl::Status ReadSpace(const v1::SearchSpec& spec, SearchProblem& problem) {
  for (const v1::SpaceAxis& axis : spec.space()) {
    std::vector<std::string> values(axis.values().begin(), axis.values().end());
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.empty()) continue;
    // One name for each axis, so that its other names make no other fingerprint.
    const PlanOption* option = FindPlanOption(axis.name());
    problem.space.emplace_back(option != nullptr ? std::string(option->name) : axis.name(),
                               std::move(values));
  }
  std::sort(problem.space.begin(), problem.space.end());
  for (std::size_t i = 1; i < problem.space.size(); ++i) {
    if (problem.space[i].first == problem.space[i - 1].first) {
      return base::InvalidArgument("spec.space",
                                   fmt::format("axis {} is named twice", problem.space[i].first));
    }
  }
  return In("space", SearchSpace::Create(problem.model, problem.workload, RankCount(problem.cluster),
                                         problem.space, {.predict_only = problem.options.predict_only})
                         .status());
}

absl::Status ReadLimits(const v1::SearchSpec& spec, SearchProblem& problem) {
  if (spec.max_trials() < 0) {
    return absl::InvalidArgumentError(
        fmt::format("spec.max_trials is {}; it must not be negative", spec.max_trials()));
  }
  if (!std::isfinite(spec.time_budget_s()) || spec.time_budget_s() < 0) {
    return absl::InvalidArgumentError(
        fmt::format("spec.time_budget_s is {}; give a finite number of seconds, or 0 for no limit",
                    spec.time_budget_s()));
  }
  problem.options.memory_margin =
      spec.has_memory_margin() ? spec.memory_margin() : DefaultMemoryMargin(problem.cluster);
  if (const absl::Status status = CheckMemoryMargin(problem.options.memory_margin); !status.ok())
    return absl::InvalidArgumentError(fmt::format("spec.{}", std::string(status.message())));
  problem.options.exhaustive = spec.exhaustive();
  problem.options.measurable_ranks = MeasurableRanks(problem);
  problem.options.max_trials = spec.max_trials();
  problem.time_budget_s = spec.time_budget_s();
  return absl::OkStatus();
}

}  // namespace

Evidence EvidenceOf(const SearchProblem& problem) {
  if (problem.options.predict_only) return Evidence::kPrediction;
  if (IsEmulated(problem.device)) return Evidence::kPaced;
  return problem.cluster.local ? Evidence::kTrials : Evidence::kSlices;
}

bool NeedsCalibration(const SearchProblem& problem) {
  return problem.cluster.local || EvidenceOf(problem) == Evidence::kSlices;
}

std::int64_t MeasurableRanks(const SearchProblem& problem) {
  if (EvidenceOf(problem) != Evidence::kSlices) return 0;
  std::int64_t ranks = std::numeric_limits<std::int64_t>::max();
  for (const NodeGroup& group : problem.cluster.groups) ranks = std::min(ranks, group.gpus_per_node);
  return problem.machine_ranks > 0 ? std::min(problem.machine_ranks, RankCount(problem.cluster)) : ranks;
}

absl::StatusOr<SearchProblem> ParseSearchSpec(const v1::SearchSpec& spec) {
  SearchProblem problem;
  AUTOCFG_RETURN_IF_ERROR(CheckSizes(spec));
  AUTOCFG_RETURN_IF_ERROR(ReadModel(spec, problem));
  AUTOCFG_RETURN_IF_ERROR(ReadClusterAndWorkload(spec, problem));
  AUTOCFG_RETURN_IF_ERROR(CheckEvidence(problem));
  AUTOCFG_RETURN_IF_ERROR(ReadSpace(spec, problem));
  AUTOCFG_RETURN_IF_ERROR(ReadLimits(spec, problem));
  return problem;
}

absl::Status CheckSpecSize(const v1::SearchSpec& spec) {
  const std::size_t bytes = spec.ByteSizeLong();
  if (bytes <= kMostSpecBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the study's specification has {} bytes; the limit is {}; give fewer values of the search "
                  "space, or fewer node groups of the cluster",
                  bytes, kMostSpecBytes));
}

v1::SearchSpec ToProto(const SearchProblem& problem) {
  v1::SearchSpec spec;
  *spec.mutable_model() = ToProto(problem.model);
  *spec.mutable_cluster() = ToProto(problem.cluster);
  *spec.mutable_workload() = ToProto(problem.workload);
  for (const auto& [name, values] : problem.space) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    for (const std::string& value : values) axis.add_values(value);
  }
  spec.set_exhaustive(problem.options.exhaustive);
  spec.set_fresh(problem.fresh);
  spec.set_predict_only(problem.options.predict_only);
  spec.set_max_trials(problem.options.max_trials);
  spec.set_time_budget_s(problem.time_budget_s);
  spec.set_device(std::string(Name(problem.device)));
  spec.set_machine_ranks(problem.machine_ranks);
  // The default is left out, so that studies of earlier versions keep their fingerprints.
  if (problem.options.memory_margin != DefaultMemoryMargin(problem.cluster))
    spec.set_memory_margin(problem.options.memory_margin);
  return spec;
}

std::string SpecFingerprint(const v1::SearchSpec& normal_form) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    normal_form.SerializeToCodedStream(&coded);
  }
  return fmt::format("{:016x}", base::Fnv1a(bytes));
}

}  // namespace autocfg::server
