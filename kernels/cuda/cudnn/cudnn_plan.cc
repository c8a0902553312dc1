#include "kernels/cuda/cudnn/cudnn_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

namespace autocfg::cuda {
namespace {

void AddOnce(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

// Returns the engines that cuDNN proposes, each with its knobs set, the preferred one first.
std::vector<CudnnDescriptor> EngineConfigs(const CudnnDescriptor& graph, const CudnnTarget& target,
                                           cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the choice of an engine");
  heuristic.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.SetOne(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  target.SetPropertiesOn(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  heuristic.Finalize();
  std::int64_t count = 0;
  CheckCudnn(Cudnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
             "counting engines");
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration");
    raw.push_back(configs.back().get());
  }
  CheckCudnn(Cudnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
             "querying engines");
  while (std::ssize(configs) > count) configs.pop_back();
  return configs;
}

CudnnDescriptor FinalizedPlan(const CudnnDescriptor& config, const CudnnTarget& target) {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
  target.SetHandleOn(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  target.SetPropertiesOn(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  plan.Finalize();
  return plan;
}

std::int64_t WorkspaceBytes(const CudnnDescriptor& plan) {
  std::int64_t bytes = 0, count = 0;
  CheckCudnn(Cudnn().get_attribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                   &count, &bytes),
             "querying a plan's workspace size");
  return bytes;
}

}  // namespace

std::string CudnnPlan::Kernels() const {
  std::int64_t length = 0;
  const auto ask = [&](std::int64_t room, char* text) {
    CheckCudnn(Cudnn().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, room, &length, text),
               "querying a plan's kernels");
  };
  ask(0, nullptr);
  std::string json(static_cast<std::size_t>(length), '\0');
  ask(length, json.data());
  return KernelNames(json);
}

void CudnnPlan::Execute(cudnnHandle_t handle, const std::vector<std::int64_t>& ids,
                        const std::vector<void*>& data, void* workspace) const {
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the operands of a plan");
  const auto count = static_cast<std::int64_t>(ids.size());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
  pack.SetOne(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.Finalize();
  CheckCudnn(Cudnn().execute(handle, plan_.get(), pack.get()), "executing a plan");
}

std::optional<CudnnPlan> FindCudnnPlan(const CudnnDescriptor& graph, const CudnnTarget& target,
                                       std::string* why) {
  why->clear();
  // The failure of the engine that cuDNN prefers; the others are for other graphs and report that.
  std::optional<CudnnError> failure;  // the first reason, if it is not a refusal
  const auto set_reason = [&](const std::string& reason) {
    if (why->empty()) *why = reason;
  };
  const auto note = [&](const CudnnError& error) {
    if (why->empty() && !IsRefusal(error.status)) failure = error;
    set_reason(error.what());
  };
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      const std::vector<CudnnDescriptor> configs = EngineConfigs(graph, target, mode);
      if (configs.empty()) set_reason("no cuDNN engine supports it: " + EngineReasons(LastCudnnMessage()));
      for (const CudnnDescriptor& config : configs) {
        try {
          CudnnDescriptor plan = FinalizedPlan(config, target);
          const std::int64_t bytes = WorkspaceBytes(plan);
          return CudnnPlan(std::move(plan), bytes, std::exchange(*why, ""));
        } catch (const CudnnError& e) {
          note(e);
        }
      }
    } catch (const CudnnError& e) {
      note(e);
    }
  }
  if (failure) throw *failure;
  return std::nullopt;
}

std::string EngineReasons(std::string_view message) {
  constexpr std::string_view kCode = "CUDNN_STATUS_NOT_SUPPORTED_", kReason = "; Reason: ";
  const std::string first(message.substr(0, message.find('\n')));
  std::vector<std::string> reasons;
  bool first_of_engine = false;
  while (!message.empty()) {
    const std::string_view line = message.substr(0, message.find('\n'));
    message.remove_prefix(std::min(message.size(), line.size() + 1));
    const std::size_t at = line.find(kReason);
    if (at == std::string_view::npos) {
      first_of_engine = line.find("engineId") != std::string_view::npos;
      continue;
    }
    if (!std::exchange(first_of_engine, false)) continue;
    const std::size_t code = line.find(kCode);
    std::string reason(line.substr(at + kReason.size()));
    if (code < at) reason += fmt::format(" ({})", line.substr(code + kCode.size(), at - code - kCode.size()));
    AddOnce(reasons, std::move(reason));
  }
  return reasons.empty() ? first : fmt::format("{}", fmt::join(reasons, "; "));
}

std::string KernelNames(std::string_view plan_json) {
  constexpr std::string_view kKey = "\"kernelName\":\"";
  std::vector<std::string> names;
  for (std::size_t at = plan_json.find(kKey); at != std::string_view::npos; at = plan_json.find(kKey, at)) {
    at += kKey.size();
    AddOnce(names, std::string(plan_json.substr(at, plan_json.find('"', at) - at)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace autocfg::cuda
