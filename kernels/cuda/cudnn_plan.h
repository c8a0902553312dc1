// Plans of cuDNN's backend interface: which engine computes an operation graph (cudnn_graph.h), and its
// execution on pointers. Throws as cudnn_descriptor.h does. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn_descriptor.h"

namespace autocfg::cuda {

class CudnnPlan {
 public:
  CudnnPlan(CudnnDescriptor plan, std::int64_t workspace_bytes, std::string passed_over)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes), passed_over_(std::move(passed_over)) {}

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Why the plan that cuDNN prefers to this one could not be made, in one line; empty where this is the
  // first.
  const std::string& passed_over() const { return passed_over_; }
  // The names of its kernels as far as cuDNN tells them (those that it compiles itself), separated by ", ".
  std::string Kernels() const;
  // On the handle's stream. `data[i]` is the memory of tensor `ids[i]`: on the device, or on the host for
  // scalars.
  void Execute(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& data,
               void* workspace) const;

 private:
  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_;
  std::string passed_over_;
};

// The first plan, in cuDNN's own order of preference, that can be made for a finalized operation graph. Where
// none can be, the first reason decides, that of the engine which cuDNN prefers: none where it is a refusal
// (IsRefusal), which `why` then says in one line; else it is thrown, as CudnnError. Want of memory always is,
// as DeviceOutOfMemory.
std::optional<CudnnPlan> FindCudnnPlan(const CudnnDescriptor& graph, const CudnnTarget& target,
                                       std::string* why);

// From cuDNN's account of why no engine takes a graph: the first reason of each engine, each once, in one
// line. What has no such form is answered with its first line.
std::string EngineReasons(std::string_view message);

// The kernels that a plan's JSON names, each once, separated by ", ".
std::string KernelNames(std::string_view plan_json);

}  // namespace autocfg::cuda
