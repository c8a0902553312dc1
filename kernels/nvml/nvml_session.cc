#include "kernels/nvml/nvml_session.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace autocfg {
namespace {

// NVML's C interface, following its documentation.
using Handle = struct NvmlDevice*;
using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kInsufficientSize = 7;
constexpr unsigned kMostLinks = 32;  // more than any GPU has; the library rejects the excess indices
constexpr unsigned long long kNotAvailable = ~0ull;

struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// MemoryInfo plus the memory that the driver reserves. `version` encodes the struct's size and its version.
struct MemoryInfo2 {
  unsigned version = 0;
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
constexpr unsigned kMemoryInfo2 = sizeof(MemoryInfo2) | 2u << 24;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

std::string LibraryName() {
  const char* named = std::getenv("AUTOCFG_NVML_LIBRARY");
  return named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1";
}

}  // namespace

struct NvmlSession::Api {
  void* library = nullptr;
  bool started = false;
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*driver_version)(char*, unsigned) = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*handle)(unsigned, Handle*) = nullptr;
  Result (*name)(Handle, char*, unsigned) = nullptr;
  Result (*uuid)(Handle, char*, unsigned) = nullptr;
  Result (*memory)(Handle, MemoryInfo*) = nullptr;
  // Old drivers may lack these functions.
  Result (*memory2)(Handle, MemoryInfo2*) = nullptr;
  Result (*mig_mode)(Handle, unsigned* current, unsigned* pending) = nullptr;
  Result (*common_ancestor)(Handle, Handle, int* level) = nullptr;
  Result (*nvlink_state)(Handle, unsigned link, int* active) = nullptr;
  Result (*processes)(Handle, unsigned* count, ProcessInfo*) = nullptr;

  ~Api() {
    if (started) shutdown();
    if (library != nullptr) dlclose(library);
  }

  template <typename Function>
  bool Find(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, symbol));
    return function != nullptr;
  }

  // Resolves all functions. Returns the name of the first required function that this library lacks, or null.
  const char* FindAll() {
    const std::pair<const char*, bool> needed[] = {
        {"nvmlInit_v2", Find("nvmlInit_v2", init)},
        {"nvmlShutdown", Find("nvmlShutdown", shutdown)},
        {"nvmlErrorString", Find("nvmlErrorString", error_string)},
        {"nvmlSystemGetDriverVersion", Find("nvmlSystemGetDriverVersion", driver_version)},
        {"nvmlDeviceGetCount_v2", Find("nvmlDeviceGetCount_v2", count)},
        {"nvmlDeviceGetHandleByIndex_v2", Find("nvmlDeviceGetHandleByIndex_v2", handle)},
        {"nvmlDeviceGetName", Find("nvmlDeviceGetName", name)},
        {"nvmlDeviceGetUUID", Find("nvmlDeviceGetUUID", uuid)},
        {"nvmlDeviceGetMemoryInfo", Find("nvmlDeviceGetMemoryInfo", memory)}};
    for (const auto& [symbol, found] : needed) {
      if (!found) return symbol;
    }
    Find("nvmlDeviceGetMemoryInfo_v2", memory2);
    Find("nvmlDeviceGetMigMode", mig_mode);
    Find("nvmlDeviceGetTopologyCommonAncestor", common_ancestor);
    Find("nvmlDeviceGetNvLinkState", nvlink_state);
    Find("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    return nullptr;
  }

  // Returns null if the driver returns no handle.
  Handle Of(int index) const {
    Handle device = nullptr;
    return handle(static_cast<unsigned>(index), &device) == kSuccess ? device : nullptr;
  }

  std::string Text(int index, Result (*ask)(Handle, char*, unsigned)) const {
    std::array<char, 96> text{};
    const Handle device = Of(index);
    if (device == nullptr || ask(device, text.data(), text.size()) != kSuccess) return "";
    text.back() = '\0';
    return text.data();
  }
};

NvmlSession::NvmlSession(std::unique_ptr<Api> api) : api_(std::move(api)) {}

NvmlSession::~NvmlSession() = default;

std::unique_ptr<NvmlSession> NvmlSession::Open(std::string& why) {
  auto api = std::make_unique<Api>();
  const std::string name = LibraryName();
  api->library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (api->library == nullptr) {
    const char* error = dlerror();
    why = fmt::format("there is no NVIDIA driver ({})", error != nullptr ? error : name);
    return nullptr;
  }
  if (const char* missing = api->FindAll()) {
    why = fmt::format("{} has no {}: the NVIDIA driver is too old", name, missing);
    return nullptr;
  }
  if (const Result result = api->init(); result != kSuccess) {
    why = fmt::format("the NVIDIA driver does not answer ({})", api->error_string(result));
    return nullptr;
  }
  api->started = true;
  return std::unique_ptr<NvmlSession>(new NvmlSession(std::move(api)));
}

std::string NvmlSession::Driver() const {
  std::array<char, 80> version{};
  if (api_->driver_version(version.data(), version.size()) != kSuccess) return "unknown";
  version.back() = '\0';
  return version.data();
}

int NvmlSession::Count() const {
  unsigned count = 0;
  return api_->count(&count) == kSuccess ? static_cast<int>(count) : 0;
}

std::string NvmlSession::Name(int index) const { return api_->Text(index, api_->name); }

std::string NvmlSession::Uuid(int index) const { return api_->Text(index, api_->uuid); }

std::optional<GpuMemory> NvmlSession::Memory(int index) const {
  const auto bytes = [](unsigned long long number) { return static_cast<std::int64_t>(number); };
  const Handle device = api_->Of(index);
  if (device == nullptr) return std::nullopt;
  if (MemoryInfo2 all{.version = kMemoryInfo2};
      api_->memory2 != nullptr && api_->memory2(device, &all) == kSuccess) {
    return GpuMemory{.total = bytes(all.total), .free = bytes(all.free), .reserved = bytes(all.reserved)};
  }
  MemoryInfo memory{};
  if (api_->memory(device, &memory) != kSuccess) return std::nullopt;
  return GpuMemory{.total = bytes(memory.total), .free = bytes(memory.free)};
}

bool NvmlSession::MigIsOn(int index) const {
  unsigned current = 0;
  unsigned pending = 0;
  const Handle device = api_->Of(index);
  // A GPU without MIG reports that MIG is not supported.
  return device != nullptr && api_->mig_mode != nullptr &&
         api_->mig_mode(device, &current, &pending) == kSuccess && current != 0;
}

int NvmlSession::NvLinks(int index) const {
  const Handle device = api_->Of(index);
  if (device == nullptr || api_->nvlink_state == nullptr) return 0;
  int links = 0;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int active = 0;
    if (api_->nvlink_state(device, link, &active) == kSuccess && active != 0) ++links;
  }
  return links;
}

std::optional<int> NvmlSession::Distance(int index, int other) const {
  const Handle from = api_->Of(index);
  const Handle to = api_->Of(other);
  int level = 0;
  if (from == nullptr || to == nullptr || api_->common_ancestor == nullptr ||
      api_->common_ancestor(from, to, &level) != kSuccess)
    return std::nullopt;
  return level;
}

std::vector<GpuProcess> NvmlSession::Processes(int index) const {
  const Handle device = api_->Of(index);
  if (device == nullptr || api_->processes == nullptr) return {};
  std::vector<ProcessInfo> infos(64);
  auto count = static_cast<unsigned>(infos.size());
  Result result = api_->processes(device, &count, infos.data());
  if (result == kInsufficientSize) {
    infos.resize(std::size_t{count} + 64);  // more processes may start meanwhile
    count = static_cast<unsigned>(infos.size());
    result = api_->processes(device, &count, infos.data());
  }
  if (result != kSuccess) return {};
  std::vector<GpuProcess> processes;
  for (unsigned i = 0; i < count; ++i) {
    GpuProcess& process = processes.emplace_back(GpuProcess{.pid = infos[i].pid});
    if (infos[i].used_bytes != kNotAvailable) process.bytes = static_cast<std::int64_t>(infos[i].used_bytes);
  }
  return processes;
}

}  // namespace autocfg
