#include "cli/question/search_request.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "cli/input/devices.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/convert/local_ranks.h"
#include "proto/convert/spec_convert.h"
#include "proto/rpc/duration.h"
#include "search/frameworks/framework_rules.h"
#include "search/predict/predict_plan.h"
#include "search/question/defaults.h"
#include "search/space/search_space.h"
#include "search/text/engines.h"
#include "server/store/turns/fair_share.h"
#include "server/studies/search_problem.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

constexpr double kShortestBudgetSeconds = 1e-9;  // above 0

// Rejects options about measuring if nothing is measured.
absl::Status CheckPredictOnly(const SearchArgs& args) {
  if (!args.predict_only) return absl::OkStatus();
  for (const auto& [name, given] : {std::pair<const char*, bool>{"--exhaustive", args.exhaustive},
                                    {"--max-trials", !args.max_trials.empty()},
                                    {"--time-budget", !args.time_budget.empty()},
                                    {"--weight", !args.weight.empty()},
                                    {"--device", !IsAutoDevice(args.device)}}) {
    if (given) {
      return absl::InvalidArgumentError(
          fmt::format("--predict-only and {} exclude each other, since a prediction measures nothing; leave "
                      "one of them out",
                      name));
    }
  }
  return absl::OkStatus();
}

// Sets the cluster's number of nodes to --nodes, if that was given.
absl::Status ReplaceNodes(const SearchArgs& args, ClusterSpec& cluster) {
  if (args.nodes.empty()) return absl::OkStatus();
  AUTOCFG_ASSIGN_OR_RETURN(const auto nodes, ParseWhole("--nodes", args.nodes, 1, kMaxNodes));
  if (cluster.local) {
    return absl::InvalidArgumentError(
        "--nodes: --cluster local is the machines that measure, whose number is given; leave --nodes out, or "
        "give a described cluster, such as h100-sxm:1x8");
  }
  if (cluster.groups.size() != 1)
    return absl::InvalidArgumentError("--nodes: the cluster has several kinds of nodes; leave --nodes out");
  cluster.groups.front().nodes = nodes;
  return absl::OkStatus();
}

// Returns a note that no worker offers the engine, with those that are offered.
std::string NotOfferedNote(const WorkerPool& pool, const std::string& engine) {
  std::set<std::string> names;
  for (const v1::Worker& worker : pool.workers) {
    for (const v1::Engine& offered : worker.inventory().engines()) names.insert(offered.name());
  }
  const std::vector<std::string> offered(names.begin(), names.end());
  const std::string others = offered.empty() ? "they offer no engine beside autocfg"
                                             : fmt::format("they offer {}{}", fmt::join(offered, ", "),
                                                           base::DidYouMeanOfListed(engine, offered));
  return fmt::format(
      "--engine: no worker of {} offers {} ({}); the study measures op times, then waits for a worker that "
      "does; autocfg cancel ends it",
      pool.coordinator, engine, others);
}

// Returns the engine of --engine: one that is predicted, or one that measures on this machine or on the pool.
absl::StatusOr<EngineProfile> LoadEngine(const SearchArgs& args, const WorkerPool* pool,
                                         SearchRequest& request) {
  SearchQuestion& question = request.question;
  if (!args.engines.empty()) {
    if (pool != nullptr || args.predict_only) {
      return absl::InvalidArgumentError(fmt::format(
          "--engines: {}; leave it out", pool != nullptr
                                             ? "the workers of --coordinator have directories of their own"
                                             : "--predict-only runs no engine"));
    }
    auto files = worker::LoadEngineFiles(args.engines);
    if (!files.ok()) return Where("--engines", files.status());
    request.engines.engines = *std::move(files);
  }
  if (args.engine.empty() || args.engine == kOwnEngine) return EngineProfile();
  if (args.predict_only) {
    absl::StatusOr<EngineProfile> engine = EngineNamed(args.engine);
    if (!engine.ok()) return Where("--engine", engine.status(), "engine");
    if (!question.cluster.local) return engine;
    return absl::InvalidArgumentError(fmt::format(
        "--engine: only {} is predicted on --cluster local; describe the cluster to predict {}, or leave "
        "--predict-only out to measure it",
        kOwnEngine, engine->name));
  }
  if (!question.cluster.local) {
    return absl::InvalidArgumentError(
        fmt::format("--engine: {} measures whole plans, on --cluster local; give that, or add --predict-only "
                    "to predict a "
                    "described cluster",
                    base::Printable(args.engine)));
  }
  auto engine = EngineOfWorkers(args.engine);
  if (!engine.ok()) return Where("--engine", engine.status(), "engine");
  std::vector<std::string> space;
  if (pool != nullptr) {
    const auto offering =
        std::find_if(pool->workers.begin(), pool->workers.end(),
                     [&](const v1::Worker& each) { return OfferedEngine(each, args.engine) != nullptr; });
    if (offering == pool->workers.end()) {  // the study waits for such a worker, and says so
      question.notes.push_back(NotOfferedNote(*pool, args.engine));
      return engine;
    }
    const v1::Engine& offered = *OfferedEngine(*offering, args.engine);
    space.assign(offered.space().begin(), offered.space().end());
    request.engine_format = offered.format();
  } else if (const worker::EngineFile* file = request.engines.Find(args.engine)) {
    space = file->space;
    request.engine_format = file->format;
  } else if (args.engines.empty() && !EngineNamed(args.engine).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--engine: no engine of the name {} is known here; to measure it, give the directory of "
                    "its file with --engines; expected else {}",
                    base::Printable(args.engine), base::ChoiceText(EngineNames())));
  } else if (args.engines.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "--engine: to measure {}, give the directory of its file with --engines; to predict it, add "
        "--predict-only and a described --cluster",
        base::Printable(args.engine)));
  } else {
    std::vector<std::string> names;
    for (const worker::EngineFile& each : request.engines.engines) names.push_back(each.name);
    return absl::InvalidArgumentError(fmt::format("--engine: --engines has no file of {}; expected {}",
                                                  base::Printable(args.engine), base::ChoiceText(names)));
  }
  request.engine_space = std::move(space);
  return engine;
}

// Adds what the engine can run to the axes that --space does not name.
absl::Status NarrowToEngine(SearchRequest& request, AxisValues& space) {
  auto added = autocfg::NarrowToEngine(request.engine_space, request.spec);
  if (!added.ok()) return Where("--engine: space", added.status());
  std::vector<std::string> axes;
  for (auto& [name, values] : *added) {
    axes.push_back(fmt::format("{}={}", name, fmt::join(values, ",")));
    space.emplace_back(std::move(name), std::move(values));
  }
  if (!axes.empty()) {
    request.question.notes.push_back(fmt::format("engine {} runs {} alone, as its file says",
                                                 request.question.cluster.engine.name,
                                                 fmt::join(axes, ", ")));
  }
  return absl::OkStatus();
}

// Chooses the device, the cluster and the precision, in this order of dependence. `all`: the pool, of which
// only the workers that offer the engine measure.
absl::Status LoadMachine(const SearchArgs& args, const WorkerPool* all, SearchRequest& request,
                         Precision& precision) {
  std::optional<WorkerPool> offering;
  if (all != nullptr) offering = {all->coordinator, WorkersForEngine(all->workers, args.engine)};
  const WorkerPool* pool = offering ? &*offering : nullptr;
  SearchQuestion& question = request.question;
  std::optional<EngineDevice> asked = request.asked_device;
  const bool emulated = asked && IsEmulated(*asked);
  // With a pool, `local` means its workers on all their nodes. Which workers these are follows from the
  // device.
  const bool pooled = pool != nullptr && IsLocalName(args.cluster) && !emulated;
  auto cluster = pooled     ? worker::LocalCluster()
                 : emulated ? LoadDescribedCluster(args.cluster)
                            : LoadCluster(args.cluster);
  if (!cluster.ok()) return cluster.status();
  question.cluster = *std::move(cluster);
  AUTOCFG_RETURN_IF_ERROR(ReplaceNodes(args, question.cluster));
  // A cluster that is only predicted needs no device; CPU clusters are measured on CPUs.
  const bool on_cpus = question.cluster.groups.front().device.kind == DeviceKind::kCpu;
  if (!asked && !question.cluster.local && (question.predict_only || on_cpus)) asked = EngineDevice::kCpu;
  const bool runs = !question.predict_only || question.cluster.local;  // else no worker is needed
  AUTOCFG_ASSIGN_OR_RETURN(auto device, !runs ? absl::StatusOr<RunDevice>(RunDevice{.engine = *asked})
                                        : pool != nullptr ? ChooseDevice(*pool, asked, args.precision)
                                                          : ChooseDevice(asked, args.precision));
  question.device = device.engine;
  question.notes.insert(question.notes.end(), device.notes.begin(), device.notes.end());
  AUTOCFG_ASSIGN_OR_RETURN(const auto engine, LoadEngine(args, pool, request));
  if (!IsDescribed(question)) {
    const bool local_gpus = question.cluster.local && UsesGpus(device.engine);
    cluster = pooled            ? PoolCluster(*pool, device, args.cluster)
              : local_gpus      ? LoadCluster(args.cluster, device.machine)
              : pool != nullptr ? MeasuredOn(*pool, args.cluster, question.cluster, device)
                                : MeasuredHere(args.cluster, question.cluster, device);
    if (!cluster.ok()) return cluster.status();
    question.cluster = *std::move(cluster);
    const auto runs_in =
        UsesGpus(device.engine) ? LoadGpuPrecision(args.precision) : LoadPrecision(args.precision);
    AUTOCFG_RETURN_IF_ERROR(runs_in.status());
  }
  question.cluster.engine = engine;
  const auto resolved = ResolveDefaults(
      "", args.precision, DeviceTimesOfSearch(question.cluster, question.device, question.predict_only),
      question.cluster, question.notes);
  if (!resolved.ok()) return OfOption(resolved.status(), args.cluster);
  precision = *resolved;
  if (pool != nullptr) {
    if (!question.cluster.local && !IsDescribed(question))
      request.spec.set_machine_ranks(SlotsOf(*pool, question.device));
    return absl::OkStatus();
  }
  const auto gpus = static_cast<std::int64_t>(device.machine.gpus.size());
  if (gpus > 0 && !question.cluster.local && gpus < question.cluster.groups.front().gpus_per_node)
    request.spec.set_machine_ranks(gpus);
  request.machine = std::move(device.machine);
  return absl::OkStatus();
}

// Returns the ways of splitting that autocfg does not have, and what the search leaves at its default.
std::vector<std::string> NotConsidered(const SearchQuestion& question, const AxisValues& space) {
  std::vector<std::string> names = {"context parallelism", "states or activations in host memory"};
  const bool narrow = question.workload.precision.products != ProductFormat::kCompute;
  if (!narrow && !question.cluster.groups.empty() &&
      question.cluster.groups.front().device.kind == DeviceKind::kCuda)
    names.emplace_back("fp8 (--precision fp8 predicts it)");
  const std::string& engine = question.cluster.engine.name;
  if (!FrameworkRules(engine).empty())
    names.push_back(fmt::format("plans that the files of {} cannot express (docs/export.md)", engine));
  const auto options = OptionsLeftOut(space, HidesCollectives(question.cluster));
  if (!options.empty())
    names.push_back(
        fmt::format("{} other than by default (name values with --space)", fmt::join(options, ", ")));
  return names;
}

// Returns the weight of the study; 1 unless it is given.
absl::StatusOr<double> LoadWeight(const SearchArgs& args) {
  if (args.save && !args.predict_only) {
    return base::InvalidArgument(
        "--save", "it keeps the study of --predict-only; every other study is kept anyway, so leave it out");
  }
  if (args.weight.empty()) return 1;
  AUTOCFG_ASSIGN_OR_RETURN(const auto weight,
                           ParseReal("--weight", args.weight, server::kLeastWeight, server::kMostWeight));
  if (args.service.remote()) return weight;
  return base::InvalidArgument("--weight",
                               "it is the study's share of a coordinator's workers, and this search has its "
                               "own; give --coordinator, or leave it out");
}

// Sets model, cluster and workload, and what measures. Appends what is to be said of the model to `notes`.
absl::Status LoadProblem(const SearchArgs& args, const WorkerPool* pool, SearchRequest& request,
                         std::vector<std::string>& notes) {
  SearchQuestion& question = request.question;
  if (args.model.empty())
    return absl::InvalidArgumentError("--model is missing; give a preset, such as gpt2-tiny, or a file");
  if (args.global_batch.empty())
    return absl::InvalidArgumentError("--global-batch is missing; give the sequences per step");
  AUTOCFG_ASSIGN_OR_RETURN(const auto global_batch,
                           ParseWhole("--global-batch", args.global_batch, 1, kMaxGlobalBatch));
  AUTOCFG_ASSIGN_OR_RETURN(const std::int64_t seq_len, LoadSeqLen(args.seq_len));
  AddUnitNote("--seq-len", base::Quantity::kSequenceLength, args.seq_len, question.notes);
  AUTOCFG_ASSIGN_OR_RETURN(question.model, LoadModel(args.model, seq_len, notes));
  const absl::Status allowed =
      args.predict_only ? CheckPredictable(question.model) : CheckEngineSupports(question.model);
  if (!allowed.ok()) return Where(fmt::format("--model: {}", args.model), allowed, "model");
  Precision precision;
  AUTOCFG_RETURN_IF_ERROR(LoadMachine(args, pool, request, precision));
  question.workload = {global_batch, seq_len != 0 ? seq_len : question.model.max_seq_len, precision};
  AUTOCFG_RETURN_IF_ERROR(ApplyOptimizer(args.optimizer, question.workload));
  AUTOCFG_RETURN_IF_ERROR(Validate(question.workload, question.model));
  v1::SearchSpec& spec = request.spec;
  *spec.mutable_model() = ToProto(question.model);
  *spec.mutable_cluster() = ToProto(question.cluster);
  *spec.mutable_workload() = ToProto(question.workload);
  spec.set_predict_only(args.predict_only);
  spec.set_device(std::string(Name(question.device)));
  return absl::OkStatus();
}

absl::Status LoadLimits(const SearchArgs& args, SearchRequest& request) {
  v1::SearchSpec& spec = request.spec;
  if (!args.max_trials.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto trials, ParseWhole("--max-trials", args.max_trials));
    spec.set_max_trials(trials);
  }
  if (!args.time_budget.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto budget, ParseDuration("--time-budget", args.time_budget,
                                                              kShortestBudgetSeconds, kYearSeconds));
    spec.set_time_budget_s(budget);
    AddUnitNote("--time-budget", base::Quantity::kSeconds, args.time_budget, request.question.notes);
  }
  if (!args.memory_margin.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto margin, ParseShare("--memory-margin", args.memory_margin));
    spec.set_memory_margin(margin);
  }
  spec.set_exhaustive(args.exhaustive);
  spec.set_fresh(args.fresh);
  return absl::OkStatus();
}

// Returns the values of --space and those that the engine can run, which are also set in the request.
absl::StatusOr<AxisValues> LoadSpaceOf(const SearchArgs& args, SearchRequest& request) {
  AUTOCFG_ASSIGN_OR_RETURN(auto space, LoadSpace(args.space));
  for (const auto& [name, values] : space) {
    auto& axis = *request.spec.add_space();
    axis.set_name(name);
    for (const auto& value : values) axis.add_values(value);
  }
  AUTOCFG_RETURN_IF_ERROR(NarrowToEngine(request, space));
  return space;
}

}  // namespace

bool IsDescribed(const SearchQuestion& question) {
  return DeviceTimesOfSearch(question.cluster, question.device, question.predict_only) ==
         DeviceTimes::kPredicted;
}

absl::StatusOr<SearchRequest> LoadSearch(const SearchArgs& args, const WorkerPool* pool) {
  SearchRequest request;
  SearchQuestion& question = request.question;
  AUTOCFG_RETURN_IF_ERROR(CheckPredictOnly(args));
  AUTOCFG_ASSIGN_OR_RETURN(request.asked_device, LoadDevice(args.device, /*dry=*/false));
  AUTOCFG_ASSIGN_OR_RETURN(request.training, LoadTrainingTerms(args.training));
  question.notes = UnitNotes(args.training);
  question.predict_only = args.predict_only;
  question.coordinator = args.service.coordinator;
  AUTOCFG_ASSIGN_OR_RETURN(request.weight, LoadWeight(args));
  std::vector<std::string> notes;  // of the model, which come last
  AUTOCFG_RETURN_IF_ERROR(LoadProblem(args, pool, request, notes));
  AUTOCFG_RETURN_IF_ERROR(LoadLimits(args, request));
  AUTOCFG_ASSIGN_OR_RETURN(const auto space, LoadSpaceOf(args, request));
  question.not_considered = NotConsidered(question, space);
  if (args.fresh && args.predict_only && IsDescribed(question)) {
    return base::InvalidArgument("--fresh", "a prediction by figures measures nothing; leave it out");
  }
  // Runs the server's own validation before a database is created.
  if (const auto problem = server::ParseSearchSpec(request.spec); !problem.ok())
    return OfOption(problem.status(), args.cluster);
  AUTOCFG_RETURN_IF_ERROR(server::CheckSpecSize(request.spec));
  // The server has checked it.
  const auto ranged = SearchSpace::Create(question.model, question.workload, RankCount(question.cluster),
                                          space, {.predict_only = args.predict_only});
  if (ranged.ok()) {
    for (const std::string& range : ranged->RangeTexts())
      question.notes.push_back(fmt::format("--space: {}", range));
  }
  for (std::string& note : notes) question.notes.push_back(std::move(note));
  if (NamesRopeScalingAlone(question.model)) question.notes.push_back(RopeScalingNote(question.model));
  return request;
}

}  // namespace autocfg::cli
