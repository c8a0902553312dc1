// autocfg models, autocfg clusters: list the presets, and what else --model and --cluster take.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/hugging_face/model_families.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMillion = 1e6, kBillion = 1e9;

std::vector<std::string> ConfigTypes() {
  std::vector<std::string> types;
  for (const ModelFamily& family : ModelFamilies()) types.emplace_back(family.type);
  return types;
}

std::string CountText(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count < kBillion ? fmt::format("{:.2f} M", count / kMillion)
                          : fmt::format("{:.2f} B", count / kBillion);
}

int RunModels(bool as_json) {
  Json presets = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"preset", "params", "layers", "hidden", "heads/kv", "ffn", "vocab", "tokens"}};
  for (const std::string& name : ModelPresetNames()) {
    auto model = ModelPreset(name);
    if (!model.ok()) return Fail(model.status());
    FillDefaults(*model);
    const std::int64_t parameters = ParameterCount(*model);
    Json json = ModelJson(*model);
    json["parameters"] = parameters;
    presets.push_back(std::move(json));
    rows.push_back({name, CountText(parameters), std::to_string(model->layers), std::to_string(model->hidden),
                    model->kv_heads == model->heads ? std::to_string(model->heads)
                                                    : fmt::format("{}/{}", model->heads, model->kv_heads),
                    std::to_string(model->ffn_hidden), std::to_string(model->vocab),
                    std::to_string(model->max_seq_len)});
  }
  if (as_json) return Answer(Json{{"presets", presets}, {"config_types", ConfigTypes()}}.dump(2) + "\n");
  return Answer(
      Table(rows) +
      Wrapped("--model also takes a Hugging Face config.json, or a file of our own (docs/formats.md)") +
      Wrapped(fmt::format("types of config.json: {}", fmt::join(ConfigTypes(), ", "))));
}

std::string Rate(double per_s) { return base::QuantityText(base::Quantity::kBytesPerSecond, per_s); }

int RunClusters(bool as_json) {
  Json presets = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"preset", "memory", "bandwidth", "16-bit TFLOP/s", "GPUs a node", "within a node", "between nodes"}};
  for (const std::string& name : DevicePresetNames()) {
    const auto cluster = PresetCluster(name);
    if (!cluster.ok()) return Fail(cluster.status());
    const NodeGroup& group = cluster->groups.front();
    const DeviceSpec& device = group.device;
    presets.push_back(ClusterJson(*cluster));
    const double rate = device.flops_per_s_bf16 > 0 ? device.flops_per_s_bf16 : device.flops_per_s_fp16;
    rows.push_back({name, base::BytesText(device.memory_bytes), Rate(device.memory_bytes_per_s),
                    fmt::format("{:.0f}", rate / 1e12), std::to_string(group.gpus_per_node),
                    Rate(group.intra_node_bytes_per_s), Rate(group.inter_node_bytes_per_s)});
  }
  if (as_json) return Answer(presets.dump(2) + "\n");
  return Answer(
      Table(rows) +
      Wrapped(
          "--cluster takes a preset with its size, such as h100-sxm:16x8 for 16 nodes of 8 GPUs, local, or "
          "a file (docs/formats.md)") +
      Wrapped("rates are those of data sheets, without sparsity; links are of a GPU in one direction"));
}

// Adds a verb without other options than --json.
void AddList(CLI::App& app, Verb& chosen, const std::string& name, const std::string& summary,
             int (*run)(bool as_json)) {
  CLI::App* verb = app.add_subcommand(name, summary);
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "as JSON");
  verb->callback([json, run, &chosen] { chosen = [json, run] { return run(*json); }; });
}

}  // namespace

void AddModels(CLI::App& app, Verb& chosen) {
  AddList(app, chosen, "models", "list the presets of --model, and the types of config.json", RunModels);
}

void AddClusters(CLI::App& app, Verb& chosen) {
  AddList(app, chosen, "clusters", "list the presets of --cluster", RunClusters);
}

}  // namespace autocfg::cli
