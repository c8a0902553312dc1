// NVIDIA's management library (NVML), opened at run time: what the driver knows about the machine's GPUs.
// Needs no CUDA and no toolkit; the declarations of its C functions are our own, written from NVML's
// documentation. A session is thread-safe, as the library is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autocfg {

// Memory of a GPU in bytes.
struct GpuMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;
  // the part of the memory that the driver always reserves; 0 if an old driver does not report it separately
  std::int64_t reserved = 0;

  // Returns the bytes used by processes, including driver memory that they cause.
  std::int64_t Used() const { return total - reserved - free; }
};

// A process that computes on a GPU. Inside a container the driver often does not report processes.
struct GpuProcess {
  std::int64_t pid = 0;
  std::optional<std::int64_t> bytes = {};  // empty: unknown
};

class NvmlSession {
 public:
  // Loads libnvidia-ml.so.1, or the file that AUTOCFG_NVML_LIBRARY names, and initializes it. Returns null if
  // it is absent or does not answer; `why` then holds a short reason without a full stop.
  static std::unique_ptr<NvmlSession> Open(std::string& why);
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;

  // Returns the driver's version, or "unknown".
  std::string Driver() const;
  // Returns the number of GPUs of the machine, visible to CUDA or not. Returns 0 if the driver cannot count
  // them.
  int Count() const;

  // These functions describe the GPU at `index` < Count(). If the driver does not answer, they return an
  // empty string, no value or 0.
  std::string Name(int index) const;
  std::string Uuid(int index) const;
  std::optional<GpuMemory> Memory(int index) const;
  bool MigIsOn(int index) const;
  // Returns the number of NVLinks that are up.
  int NvLinks(int index) const;
  // Returns the topology level between two GPUs; higher is farther: 0 same board, 10 one PCIe switch, 20
  // several switches, 30 a host bridge, 40 within a NUMA node, 50 across NUMA nodes. Empty if unknown.
  std::optional<int> Distance(int index, int other) const;
  std::vector<GpuProcess> Processes(int index) const;

 private:
  struct Api;
  explicit NvmlSession(std::unique_ptr<Api> api);
  std::unique_ptr<Api> api_;
};

}  // namespace autocfg
