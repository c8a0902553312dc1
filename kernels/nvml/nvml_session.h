// NVIDIA's management library (NVML), opened at run time: what the driver knows of the machine's GPUs. Names
// no CUDA and needs no toolkit; the declarations of its C functions are our own, from NVML's documentation. A
// session may be used from several threads, as the library may.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autocfg {

// Bytes of a GPU.
struct GpuMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;
  // of what is not free: kept back by the driver, whoever computes; 0 where an old driver does not tell it
  // apart
  std::int64_t reserved = 0;

  // In use by processes, and by what they make the driver keep.
  std::int64_t Used() const { return total - reserved - free; }
};

// A process that computes on a GPU, where the driver tells: inside a container it often does not.
struct GpuProcess {
  std::int64_t pid = 0;
  std::optional<std::int64_t> bytes = {};  // empty: not known
};

class NvmlSession {
 public:
  // Loads libnvidia-ml.so.1, or the file that AUTOCFG_NVML_LIBRARY names, and starts it. Null where there is
  // none or it does not answer; `why` then says so, in a few words without an end.
  static std::unique_ptr<NvmlSession> Open(std::string& why);
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;

  // The driver's version; "unknown" where it does not say.
  std::string Driver() const;
  // GPUs of the machine, whether they are visible to CUDA or not. 0 where the driver cannot count them.
  int Count() const;

  // Of the GPU at `index`, below Count(). Where the driver does not answer: an empty string, no value, 0.
  std::string Name(int index) const;
  std::string Uuid(int index) const;
  std::optional<GpuMemory> Memory(int index) const;
  bool MigIsOn(int index) const;
  // NVLinks that are up.
  int NvLinks(int index) const;
  // What lies between two GPUs, higher is farther: 0 the same board, 10 one PCIe switch, 20 several, 30 a
  // host bridge, 40 within a NUMA node, 50 beyond it. Empty where it is not known.
  std::optional<int> Distance(int index, int other) const;
  std::vector<GpuProcess> Processes(int index) const;

 private:
  struct Api;
  explicit NvmlSession(std::unique_ptr<Api> api);
  std::unique_ptr<Api> api_;
};

}  // namespace autocfg
