// Plans of cuDNN's backend interface: the engine for an operation graph (cudnn_graph.h) and its execution on
// pointers. Throws as cudnn_descriptor.h does. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_descriptor.h"

namespace autocfg::cuda {

class CudnnPlan {
 public:
  CudnnPlan(CudnnDescriptor plan, std::int64_t workspace_bytes, std::string passed_over)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes), passed_over_(std::move(passed_over)) {}

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Returns why the plan that cuDNN prefers could not be built, in one line; empty if this is the preferred
  // one.
  const std::string& passed_over() const { return passed_over_; }
  // Returns the names of its kernels separated by ", ". cuDNN reports only those that it compiles itself.
  std::string Kernels() const;
  // Executes on the handle's stream. `data[i]` is the memory of tensor `ids[i]`: on the device, or on the
  // host for scalars.
  void Execute(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& data,
               void* workspace) const;

 private:
  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_;
  std::string passed_over_;
};

// Returns the first plan, in cuDNN's order of preference, that can be built for a finalized operation graph.
// If none can, the reason of the engine that cuDNN prefers decides. If that is a refusal (IsRefusal), returns
// none and sets `why` to one line; else throws it as CudnnError. Lack of memory always throws
// DeviceOutOfMemory.
std::optional<CudnnPlan> FindCudnnPlan(const CudnnDescriptor& graph, const CudnnTarget& target,
                                       std::string* why);

// Extracts from cuDNN's report the first reason of each engine that rejects a graph, each once, in one line.
// For text in another form, returns its first line.
std::string EngineReasons(std::string_view message);

// Returns the kernel names in a plan's JSON, each once, separated by ", ".
std::string KernelNames(std::string_view plan_json);

}  // namespace autocfg::cuda
