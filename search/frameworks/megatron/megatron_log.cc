// What Megatron-LM and Megatron-Bridge print into their logs, as options. Megatron-LM prints its namespace of
// arguments after it has checked them (megatron/training/arguments.py, _print_args), by the names of
// variables and with the defaults: "add_bias_linear" for --disable-bias-linear. Megatron-Bridge prints the
// fields of its configuration that differ from the core's defaults (megatron/bridge/training/config.py,
// log_non_default_values).
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "search/frameworks/megatron/megatron.h"

namespace autocfg {
namespace {

// What follows from other arguments, or belongs to the rank that prints.
constexpr std::string_view kDerived[] = {"rank",
                                         "local_rank",
                                         "data_parallel_size",
                                         "params_dtype",
                                         "encoder_num_layers",
                                         "encoder_seq_length",
                                         "virtual_pipeline_model_parallel_size",
                                         "transformer_pipeline_model_parallel_size",
                                         "scatter_gather_tensors_in_pipeline",
                                         "consumed_train_samples"};

// Options that are there if their variable is false.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNegated = {
    {{"add_bias_linear", megatron::kNoBiases},
     {"add_position_embedding", "--no-position-embedding"},
     {"overlap_p2p_comm", megatron::kPlainMessages}}};

// Variables of other names than their options, and fields of Megatron-Bridge.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kRenamed = {
    {{"fp8", "--fp8-format"},
     {"fp4", "--fp4-format"},
     {"layernorm_epsilon", "--norm-epsilon"},
     {"gated_linear_unit", megatron::kSwiGlu},
     {"num_moe_experts", "--num-experts"},
     {"sequence_length", kMegatronNames.seq_len},
     {"grad_reduce_in_fp32", megatron::kWideGradients}}};

// Sections of Megatron-Bridge with fields that are options of Megatron-LM.
constexpr std::string_view kSections[] = {"model", "ddp", "optimizer", "train", "dataset"};

constexpr std::string_view kVirtualStages = "virtual_pipeline_model_parallel_size";

template <typename Table>
std::string_view FindIn(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(table) ? std::string_view() : found->second;
}

// AttnBackend.auto is auto, and torch.bfloat16 bf16.
std::string ValueOf(std::string value) {
  if (value.starts_with("torch.")) {
    const std::string type = value.substr(std::string_view("torch.").size());
    return type == "bfloat16" ? "bf16" : type == "float16" ? "fp16" : type == "float32" ? "fp32" : type;
  }
  if (const std::size_t dot = value.find("Backend."); dot != std::string::npos) {
    value = value.substr(dot + std::string_view("Backend.").size());
  }
  return value;
}

class LoggedOptions {
 public:
  explicit LoggedOptions(const SettingsText& log) {
    for (const Setting& setting : log.settings) {
      const std::size_t dot = setting.name.find('.');
      const std::string section = dot == std::string::npos ? "" : setting.name.substr(0, dot);
      if (!section.empty() && std::ranges::find(kSections, section) == std::end(kSections)) continue;
      of_bridge_ = of_bridge_ || !section.empty();
      named_.emplace(dot == std::string::npos ? setting.name : setting.name.substr(dot + 1), &setting);
    }
  }

  std::vector<Setting> Options() const {
    std::vector<Setting> options;
    for (const auto& [name, setting] : named_) Take(name, *setting, options);
    if (const Setting* tokens = Find("tokens of the vocabulary")) {
      std::erase_if(options, [](const Setting& option) {
        return option.name == megatron::kTokenizer || option.name == megatron::kVocab;
      });
      Put(megatron::kVocab, tokens->values, *tokens, options);
    }
    // How the stages are divided, if no option of it was given.
    const bool divided = Says("num_layers_per_virtual_pipeline_stage") ||
                         Says("num_virtual_stages_per_pipeline_rank") ||
                         Says("pipeline_model_parallel_layout");
    if (Says(kVirtualStages) && !divided)
      Put("--num-virtual-stages-per-pipeline-rank", Find(kVirtualStages)->values, *Find(kVirtualStages),
          options);
    if (of_bridge_ && Says("num_query_groups"))
      Put(megatron::kGroupedQueries, {}, *Find("num_query_groups"), options);
    if (of_bridge_ && !options.empty()) Put(megatron::kFromBridge, {}, *named_.begin()->second, options);
    return options;
  }

 private:
  const Setting* Find(std::string_view name) const {
    const auto found = named_.find(std::string(name));
    return found == named_.end() ? nullptr : found->second;
  }
  bool Says(std::string_view name) const {
    const Setting* setting = Find(name);
    return setting != nullptr && !setting->values.empty() && setting->values.front() != "None";
  }

  static void Put(std::string_view name, std::vector<std::string> values, const Setting& of,
                  std::vector<Setting>& options) {
    options.push_back({.name = std::string(name), .values = std::move(values), .at = of.at});
  }

  void Take(const std::string& name, const Setting& setting, std::vector<Setting>& options) const {
    if (std::ranges::find(kDerived, name) != std::end(kDerived) || name.find(' ') != std::string::npos)
      return;
    // Details of an overlap that another option switches on.
    if (name.starts_with("tp_comm_") && name != "tp_comm_overlap") return;
    if (name == "recompute_modules" && !IsSelective()) return;
    const std::string_view negated = FindIn(kNegated, name);
    const bool of_stages = negated == megatron::kPlainMessages && !Says(kVirtualStages);
    if (setting.values.empty() || setting.values.front() == "None" || of_stages) return;
    const std::string& first = setting.values.front();
    std::string option = fmt::format("--{}", name);
    std::ranges::replace(option, '_', '-');
    if (const std::string_view renamed = FindIn(kRenamed, name); !renamed.empty()) option = renamed;
    if (first == "True" || first == "False") {
      const bool there = (first == "True") == negated.empty();
      if (there) Put(negated.empty() ? std::string_view(option) : negated, {}, setting, options);
      if (first == "False" && name == "grad_reduce_in_fp32")
        Put(megatron::kNarrowGradients, {}, setting, options);
      return;
    }
    std::vector<std::string> values;
    for (const std::string& value : setting.values) values.push_back(ValueOf(value));
    Put(option, std::move(values), setting, options);
  }

  bool IsSelective() const {
    return Says("recompute_granularity") &&
           Find("recompute_granularity")->values.front() == kSelectiveRecompute;
  }

  std::map<std::string, const Setting*> named_;  // the first of each name
  bool of_bridge_ = false;
};

}  // namespace

void TakeMegatronLog(SettingsText& log) {
  std::vector<Setting> options = LoggedOptions(log).Options();
  std::ranges::stable_sort(options, {}, &Setting::at);
  log.settings = std::move(options);
  log.flags_are_present = true;
}

}  // namespace autocfg
