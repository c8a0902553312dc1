// The GPUs of this machine that ranks can run on, and why others are left out. Thread-safe; every call asks
// the driver anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

struct GpuInfo {
  int index = 0;                  // in the driver's order
  std::string name = {};          // such as "NVIDIA H200"
  std::string uuid = {};          // names it in CUDA_VISIBLE_DEVICES, whatever order CUDA counts in
  std::int64_t memory_bytes = 0;  // all of it, the driver's own part included
  std::int64_t free_bytes = 0;
  int nvlinks = 0;  // that are up
  // what lies between it and the farthest other of the list, such as "PCIe switch"; empty: alone, or not
  // known
  std::string farthest = {};
  std::string left_out = {};  // why no rank runs on it; empty: ranks do

  bool operator==(const GpuInfo&) const = default;
};

struct GpuList {
  // that ranks run on, in the order of CUDA_VISIBLE_DEVICES, else the driver's
  std::vector<GpuInfo> gpus = {};
  // visible, but not used: MIG is on, or the driver does not describe them
  std::vector<GpuInfo> left_out = {};
  std::string driver = {};    // its version; empty without one
  std::string why_none = {};  // "no GPU: ..." where `gpus` is empty, one line

  bool operator==(const GpuList&) const = default;
};

// An absent library, driver or GPU is an empty list that says why. MIG is left as it is: a GPU with MIG on is
// listed as left out.
GpuList ListGpus();

// Of a list, for CUDA_VISIBLE_DEVICES.
std::vector<std::string> UuidsOf(const GpuList& list);

// "GPU 0 (NVIDIA H200)".
std::string TextOf(const GpuInfo& gpu);

// The names of the list's GPUs and their driver, such as "8 x NVIDIA H200, driver 570.1": of each name once,
// in their order, with the count where `counted`.
std::string NamesOf(const GpuList& list, bool counted);

// Places in `uuids` that CUDA_VISIBLE_DEVICES shows, in its order: all where it is not set; entries are
// places, or beginnings of uuids of one GPU alone. As CUDA does, what stands behind an entry that names no
// GPU, or one named before, is not shown. Pure.
std::vector<std::size_t> VisiblePlaces(const std::optional<std::string>& variable,
                                       const std::vector<std::string>& uuids);

}  // namespace autocfg
