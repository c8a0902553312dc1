// Lists the GPUs of this machine that ranks can run on, and why other GPUs are left out. Thread-safe. Every
// call queries the driver again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

struct GpuInfo {
  int index = 0;                  // in the driver's order
  std::string name = {};          // for example "NVIDIA H200"
  std::string uuid = {};          // identifies it in CUDA_VISIBLE_DEVICES, independent of CUDA's order
  std::int64_t memory_bytes = 0;  // total, including the driver's own part
  std::int64_t free_bytes = 0;
  int nvlinks = 0;  // NVLinks that are up
  // what lies between this GPU and the most distant other GPU of the list, such as "PCIe switch"; empty if it
  // is the only one or if unknown
  std::string farthest = {};
  std::string left_out = {};  // why no rank runs on it; empty if ranks do

  bool operator==(const GpuInfo&) const = default;
};

struct GpuList {
  // usable by ranks, in the order of CUDA_VISIBLE_DEVICES, else the driver's
  std::vector<GpuInfo> gpus = {};
  // visible but unused: MIG is on, or the driver does not describe them
  std::vector<GpuInfo> left_out = {};
  std::string driver = {};    // driver version; empty if there is no driver
  std::string why_none = {};  // one line, "no GPU: ...", if `gpus` is empty

  bool operator==(const GpuList&) const = default;
};

// Returns an empty list with the reason if the library, the driver or a GPU is absent. Does not change MIG
// settings: a GPU with MIG on is listed as left out.
GpuList ListGpus();

// Returns the UUIDs of the list's GPUs, for CUDA_VISIBLE_DEVICES.
std::vector<std::string> UuidsOf(const GpuList& list);

// Returns, for example, "GPU 0 (NVIDIA H200)".
std::string TextOf(const GpuInfo& gpu);

// Returns the names of the list's GPUs and their driver, such as "8 x NVIDIA H200, driver 570.1". Each name
// appears once, in list order, with its count if `counted`.
std::string NamesOf(const GpuList& list, bool counted);

// Returns the indices into `uuids` that CUDA_VISIBLE_DEVICES makes visible, in its order; all of them if it
// is not set. Entries are indices or unambiguous UUID prefixes. As in CUDA, an entry that names no GPU, or
// one already named, hides itself and all later entries. Pure.
std::vector<std::size_t> VisiblePlaces(const std::optional<std::string>& variable,
                                       const std::vector<std::string>& uuids);

// Formats a GPU's 16-byte UUID as the driver does: "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string GpuUuidText(std::span<const unsigned char, 16> bytes);

// Returns the bytes of the GPU that the driver counts as memory (GpuInfo::memory_bytes) but withholds from
// all processes: those beyond the `visible_bytes` that CUDA reports. Returns 0 if the driver's library is
// missing or does not know the GPU.
std::int64_t KeptBackBytes(const std::string& uuid, std::int64_t visible_bytes);

}  // namespace autocfg
