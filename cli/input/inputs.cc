#include "cli/input/inputs.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/option_values.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/framework_file.h"
#include "search/hugging_face/hugging_face.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_question.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

bool LooksLikeFile(const std::string& text) {
  std::error_code ignored;
  return text.find('/') != std::string::npos || text.ends_with(".json") ||
         std::filesystem::exists(text, ignored);
}

absl::StatusOr<Json> ParseObject(const std::string& path, const std::string& text) {
  auto json = base::ParseJson(path, text);
  if (json.ok() && !json->is_object())
    return absl::InvalidArgumentError(fmt::format("{}: not a JSON object; give a file that holds one", path));
  return json;
}

absl::StatusOr<Json> ReadJson(const std::string& path) {
  const auto text = ReadTextFile(path);
  return text.ok() ? ParseObject(path, base::QuoteNonFinite(*text)) : text.status();
}

absl::StatusOr<ModelSpec> ReadModel(const std::string& path, std::vector<std::string>& notes) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto text, ReadTextFile(path));
  if (const std::string_view framework = FrameworkOf(text); !framework.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a file of {}, not a model's; autocfg import reads it, and its --output is a file that "
        "can stand here",
        base::Printable(path), framework));
  }
  const auto json = ParseObject(path, base::QuoteNonFinite(text));  // it may be a pipe, which is read once
  if (!json.ok()) return json.status();
  // Of an answer (docs/formats.md, "best.json"), its model.
  const bool answer = json->is_object() && json->contains("best") && json->contains("model");
  const auto& described = answer ? (*json)["model"] : *json;
  const auto model =
      IsHuggingFaceConfig(described) ? ImportHuggingFace(described, &notes) : ParseModelJson(described);
  if (!model.ok()) return Where(path, model.status(), "model");
  const auto engine = answer ? json->find("engine") : json->end();
  if (engine != json->end() && engine->is_string() && *engine != std::string(kOwnEngine)) {
    notes.push_back(
        fmt::format("of {}, the model alone is taken; its plan is for the engine {}, and --engine "
                    "says whose step is predicted",
                    base::Printable(path), base::Printable(engine->get<std::string>())));
  }
  return *model;
}

absl::StatusOr<ClusterSpec> ReadCluster(const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto json, ReadJson(path));
  // Of an answer (docs/formats.md, "best.json"), its cluster.
  const bool answer = json.is_object() && json.contains("best") && json.contains("cluster");
  if (answer && !json["cluster"].is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the answer describes no cluster; give another file, or a preset with its size",
                    base::Printable(path)));
  }
  auto cluster = ParseClusterJson(answer ? json["cluster"] : json);
  if (!cluster.ok()) return Where(path, cluster.status(), "cluster");
  if (cluster->name.empty()) cluster->name = base::Printable(std::filesystem::path(path).stem().string());
  return *cluster;
}

}  // namespace

absl::StatusOr<std::int64_t> LoadSeqLen(const std::string& text) {
  if (text.empty()) return 0;
  return ParseWholeWithUnit("--seq-len", base::Quantity::kSequenceLength, text, 1, kMaxSeqLen);
}

absl::StatusOr<ModelSpec> LoadModel(const std::string& text, std::int64_t seq_len,
                                    std::vector<std::string>& notes) {
  if (text.empty()) return absl::InvalidArgumentError("--model: empty; give a preset's name or a file");
  auto model = ModelPreset(text);
  if (!model.ok()) {
    if (!LooksLikeFile(text)) {
      return Where("--model", model.status(), "model");
    }
    model = ReadModel(text, notes);
    if (!model.ok()) return Where("--model", model.status());
  }
  FillDefaults(*model, seq_len);
  if (auto status = Validate(*model); !status.ok())
    return Where(fmt::format("--model: {}", text), status, "model");
  if (auto status = CheckPredictable(*model); !status.ok())
    return Where(fmt::format("--model: {}", text), status, "model");
  return *model;
}

absl::StatusOr<AnswerFile> LoadAnswerFile(const std::string& path) {
  const auto text = ReadTextFile(path);
  if (!text.ok()) return Where("--input", text.status());
  if (const std::string_view framework = FrameworkOf(*text); !framework.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--input: {} is a file of {}; give a file that autocfg search --output wrote, or what "
                    "autocfg import --output writes for this one",
                    path, framework));
  }
  auto file = ReadAnswerFile(*text);
  if (!file.ok()) return Where(fmt::format("--input: {}", path), file.status(), "answer");
  return file;
}

absl::Status CheckStoredWeights(const std::string& model) {
  if (ModelPreset(model).ok() || !LooksLikeFile(model)) return absl::OkStatus();
  const auto json = ReadJson(model);
  if (!json.ok()) return json.status();  // as of a pipe, whose text was read with the model
  const std::string meaning = OtherMeaningOfWeights(*json);
  if (meaning.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("{}, which is not supported yet; leave it out, or use another model", meaning));
}

absl::StatusOr<ClusterSpec> LoadCluster(const std::string& text, const GpuList& machine) {
  if (text.empty())
    return absl::InvalidArgumentError(
        "--cluster: empty; give local, a preset such as a100-80gb-sxm:1x8, or a file");
  const std::string_view preset = std::string_view(text).substr(0, text.find(':'));
  if (preset == "local") {
    const auto name = ParseClusterName(text);
    if (!name.ok()) return Where("--cluster", name.status(), "cluster");
    if (name->nodes > 1) {
      return absl::InvalidArgumentError(
          fmt::format("--cluster: {}: this machine is one node; give local:1x{}", text, name->gpus_per_node));
    }
    auto cluster = worker::LocalCluster(name->nodes == 0 ? 0 : name->gpus_per_node, machine);
    if (!cluster.ok()) return Where("--cluster", cluster.status());
    return *cluster;
  }
  const auto known = DevicePresetNames();
  if (std::find(known.begin(), known.end(), preset) == known.end() && LooksLikeFile(text)) {
    auto cluster = ReadCluster(text);
    if (!cluster.ok()) return Where("--cluster", cluster.status());
    return *cluster;
  }
  auto cluster = PresetCluster(text);
  if (!cluster.ok()) return Where("--cluster", cluster.status(), "cluster");
  return *cluster;
}

absl::StatusOr<ClusterSpec> LoadDescribedCluster(const std::string& text) {
  auto cluster = LoadCluster(text);
  if (cluster.ok() && cluster->local) return Where("--cluster", LocalHasNoFigures(), "cluster");
  return cluster;
}

namespace {

// Maps the cluster to this machine's GPUs, for measuring all of it or slices of it.
absl::StatusOr<ClusterSpec> MeasuredOnGpus(const std::string& text, const ClusterSpec& cluster,
                                           const GpuList& machine) {
  ClusterSpec here = cluster;
  const auto gpus = static_cast<std::int64_t>(machine.gpus.size());
  here.local = cluster.groups.size() == 1 && cluster.groups.front().nodes == 1 &&
               cluster.groups.front().gpus_per_node <= gpus;
  for (NodeGroup& group : here.groups) {
    DeviceSpec& device = group.device;
    if (device.kind != DeviceKind::kCuda) {
      return absl::InvalidArgumentError(fmt::format(
          "--device: cuda measures on GPUs, and the devices of --cluster {} are CPUs; give cpu", text));
    }
    for (const GpuInfo& gpu : machine.gpus) {
      if (IsLike(device.name, gpu)) continue;
      return absl::InvalidArgumentError(
          fmt::format("--cluster: {}: its devices are {}, and {} here is none: its plans cannot be measured "
                      "on it; give --predict-only, or "
                      "--device paced to emulate it",
                      text, device.name.empty() ? "not named" : device.name, TextOf(gpu)));
    }
    for (const GpuInfo& gpu : machine.gpus)
      device.memory_bytes = std::min(device.memory_bytes, gpu.memory_bytes);
    if (!device.overhead_bytes) device.overhead_bytes = worker::kGpuOverheadBytes;
    group.ranks_per_core = 1;
  }
  return here;
}

}  // namespace

absl::StatusOr<ClusterSpec> MeasuredHere(const std::string& text, const ClusterSpec& cluster,
                                         const RunDevice& device) {
  if (UsesGpus(device.engine)) return MeasuredOnGpus(text, cluster, device.machine);
  for (const NodeGroup& group : cluster.groups) {
    if (group.device.kind != DeviceKind::kCpu) {
      const std::string why = device.notes.empty() ? "" : fmt::format(" ({})", fmt::join(device.notes, "; "));
      return absl::InvalidArgumentError(
          fmt::format("--cluster: {}: its plans cannot be measured on this machine's CPUs{}; give "
                      "--predict-only, or --device paced to "
                      "emulate it",
                      text, why));
    }
  }
  ClusterSpec here = cluster;
  here.local = cluster.groups.size() == 1 && cluster.groups.front().nodes == 1;
  for (NodeGroup& group : here.groups) {
    const auto machine = worker::LocalCluster(group.gpus_per_node);
    if (!machine.ok()) return Where(fmt::format("--cluster: {}", text), machine.status());
    const NodeGroup& most = machine->groups.front();
    std::int64_t& memory = group.device.memory_bytes;
    memory = memory == 0 ? most.device.memory_bytes : std::min(memory, most.device.memory_bytes);
    // Plans larger than a node are measured as slices, each on a core of its own.
    if (here.local) group.ranks_per_core = most.ranks_per_core;
  }
  return here;
}

namespace {

// `empty`: the precision of an empty text. `bases`: which ones the error of an unknown one names.
absl::StatusOr<Precision> ParsePrecisionOption(const std::string& text, std::string_view empty,
                                               std::string_view bases) {
  const std::string_view given = text.empty() ? empty : text;
  const std::string_view name = given.substr(0, given.find(':'));
  if (!bases.empty() && !ParsePrecision(name).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--precision: unknown precision '{}'; expected {}", base::Printable(name), bases));
  }
  auto precision = ParsePrecision(given);
  if (!precision.ok()) return base::WithSubject("--precision", precision.status());
  return precision;
}

}  // namespace

absl::StatusOr<Precision> LoadPrecision(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto precision, ParsePrecisionOption(text, "fp32", "fp32 or fp64"));
  AUTOCFG_RETURN_IF_ERROR(base::WithSubject("--precision", CheckRuns(DeviceKind::kCpu, precision)));
  return precision;
}

absl::StatusOr<Precision> LoadGpuPrecision(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto precision, ParsePrecisionOption(text, "bf16", "bf16 or fp32"));
  AUTOCFG_RETURN_IF_ERROR(base::WithSubject("--precision", CheckRuns(DeviceKind::kCuda, precision)));
  return precision;
}

absl::StatusOr<Precision> LoadPlannedPrecision(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto precision, ParsePrecisionOption(text, "fp32", ""));
  AUTOCFG_RETURN_IF_ERROR(base::WithSubject("--precision", CheckEngineRuns(precision)));
  return precision;
}

absl::StatusOr<ParallelPlan> LoadPlan(const std::string& text) {
  absl::StatusOr<ParallelPlan> plan;
  if (text.starts_with('{')) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto json, base::ParseJson("--plan", text));
    plan = ParsePlanJson(json);
  } else {
    plan = ParsePlanText(text);
  }
  if (!plan.ok()) return Where("--plan", plan.status(), "plan");
  return *plan;
}

absl::StatusOr<ParallelPlan> CheckPlan(const RunView& run, std::int64_t max_ranks) {
  if (auto status = CheckLegal(run, max_ranks); !status.ok()) return OfOption(status);
  const ParallelPlan canonical = Canonical(run.plan);
  if (auto status = CheckEngineSupports(canonical); !status.ok())
    return Where(fmt::format("plan {}", ShortPlanText(run.plan)), status, "plan");
  return canonical;
}

bool IsAutoDevice(std::string_view text) { return text.empty() || text == "auto"; }

absl::StatusOr<std::optional<EngineDevice>> LoadDevice(const std::string& text, bool dry) {
  if (IsAutoDevice(text)) return std::nullopt;
  const std::optional<EngineDevice> device = ParseEngineDevice(text);
  if (!device) {
    return absl::InvalidArgumentError(
        fmt::format("--device: unknown device '{}'; expected auto, {}", text, EngineDeviceNames(dry)));
  }
  if (IsDry(*device) && !dry)
    return absl::InvalidArgumentError("--device: dry computes nothing, so a search cannot use it; give cpu");
  return device;
}

absl::StatusOr<AxisValues> LoadSpace(const std::vector<std::string>& texts) {
  auto space = ParseAxisValues(texts);
  if (!space.ok()) return OfOption(space.status());
  return space;
}

}  // namespace autocfg::cli
